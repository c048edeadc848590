//! Arrays brought to devices.

use super::{Placement, Placements, TreeSharding};
use crate::core::{
    Array, Aval, Device, Error, Loc, Mesh, NamedSharding, OpErrorKind, Shape, leaf_error, trace,
};
use crate::runtime::{Home, assembled, moved, put_local, with_spread};
use crate::tree::{Tree, TreeDef, leaves_of, rebuild, rooted};

/// Where [`device_put`] puts a tree: a [`Device`], a [`NamedSharding`] for all leaves, or a [`TreeSharding`] with one for each.
#[derive(Clone, Debug)]
pub enum Target {
    /// A device.
    Device(Device),
    /// A mesh.
    Mesh(Placement),
}

impl From<Device> for Target {
    fn from(device: Device) -> Target {
        Target::Device(device)
    }
}

impl From<&Device> for Target {
    fn from(device: &Device) -> Target {
        Target::Device(device.clone())
    }
}

macro_rules! targets {
    ($($from:ty),*) => {$(
        impl From<$from> for Target {
            fn from(placement: $from) -> Target {
                Target::Mesh(placement.into())
            }
        }
    )*};
}

targets!(NamedSharding, &NamedSharding, TreeSharding, &TreeSharding);

/// Brings the leaves of a tree to a device, or spreads them over a mesh; they stay there. Leaves that lie there already are
/// shared, the others are copied: arrays on the same devices by the devices themselves, others through the host.
///
/// # Errors
/// [`Error::Op`] (value) if a leaf is traced: inside of `jit` say
/// [`with_sharding_constraint`](crate::parallel::with_sharding_constraint). `Plugin` if the device is not one of this process's; [`Error::Op`] (shape), naming the leaf, if it cannot be cut into
/// equal parts; `Runtime` if there is no room.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = device_put(&ones([8, 2], DType::F32), &devices()?[3])?;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let x = device_put(&x, mesh.sharding(p!["data"])?)?;
/// assert_eq!(x.addressable_shards()?.len(), 8);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put<T: Tree>(tree: &T, to: impl Into<Target>) -> Result<T, Error> {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let homes: Vec<Option<Home>> = match to.into() {
        Target::Device(device) => vec![Some(Home::Device(device.id())); leaves.len()],
        Target::Mesh(placement) => Placements::All(placement)
            .leaves("device_put", "the target", &[leaves.len()])?
            .into_iter()
            .map(|sharding| sharding.map(Home::Mesh))
            .collect(),
    };
    let structure = TreeDef::of(tree);
    let put = leaves.iter().zip(homes).zip(structure.paths()).map(|((leaf, home), path)| {
        if leaf.is_traced() {
            let message =
                format!("{}: a traced array, {}, lies nowhere yet", rooted(path), leaf.aval());
            let error = trace::op_error(OpErrorKind::Value, "device_put", message, loc);
            return Err(error.with_help("inside of `jit` say `with_sharding_constraint`"));
        }
        let Some(home) = home else { return Ok(leaf.clone()) };
        if let Home::Mesh(sharding) = &home {
            let cut = sharding.spec().shard_shape(sharding.mesh(), leaf.shape());
            cut.map_err(|error| leaf_error("device_put", &rooted(path), error, loc))?;
        }
        moved(leaf, &home)
    });
    Ok(rebuild(tree, put.collect::<Result<_, Error>>()?))
}

/// Every leaf as many times as there are devices, along a new first axis, one on each: what [`pmap`](crate::jit::pmap)
/// takes for arguments that are the same everywhere.
///
/// # Errors
/// As [`device_put`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let w = device_put_replicated(&ones([3], DType::F32), &devices()?)?;
/// assert_eq!(w.shape().dims(), [8, 3]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put_replicated<T: Tree>(tree: &T, devices: &[Device]) -> Result<T, Error> {
    let mesh = Mesh::new(devices, [("devices", devices.len())])?;
    let put = leaves_of(tree).into_iter().map(|leaf| {
        let bytes = leaf.to_bytes()?;
        stacked(leaf.aval(), &mesh, &vec![bytes; devices.len()])
    });
    Ok(rebuild(tree, put.collect::<Result<_, Error>>()?))
}

/// Trees of the same structure and types, one for each device, as one whose leaves have a new first axis along which they
/// lie on the devices: what [`pmap`](crate::jit::pmap) takes.
///
/// # Errors
/// [`Error::Op`] (value) if there are not as many trees as devices; [`Error::Tree`] if they differ; as [`device_put`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let batches: Vec<Array> = (0..8).map(|i| full([2], i as f32)).collect();
/// let x = device_put_sharded(&batches, &devices()?)?;
/// assert_eq!(x.shape().dims(), [8, 2]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn device_put_sharded<T: Tree>(trees: &[T], devices: &[Device]) -> Result<T, Error> {
    let loc = Loc::caller();
    let wrong = |message: String| {
        let error = trace::op_error(OpErrorKind::Value, "device_put_sharded", message, loc);
        Err(error.with_help("give one tree for each device, all alike"))
    };
    let mesh = Mesh::new(devices, [("devices", devices.len())])?;
    let Some(first) = trees.first().filter(|_| trees.len() == devices.len()) else {
        return wrong(format!("{} trees for {} devices", trees.len(), devices.len()));
    };
    let structure = TreeDef::of(first);
    let all: Vec<Vec<Array>> = trees.iter().map(leaves_of).collect();
    for (n, tree) in trees.iter().enumerate() {
        if TreeDef::of(tree) != structure {
            return wrong(format!("tree {n} is built otherwise than tree 0"));
        }
    }
    let mut put = Vec::new();
    for (at, path) in structure.paths().iter().enumerate() {
        let aval = all[0][at].aval();
        for (n, leaves) in all.iter().enumerate() {
            if !leaves[at].aval().same_type(aval) {
                let (path, found) = (rooted(path), leaves[at].aval());
                return wrong(format!("{path} is {aval} in tree 0 and {found} in tree {n}"));
            }
        }
        let pieces = all.iter().map(|leaves| leaves[at].to_bytes());
        put.push(stacked(aval, &mesh, &pieces.collect::<Result<Vec<_>, _>>()?)?);
    }
    Ok(rebuild(first, put))
}

/// Elements for each device, side by side along a new first axis.
fn stacked(aval: &Aval, mesh: &Mesh, pieces: &[Vec<u8>]) -> Result<Array, Error> {
    let axis = mesh.axes()[0].0.as_str();
    let sharding = mesh.sharding(crate::p![axis])?;
    let local = mesh.devices().iter().zip(pieces).filter(|(device, _)| device.is_local());
    let local: Vec<Vec<u8>> = local.map(|(_, piece)| piece.clone()).collect();
    let whole = aval.with_shape(aval.shape.insert(0, pieces.len()));
    assembled(&whole, &sharding, &local)
}

/// An array of shape `shape` of which each process gives the part that its own devices have, as one piece: `local` has along
/// each axis that part's size. With one process it is the whole array.
///
/// # Errors
/// [`Error::Op`] (shape) if the array cannot be cut so, `local` is not the size of this process's part, or that part is not one piece;
/// `Runtime`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = ones([16, 4], DType::F32); // what this process read
/// let batch = make_array_from_process_local_data(&mesh.sharding(p!["data"])?, &rows, [16, 4])?;
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn make_array_from_process_local_data(
    sharding: &NamedSharding,
    local: &Array,
    shape: impl Into<Shape>,
) -> Result<Array, Error> {
    let whole = local.aval().with_shape(shape);
    put_local(&local.to_bytes()?, local.aval(), &whole, sharding)
}

/// Runs `f` with arrays that are copied from the host on this thread ([`Array::from_slice`], batches of a
/// [`data`](crate::data) pipeline, checkpoints) spread so. With several processes each copies what its own devices have, as
/// [`make_array_from_process_local_data`] says.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// let x = with_default_sharding(&rows, || Array::from_slice(&[0.5f32; 16], [16]))?;
/// assert_eq!(x.sharding(), Some(rows));
/// # Ok::<(), Error>(())
/// ```
pub fn with_default_sharding<R>(sharding: &NamedSharding, f: impl FnOnce() -> R) -> R {
    with_spread(sharding, f)
}
