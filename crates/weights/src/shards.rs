//! Indices of weights in several files: `{"weight_map": {name: file}}`.

use crate::detect::{WeightFormat, read_file};
use crate::error::{Error, Result, shortened};
use crate::source::{ByteFolder, ByteSource};
use crate::weights::Contents;
use std::collections::{BTreeMap, BTreeSet};

#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Longest index, in bytes.
const MAX_INDEX: u64 = 100_000_000;

/// Reads the files that an index lists, and checks that each has the tensors that it should have.
pub(crate) fn read_index(
    source: &ByteSource,
    folder: &ByteFolder,
) -> Result<(WeightFormat, Contents)> {
    let size = source.size();
    if size > MAX_INDEX {
        return Err(Error::new(format!("an index of {size} bytes, at most {MAX_INDEX}")));
    }
    let Index { weight_map } = serde_json::from_slice(&source.read(0, size)?)
        .map_err(|error| Error::new(format!("the index: {}", shortened(&error.to_string()))))?;
    let files: BTreeSet<&String> = weight_map.values().collect();
    let mut all = Contents::default();
    let mut format = None;
    for name in files {
        let Some(file) = folder.file(name)? else {
            let name = shortened(name);
            return Err(Error::new(format!("the file `{name}` of the index is missing")));
        };
        if file.read_up_to(0, 1)? == b"{" {
            let name = shortened(name);
            return Err(Error::new(format!("the file `{name}` of the index is an index itself")));
        }
        let part = shortened(name);
        let (kind, mut contents) =
            read_file(&file, name, None).map_err(|error| error.within(&part))?;
        format.get_or_insert(kind);
        // A file may hold more than the index lists, for example a head that is shared.
        let listed = weight_map.iter().filter(|(_, file)| *file == name);
        for (tensor, _) in listed {
            let found = contents.tensors.remove(tensor).ok_or_else(|| {
                Error::new(format!("`{part}` has no tensor `{}`", shortened(tensor)))
            })?;
            all.insert(tensor.clone(), found)?;
        }
        all.metadata.extend(contents.metadata);
        all.skipped.extend(contents.skipped);
    }
    let format = format.ok_or_else(|| Error::new("the index lists no files"))?;
    Ok((format, all))
}
