//! NumPy's `.npz` archives, compressed or not.

use crate::archive::Archive;
use crate::error::{Error, Result, shortened};
use crate::npy;
use crate::source::ByteSource;
use crate::weights::Contents;

/// Reads the headers of all arrays.
pub(crate) fn read(source: &ByteSource) -> Result<Contents> {
    let archive = Archive::open(source)?;
    let mut contents = Contents::default();
    for (name, member) in &archive.members {
        let part = format!("array `{}`", shortened(name));
        let Some(array) = name.strip_suffix(".npy") else {
            return Err(Error::new(format!(
                "the member `{}` of the archive is neither an array nor `data.pkl`",
                shortened(name)
            )));
        };
        let tensor = npy::tensor(member).map_err(|error| error.within(&part))?;
        contents.insert(array.to_owned(), tensor)?;
    }
    Ok(contents)
}
