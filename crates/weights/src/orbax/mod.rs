//! Checkpoints of Orbax: zarr arrays in a folder, or in OCDBT, TensorStore's database of keys.

mod chunk;
mod codec;
mod keys;
mod manifest;
mod node;
mod zarr;
mod zarr_array;

use crate::error::{Result, shortened};
use crate::source::ByteFolder;
use crate::weights::Contents;
use keys::Keys;
use std::sync::Arc;

/// Folders inside a step of a checkpoint manager that may hold the arrays.
const PARTS: [&str; 5] = ["", "default/", "state/", "params/", "items/"];

/// The file of an OCDBT database.
const MANIFEST: &str = "manifest.ocdbt";

/// Reads a folder. Returns `None` if it has no arrays.
pub(crate) fn read(folder: &ByteFolder) -> Result<Option<Contents>> {
    for part in PARTS {
        if folder.file(&format!("{part}{MANIFEST}"))?.is_some() {
            return arrays(&Arc::new(Keys::of_database(folder, part)?)).map(Some);
        }
    }
    let keys = Keys::of_folder(folder)?;
    let part = PARTS.into_iter().find(|part| keys.has_arrays(part));
    match part {
        Some(part) => arrays(&Arc::new(keys.below(part))).map(Some),
        None => Ok(None),
    }
}

/// Reads the metadata of all arrays.
fn arrays(keys: &Arc<Keys>) -> Result<Contents> {
    let mut contents = Contents::default();
    for (name, metadata) in keys.arrays() {
        let tensor = zarr::open(keys, name, metadata)
            .map_err(|error| error.within(&format!("array `{}`", shortened(name))))?;
        contents.insert(name.replace('/', "."), tensor)?;
    }
    Ok(contents)
}
