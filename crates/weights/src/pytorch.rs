//! Files of `torch.save`: a zip archive with a pickle and one member for each storage.

use crate::archive::{Archive, Member};
use crate::error::{Error, Result, shortened};
use crate::pickle;
use crate::source::ByteSource;
use crate::state_dict::{Storages, flatten};
use crate::tensor::ByteOrder;
use crate::weights::Contents;

/// The pickle, below the folder that has the name of the saved file.
const PICKLE: &str = "data.pkl";

/// Reads an archive. Returns `None` if it has no pickle, like an `.npz` file.
pub(crate) fn read(source: &ByteSource) -> Result<Option<Contents>> {
    let archive = Archive::open(source)?;
    let pickles = archive.members.keys().filter_map(|name| name.strip_suffix(PICKLE));
    let Some(prefix) = pickles.min_by_key(|prefix| prefix.len()).map(str::to_owned) else {
        return Ok(None);
    };
    let order = match archive.members.get(&format!("{prefix}byteorder")) {
        None => ByteOrder::Little,
        Some(member) => match &member.read_all()?[..] {
            b"little" => ByteOrder::Little,
            b"big" => ByteOrder::Big,
            other => {
                let name = shortened(&String::from_utf8_lossy(other));
                return Err(Error::new(format!("the byte order `{name}` is unknown")));
            }
        },
    };
    let program = archive.members[&format!("{prefix}{PICKLE}")].as_source()?;
    let pickle = pickle::read(&mut program.cursor(0))?;
    let storages = Members { archive, prefix: format!("{prefix}data/"), order };
    flatten(&pickle, program.size(), &storages).map(Some)
}

struct Members {
    archive: Archive,
    prefix: String,
    order: ByteOrder,
}

impl Storages for Members {
    fn storage(&self, key: &str) -> Option<Member> {
        self.archive.members.get(&format!("{}{key}", self.prefix)).cloned()
    }

    fn order(&self) -> ByteOrder {
        self.order
    }
}
