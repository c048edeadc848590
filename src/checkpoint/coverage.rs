//! Completeness of checkpoints: before a save, every shard is on a local device; after it, the
//! files hold every leaf.
//!
//! An array sharded over several processes is written from the shards on local devices. If only
//! another process holds a shard, the file would be incomplete, so the save is refused.

use super::contents::Contents;
use super::fault::{listed, refused};
use crate::core::{Array, Aval, Device, Error, NamedSharding, Shape};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// A shard that is stored only on devices of other processes.
struct RemoteShard {
    index: Vec<Range<usize>>,
    device: Device,
}

/// Returns an error if a shard of `array` is not on any local device.
pub(super) fn expect_local(path: &Path, leaf: &str, array: &Array) -> Result<(), Error> {
    let Some(sharding) = array.sharding() else { return Ok(()) };
    let (remote, total) = remote_shards(&sharding, array.shape());
    if remote.is_empty() {
        return Ok(());
    }
    let lines = remote.iter().map(|RemoteShard { index, device }| {
        format!("{index:?} on {device} of process {}", device.process_index())
    });
    let message = format!(
        "saving leaf `{leaf}`, {} with sharding {sharding}: {} of {total} shards are not on devices of \
         this process:\n  {}\n  help: replicate the leaf first, for example with \
         `device_put(&state, mesh.replicated())`; saving arrays of which no process holds every \
         shard is not supported yet",
        array.aval(),
        remote.len(),
        listed(lines.collect())
    );
    Err(refused(path, message))
}

/// Returns the shards without a local copy, and the number of distinct shards.
fn remote_shards(sharding: &NamedSharding, shape: &Shape) -> (Vec<RemoteShard>, usize) {
    let (mut local, mut remote) = (rustc_hash::FxHashSet::default(), Vec::new());
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        let index = sharding.part(ordinal, shape);
        if device.is_local() {
            local.insert(index);
        } else {
            remote.push(RemoteShard { index, device: device.clone() });
        }
    }
    let mut seen = local.clone();
    remote.retain(|shard| seen.insert(shard.index.clone()));
    let total = local.len() + remote.len();
    (remote, total)
}

/// Reads back the manifest, headers and file lengths of a checkpoint that was just written.
///
/// # Errors
/// [`Error::Checkpoint`] if a leaf is missing, has another type, or lacks shards.
pub(super) fn expect_complete(folder: &Path, leaves: &BTreeMap<String, Aval>) -> Result<(), Error> {
    let contents = Contents::checkpoint(folder)?;
    let mut faults = Vec::new();
    for (name, aval) in leaves {
        match contents.entry(name).map(|entry| (entry, entry.aval())) {
            Some((_, Some(stored))) if stored.same_type(aval) => {}
            Some((entry, _)) => {
                faults.push(format!("leaf `{name}` ({aval}) was written as {entry}"))
            }
            None => faults.push(format!("leaf `{name}` ({aval}) was not written")),
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let help = "no older checkpoint was removed; this is a bug in oxidax, please report it";
    Err(refused(folder, format!("{}\n  help: {help}", listed(faults))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Mesh;
    use crate::p;

    /// A mesh of `data=2, model=2` whose devices with the listed ids are local.
    fn mesh(local: &[i32]) -> Mesh {
        let device = |id: i32| Device::new(id, id / 2, "cpu", "", local.contains(&id));
        let devices: Vec<Device> = (0..4).map(device).collect();
        Mesh::new(devices, [("data", 2), ("model", 2)]).unwrap()
    }

    #[track_caller]
    fn missing(local: &[i32], spec: crate::core::PartitionSpec) -> (Vec<i32>, usize) {
        let sharding = mesh(local).sharding(spec).unwrap();
        let (remote, total) = remote_shards(&sharding, &Shape::from([4, 4]));
        (remote.iter().map(|shard| shard.device.id().0).collect(), total)
    }

    #[test]
    fn shards_without_local_copy_are_remote() {
        assert_eq!(missing(&[0, 1], p!["data"]), (vec![2], 2));
        assert_eq!(missing(&[0, 1], p!["data", "model"]), (vec![2, 3], 4));
        // Each process holds every column.
        assert_eq!(missing(&[0, 1], p![None, "model"]), (vec![], 2));
        assert_eq!(missing(&[0, 1, 2, 3], p!["data", "model"]), (vec![], 4));
        // A replicated array of a mesh without local devices cannot be read either.
        assert_eq!(missing(&[2], p![]), (vec![], 1));
        assert_eq!(missing(&[], p![]), (vec![0], 1));
    }
}
