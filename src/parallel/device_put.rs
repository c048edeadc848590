//! Transfers of trees of arrays to devices and meshes.

use super::format::Format;
use super::partition_rules::TreeSharding;
use super::per_argument::{LeafKeys, PerArgument, PerLeaf};
use crate::core::{
    Array, Aval, DType, Device, DeviceId, Error, HostArray, IntoAval, Layout, Loc, MemoryKind,
    Mesh, NamedSharding, OpErrorKind, PartitionSpec, Placement, Shape, catch, leaf_error, trace,
};
use crate::primitives::{constrained, in_layout, in_memory};
use crate::runtime::{
    self, array_from_shards, committed_placement, put_process_local, transfer, with_layout,
};
use crate::tree::{Tree, TreeDef, leaves_of, rebuild, rooted};
use std::ops::Range;

/// The target of [`device_put`]: a [`Device`], a [`MemoryKind`] or both, a [`NamedSharding`] or a
/// [`PartitionSpec`] over the current mesh for all leaves, a [`TreeSharding`] with one for each, or
/// a [`Layout`] or a [`Format`].
#[derive(Clone, Debug)]
pub enum PutTarget {
    /// A memory of one device.
    Device(Device, MemoryKind),
    /// Another memory of the devices that each leaf is on.
    Memory(MemoryKind),
    /// The devices of a mesh.
    Mesh(PerLeaf<NamedSharding>),
    /// A layout, and a placement if there is one; otherwise each leaf stays where it is.
    Format(Format),
}

impl From<Layout> for PutTarget {
    fn from(layout: Layout) -> PutTarget {
        PutTarget::Format(Format::new(layout, None))
    }
}

impl From<&Layout> for PutTarget {
    fn from(layout: &Layout) -> PutTarget {
        layout.clone().into()
    }
}

impl From<Format> for PutTarget {
    fn from(format: Format) -> PutTarget {
        PutTarget::Format(format)
    }
}

impl From<&Format> for PutTarget {
    fn from(format: &Format) -> PutTarget {
        format.clone().into()
    }
}

impl From<Device> for PutTarget {
    fn from(device: Device) -> PutTarget {
        PutTarget::Device(device, MemoryKind::Device)
    }
}

impl From<&Device> for PutTarget {
    fn from(device: &Device) -> PutTarget {
        device.clone().into()
    }
}

impl From<(Device, MemoryKind)> for PutTarget {
    fn from((device, memory): (Device, MemoryKind)) -> PutTarget {
        PutTarget::Device(device, memory)
    }
}

impl From<(&Device, MemoryKind)> for PutTarget {
    fn from((device, memory): (&Device, MemoryKind)) -> PutTarget {
        PutTarget::Device(device.clone(), memory)
    }
}

impl From<MemoryKind> for PutTarget {
    fn from(memory: MemoryKind) -> PutTarget {
        PutTarget::Memory(memory)
    }
}

macro_rules! put_target_from {
    ($($from:ty),*) => {$(
        impl From<$from> for PutTarget {
            fn from(shardings: $from) -> PutTarget {
                PutTarget::Mesh(shardings.into())
            }
        }
    )*};
}

put_target_from!(
    NamedSharding,
    &NamedSharding,
    PartitionSpec,
    &PartitionSpec,
    TreeSharding,
    &TreeSharding,
    PerLeaf<NamedSharding>
);

/// The target of one leaf.
enum LeafTarget {
    Keep,
    Device(DeviceId, MemoryKind),
    Memory(MemoryKind),
    Mesh(NamedSharding),
    Format(Format),
}

/// Transfers the leaves of a tree to a device, to a mesh or to another memory, and commits them to
/// it.
///
/// A leaf that is there already is shared, others are copied: between the same devices directly,
/// otherwise through the host.
///
/// Inside `jit` a traced leaf moves to another memory of the program's devices, or is constrained
/// to a sharding, as by [`with_memory_kind`](crate::parallel::with_memory_kind) and
/// [`with_sharding_constraint`](crate::parallel::with_sharding_constraint), which throw errors
/// instead of returning them.
///
/// Into a layout, a leaf is copied by a compiled program. Elements read as before, and every
/// operation accepts the array; a function that expects it with
/// [`in_layouts`](crate::jit::Jit::in_layouts) does not copy it again. Traced leaves are
/// constrained to the layout, as by
/// [`with_layout_constraint`](crate::parallel::with_layout_constraint).
///
/// # Errors
/// [`Error::Op`] (value) if a traced leaf is put on a device, or a layout does not order the axes
/// of a leaf; `Plugin` if the device is not one of
/// this process or lacks the memory; [`Error::Op`] (shape), naming the leaf, if a sharding does not
/// divide it; `Runtime` if the device is out of memory.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let x = device_put(&ones([8, 2]), &devices()?[3])?;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let x = device_put(&x, mesh.sharding(p!["data"])?)?;
/// assert_eq!(x.addressable_shards()?.len(), 8);
/// let x = device_put(&x, MemoryKind::PinnedHost)?;
/// assert_eq!(x.aval().to_string(), "f32<pinned_host>[8,2]");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put<T: Tree>(tree: &T, target: impl Into<PutTarget>) -> Result<T, Error> {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let targets: Vec<LeafTarget> = match catch(|| loc.scope(|| target.into()))? {
        PutTarget::Device(device, memory) => {
            leaves.iter().map(|_| LeafTarget::Device(device.id(), memory)).collect()
        }
        PutTarget::Memory(memory) => leaves.iter().map(|_| LeafTarget::Memory(memory)).collect(),
        PutTarget::Mesh(shardings) => PerArgument::All(shardings)
            .shardings("device_put", "the target", &LeafKeys::of_tree(tree))?
            .into_iter()
            .map(|sharding| sharding.map_or(LeafTarget::Keep, LeafTarget::Mesh))
            .collect(),
        PutTarget::Format(format) => {
            leaves.iter().map(|_| LeafTarget::Format(format.clone())).collect()
        }
    };
    let structure = TreeDef::of(tree);
    let mut transferred = Vec::with_capacity(leaves.len());
    for ((leaf, target), path) in leaves.iter().zip(targets).zip(structure.paths()) {
        if let LeafTarget::Mesh(sharding) = &target {
            let shape = sharding.spec().shard_shape(sharding.mesh(), leaf.shape());
            shape.map_err(|error| leaf_error("device_put", &rooted(path), error, loc))?;
        }
        transferred.push(loc.scope(|| match leaf.is_traced() {
            true => move_traced(leaf, target, path, loc),
            false => move_concrete(leaf, target),
        })?);
    }
    Ok(rebuild(tree, transferred))
}

fn move_concrete(leaf: &Array, target: LeafTarget) -> Result<Array, Error> {
    match target {
        LeafTarget::Keep => Ok(leaf.clone()),
        LeafTarget::Memory(memory) if leaf.memory_kind() == memory => Ok(leaf.clone()),
        LeafTarget::Memory(memory) => match leaf.placement() {
            Some(Placement::Mesh(sharding)) => {
                let sharding = sharding.with_memory_kind(memory);
                transfer(leaf, &Placement::Mesh(sharding), memory)
            }
            Some(placement) => transfer(leaf, &placement, memory),
            None => Ok(leaf.clone()),
        },
        LeafTarget::Device(id, memory) => transfer(leaf, &Placement::Device(id), memory),
        LeafTarget::Mesh(sharding) => {
            let memory = sharding.memory_kind();
            transfer(leaf, &Placement::Mesh(sharding), memory)
        }
        LeafTarget::Format(Format { layout, placement }) => {
            let memory = leaf.memory_kind();
            match &placement {
                Some(placement) if committed_placement(leaf).as_ref() != Some(placement) => {
                    with_layout(&transfer(leaf, placement, memory)?, &layout)
                }
                _ => with_layout(leaf, &layout),
            }
        }
    }
}

fn move_traced(leaf: &Array, target: LeafTarget, path: &str, loc: Loc) -> Result<Array, Error> {
    match target {
        LeafTarget::Keep => Ok(leaf.clone()),
        LeafTarget::Memory(memory) => Ok(in_memory(leaf, memory)),
        LeafTarget::Mesh(sharding) => Ok(constrained(leaf, sharding)),
        LeafTarget::Format(Format { layout, .. }) => Ok(in_layout(leaf, layout)),
        LeafTarget::Device(..) => {
            let message = format!(
                "{}: a traced array, {}, is on the devices of its program",
                rooted(path),
                leaf.aval()
            );
            let error = trace::op_error(OpErrorKind::Value, "device_put", message, loc);
            Err(error.with_help(
                "put the arguments on the device; inside `jit`, `device_put` takes a sharding or a \
                 `MemoryKind`",
            ))
        }
    }
}

/// Copies every leaf to each of the devices, stacked along a new first axis: arguments of
/// [`pmap`](crate::jit::pmap) that are the same on all devices.
///
/// # Errors
/// As [`device_put`].
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let w = device_put_replicated(&ones([3]), &devices()?)?;
/// assert_eq!(w.shape().dims(), [8, 3]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put_replicated<T: Tree>(tree: &T, devices: &[Device]) -> Result<T, Error> {
    let mesh = Mesh::new(devices, [("devices", devices.len())])?;
    let mut stacked = Vec::new();
    for leaf in leaves_of(tree) {
        let bytes = leaf.to_bytes()?;
        stacked.push(stack_on_devices(leaf.aval(), &mesh, &vec![bytes; devices.len()])?);
    }
    Ok(rebuild(tree, stacked))
}

/// Copies one tree to each of the devices, stacked along a new first axis: arguments of
/// [`pmap`](crate::jit::pmap). The trees have equal structure and types.
///
/// # Errors
/// [`Error::Op`] (value) if the number of trees and devices differs, or the trees differ; as
/// [`device_put`].
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let batches: Vec<Array> = (0..8).map(|i| full([2], i as f32)).collect();
/// let x = device_put_sharded(&batches, &devices()?)?;
/// assert_eq!(x.shape().dims(), [8, 2]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put_sharded<T: Tree>(trees: &[T], devices: &[Device]) -> Result<T, Error> {
    let loc = Loc::caller();
    let refuse = |message: String| {
        let error = trace::op_error(OpErrorKind::Value, "device_put_sharded", message, loc);
        Err(error.with_help("give one tree for each device, of equal structure and types"))
    };
    let mesh = Mesh::new(devices, [("devices", devices.len())])?;
    let Some(first) = trees.first().filter(|_| trees.len() == devices.len()) else {
        return refuse(format!("{} trees for {} devices", trees.len(), devices.len()));
    };
    let structure = TreeDef::of(first);
    let leaves_of_trees: Vec<Vec<Array>> = trees.iter().map(leaves_of).collect();
    for (n, tree) in trees.iter().enumerate() {
        if TreeDef::of(tree) != structure {
            return refuse(format!("tree {n} has another structure than tree 0"));
        }
    }
    let mut stacked = Vec::new();
    for (index, path) in structure.paths().iter().enumerate() {
        let aval = leaves_of_trees[0][index].aval();
        let mut shards = Vec::with_capacity(trees.len());
        for (n, leaves) in leaves_of_trees.iter().enumerate() {
            let leaf = &leaves[index];
            if !leaf.aval().same_type(aval) {
                let (path, other) = (rooted(path), leaf.aval());
                return refuse(format!("{path} is {aval} in tree 0 and {other} in tree {n}"));
            }
            shards.push(leaf.to_bytes()?);
        }
        stacked.push(stack_on_devices(aval, &mesh, &shards)?);
    }
    Ok(rebuild(first, stacked))
}

/// Creates an array with a new first axis, of which each device of the mesh has one entry.
fn stack_on_devices(aval: &Aval, mesh: &Mesh, entries: &[Vec<u8>]) -> Result<Array, Error> {
    let axis = mesh.axes()[0].0.as_str();
    let sharding = mesh.sharding(crate::p![axis])?;
    let local = mesh.devices().iter().zip(entries).filter(|(device, _)| device.is_local());
    let local: Vec<Vec<u8>> = local.map(|(_, entry)| entry.clone()).collect();
    let stacked = aval.with_shape(aval.shape.insert(0, entries.len()));
    array_from_shards(&stacked, &sharding, &local)
}

/// Creates an array of shape `shape` from the blocks of all processes. `local` is the block on this
/// process's devices, in one piece. With one process it is the whole array.
///
/// # Errors
/// [`Error::Op`] (shape) if the sharding does not divide the array, `local` does not have the size
/// of this process's block, or that block is not contiguous; `Runtime`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = ones([16, 4]); // the rows that this process has read
/// let batch = make_array_from_process_local_data(&mesh.sharding(p!["data"])?, &rows, [16, 4])?;
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn make_array_from_process_local_data(
    sharding: &NamedSharding,
    local: &Array,
    shape: impl Into<Shape>,
) -> Result<Array, Error> {
    let global = local.aval().with_shape(shape);
    put_process_local(&local.to_bytes()?, local.aval(), &global, sharding)
}

/// Creates a sharded array by calling `data` for each distinct shard on this process's devices,
/// with the range of indices along each axis. `aval` is the global shape, or a pair of shape and
/// dtype; the default dtype is `f32`. With several processes each process calls it with the same
/// shape and sharding, and supplies its own shards.
///
/// # Errors
/// [`Error::Op`] (shape) if the sharding does not divide the array, or `data` returns another shape
/// or dtype than the shard's; the error of `data`; `Runtime`.
///
/// ```no_run
/// use oxidax::core::HostArray;
/// use oxidax::prelude::*;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// let x = make_array_from_callback(([16], DType::I32), &rows, |index| {
///     let numbers: Vec<i32> = index[0].clone().map(|i| i as i32).collect();
///     HostArray::from_slice(&numbers, [numbers.len()])
/// })?;
/// # let _ = x;
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn make_array_from_callback(
    aval: impl IntoAval,
    sharding: &NamedSharding,
    mut data: impl FnMut(&[Range<usize>]) -> Result<HostArray, Error>,
) -> Result<Array, Error> {
    let loc = Loc::caller();
    let aval = aval.into_aval(DType::F32);
    let expected = aval.with_shape(sharding.shard_shape(&aval.shape)?);
    let mut distinct: Vec<(Vec<Range<usize>>, HostArray)> = Vec::new();
    let mut numbers = Vec::new();
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        if !device.is_local() {
            continue;
        }
        let index = sharding.part(ordinal, &aval.shape);
        let known = distinct.iter().position(|(other, _)| *other == index);
        numbers.push(known.unwrap_or(distinct.len()));
        if known.is_none() {
            let shard = data(&index)?;
            if !shard.aval().same_type(&expected) {
                let message =
                    format!("the data of shard {index:?} is {}, expected {expected}", shard.aval());
                let function = "make_array_from_callback";
                return Err(trace::op_error(OpErrorKind::Shape, function, message, loc));
            }
            distinct.push((index, shard));
        }
    }
    let shards: Vec<&[u8]> = numbers.iter().map(|&n| distinct[n].1.as_bytes()).collect();
    array_from_shards(&aval, sharding, &shards)
}

/// Runs `f` with this sharding for arrays copied from the host on this thread:
/// [`Array::from_slice`], batches of a [`data`](crate::data) pipeline, checkpoints. With several
/// processes each copies the block of its devices, as in
/// [`make_array_from_process_local_data`].
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// let x = with_default_sharding(&rows, || Array::from_slice(&[0.5f32; 16], [16]))?;
/// assert_eq!(x.sharding(), Some(rows));
/// # Ok::<(), Error>(())
/// ```
pub fn with_default_sharding<R>(sharding: &NamedSharding, f: impl FnOnce() -> R) -> R {
    runtime::with_default_sharding(sharding, f)
}
