//! The shards that this process writes, copied to the host.

use super::dtypes::{pack, stored_form};
use super::fault::{listed, refused};
use super::file::shape_of_slice;
use super::group::Group;
use super::leaf_name;
use super::manifest::{ShardedArray, ShardedArrays};
use crate::core::{Array, Aval, DType, Error, NamedSharding, Shape};
use crate::tree::TreeDef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// An array copied to the host, in the bytes of the file.
#[derive(Clone)]
pub(super) struct HostArray {
    pub(super) name: String,
    pub(super) aval: Aval,
    pub(super) bytes: Vec<u8>,
}

impl HostArray {
    /// Creates an array from host bytes.
    pub(super) fn new(name: String, aval: Aval, bytes: Vec<u8>) -> HostArray {
        let bytes = pack(bytes, stored_form(aval.dtype, &aval.shape).dtype);
        HostArray { name, aval, bytes }
    }
}

/// The shards that this process writes, and the types of all leaves.
#[derive(Clone, Default)]
pub(super) struct LocalShards {
    pub(super) arrays: Vec<HostArray>,
    /// The leaves of which `arrays` holds shards, not the whole.
    pub(super) sharded: ShardedArrays,
    /// The type of every leaf of the tree, by name: the contents of a complete checkpoint.
    pub(super) leaves: BTreeMap<String, LeafType>,
    /// CRC-32C of the leaves that every process has in full. Process 0 writes them.
    pub(super) copies: BTreeMap<String, u32>,
}

/// The type of a leaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LeafType {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
}

impl LeafType {
    pub(super) fn aval(&self) -> Aval {
        Aval::new(self.dtype, &self.shape[..])
    }
}

impl LocalShards {
    /// Copies a tree's arrays to the host as whole arrays, waiting for them.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if names are equal or reserved, or a leaf has shards of other
    /// processes.
    #[track_caller]
    pub(super) fn whole(
        path: &Path,
        structure: &TreeDef,
        leaves: &[Array],
    ) -> Result<LocalShards, Error> {
        let mut shards = LocalShards::of_types(path, structure, leaves)?;
        for (leaf_path, array) in structure.paths().iter().zip(leaves) {
            expect_local(path, leaf_name(leaf_path), array)?;
        }
        for (leaf_path, array) in structure.paths().iter().zip(leaves) {
            let name = leaf_name(leaf_path).to_owned();
            shards.arrays.push(HostArray::new(name, array.aval().strong(), array.to_bytes()?));
        }
        Ok(shards)
    }

    /// Copies to the host what this process of `group` writes of a tree's arrays, waiting for them.
    ///
    /// Each distinct shard is written by the process of the first device in the mesh that holds it.
    /// Process 0 writes the leaves that are not on a mesh of several processes.
    ///
    /// # Errors
    /// As [`LocalShards::whole`], if the group is a single process; `Runtime`.
    #[track_caller]
    pub(super) fn of_process(
        path: &Path,
        structure: &TreeDef,
        leaves: &[Array],
        group: &dyn Group,
    ) -> Result<LocalShards, Error> {
        let mut shards = LocalShards::of_types(path, structure, leaves)?;
        if group.count() == 1 {
            for (leaf_path, array) in structure.paths().iter().zip(leaves) {
                expect_local(path, leaf_name(leaf_path), array)?;
            }
        }
        for (leaf_path, array) in structure.paths().iter().zip(leaves) {
            shards.add(leaf_name(leaf_path), array, group)?;
        }
        Ok(shards)
    }

    /// Records the types of the leaves, and checks their names.
    fn of_types(path: &Path, structure: &TreeDef, leaves: &[Array]) -> Result<LocalShards, Error> {
        let mut shards = LocalShards::default();
        for (leaf_path, array) in structure.paths().iter().zip(leaves) {
            let name = leaf_name(leaf_path);
            if name == "__metadata__" {
                let message = "the leaf name `__metadata__` is reserved by the safetensors format";
                return Err(refused(path, format!("{message}\n  help: rename the field or key")));
            }
            let (dtype, shape) = (array.dtype(), array.shape().to_vec());
            let leaf = LeafType { dtype, shape };
            if shards.leaves.insert(name.to_owned(), leaf).is_some() {
                let help =
                    "a map's keys are printed as they are, dots included: rename one of them";
                let message = format!("two leaves are called `{name}`\n  help: {help}");
                return Err(refused(path, message));
            }
        }
        Ok(shards)
    }

    #[track_caller]
    fn add(&mut self, name: &str, array: &Array, group: &dyn Group) -> Result<(), Error> {
        let aval = array.aval().strong();
        let sharding = array.sharding();
        let is_solo = group.count() == 1;
        let is_global =
            |sharding: &NamedSharding| sharding.devices().iter().any(|device| !device.is_local());
        let Some(sharding) = sharding.filter(|sharding| is_solo || is_global(sharding)) else {
            // Every process has its own copy.
            let bytes = array.to_bytes()?;
            if !is_solo {
                self.copies.insert(name.to_owned(), crc32c::crc32c(&bytes));
            }
            if group.index() == 0 {
                self.arrays.push(HostArray::new(name.to_owned(), aval, bytes));
            }
            return Ok(());
        };
        let owners = owners(&sharding, &aval.shape, group.index());
        let is_split = !sharding.is_replicated();
        let number = |index: &[Range<usize>]| owners.iter().position(|(known, _)| known == index);
        let is_own =
            |index: &[Range<usize>]| number(index).is_some_and(|n| owners[n].1 == group.index());
        let mut starts = BTreeMap::new();
        for (index, bytes) in array.host_shards(&is_own)? {
            let shard_name = match number(&index) {
                Some(number) if is_split => format!("{name}@{number}"),
                _ => name.to_owned(),
            };
            starts.insert(shard_name.clone(), index.iter().map(|range| range.start).collect());
            let shard = aval.with_shape(shape_of_slice(&index));
            self.arrays.push(HostArray::new(shard_name, shard, bytes));
        }
        if is_split {
            let shape = aval.shape.to_vec();
            self.sharded.insert(name.to_owned(), ShardedArray { shape, starts });
        }
        Ok(())
    }
}

/// Returns the index ranges of the distinct shards in mesh order, each with the process that writes
/// it. The devices of this process are those that are local.
fn owners(
    sharding: &NamedSharding,
    shape: &Shape,
    this_process: usize,
) -> Vec<(Vec<Range<usize>>, usize)> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut owners = Vec::new();
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        let index = sharding.part(ordinal, shape);
        if seen.insert(index.clone()) {
            let other = || usize::try_from(device.process_index()).unwrap_or(usize::MAX);
            owners.push((index, if device.is_local() { this_process } else { other() }));
        }
    }
    owners
}

/// Returns an error if a shard of `array` is not on any local device.
fn expect_local(path: &Path, leaf: &str, array: &Array) -> Result<(), Error> {
    let Some(sharding) = array.sharding() else { return Ok(()) };
    let (remote, total) = remote_shards(&sharding, array.shape());
    if remote.is_empty() {
        return Ok(());
    }
    let missing = remote.len();
    let lines = remote.into_iter().map(|(index, ordinal)| {
        let device = &sharding.devices()[ordinal];
        format!("{index:?} on {device} of process {}", device.process_index())
    });
    let message = format!(
        "saving leaf `{leaf}`, {} with sharding {sharding}: {missing} of {total} shards are not on \
         devices of this process:\n  {}\n  help: save it with `checkpoint::Folder` in all processes \
         of a program that has called `distributed::initialize`, or replicate it first with \
         `device_put(&state, mesh.replicated())`",
        array.aval(),
        listed(lines.collect())
    );
    Err(refused(path, message))
}

/// A shard's range of indices along each axis, and the ordinal of a device that holds it.
type RemoteShard = (Vec<Range<usize>>, usize);

/// Returns the shards without a local copy, each with the ordinal of a device, and the number of
/// distinct shards.
fn remote_shards(sharding: &NamedSharding, shape: &Shape) -> (Vec<RemoteShard>, usize) {
    let (mut local, mut remote) = (rustc_hash::FxHashSet::default(), Vec::new());
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        let index = sharding.part(ordinal, shape);
        if device.is_local() {
            local.insert(index);
        } else {
            remote.push((index, ordinal));
        }
    }
    let mut seen = local.clone();
    remote.retain(|(index, _)| seen.insert(index.clone()));
    let total = local.len() + remote.len();
    (remote, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Device, Mesh};
    use crate::p;

    /// A mesh of `data=2, model=2` whose devices with the listed ids are local.
    fn mesh(local: &[i32]) -> Mesh {
        let device = |id: i32| Device::new(id, id / 2, "cpu", "", local.contains(&id));
        let devices: Vec<Device> = (0..4).map(device).collect();
        Mesh::new(devices, [("data", 2), ("model", 2)]).unwrap()
    }

    #[track_caller]
    fn missing(local: &[i32], spec: crate::core::PartitionSpec) -> (Vec<usize>, usize) {
        let sharding = mesh(local).sharding(spec).unwrap();
        let (remote, total) = remote_shards(&sharding, &Shape::from([4, 4]));
        (remote.iter().map(|(_, ordinal)| *ordinal).collect(), total)
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

    #[test]
    fn every_shard_has_one_owner_and_all_processes_agree() {
        for (spec, expected) in [
            (p!["data"], vec![0, 1]),
            (p!["data", "model"], vec![0, 0, 1, 1]),
            (p![None, "model"], vec![0, 0]),
            (p![], vec![0]),
        ] {
            for (process, local) in [(0, [0, 1]), (1, [2, 3])] {
                let sharding = mesh(&local).sharding(spec.clone()).unwrap();
                let owners = owners(&sharding, &Shape::from([4, 4]), process);
                let processes: Vec<usize> = owners.iter().map(|(_, owner)| *owner).collect();
                assert_eq!(processes, expected, "{spec} in process {process}");
            }
        }
    }
}
