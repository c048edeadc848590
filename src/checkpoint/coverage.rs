//! Completeness of a checkpoint: its files hold every leaf exactly once.

use super::contents::Contents;
use super::fault::{listed, refused};
use super::local_shards::LeafType;
use super::manifest::Manifest;
use super::storage::SharedStorage;
use crate::core::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads back the headers and lengths of the files that a manifest lists, before the manifest is
/// written.
///
/// # Errors
/// [`Error::Checkpoint`] if a leaf is missing, has another type, lacks shards or has some twice, or
/// if an array belongs to no leaf.
pub(super) fn expect_complete(
    storage: &SharedStorage,
    folder: &Path,
    manifest: &Manifest,
    leaves: &BTreeMap<String, LeafType>,
) -> Result<(), Error> {
    let contents = Contents::listed(storage, folder, manifest.clone())?;
    let mut faults = Vec::new();
    for (name, leaf) in leaves {
        let aval = leaf.aval();
        match contents.entry(name).map(|entry| (entry, entry.aval())) {
            Some((_, Some(stored))) if stored.same_type(&aval) => {}
            Some((entry, _)) => {
                faults.push(format!("leaf `{name}` ({aval}) was written as {entry}"))
            }
            None => faults.push(format!("leaf `{name}` ({aval}) was not written")),
        }
    }
    for name in contents.names().filter(|name| !leaves.contains_key(*name)) {
        faults.push(format!("`{name}` was written and is not a leaf"));
    }
    if faults.is_empty() {
        return Ok(());
    }
    let help = "no older checkpoint was removed; this is a bug in oxidax, please report it";
    Err(refused(folder, format!("{}\n  help: {help}", listed(faults))))
}
