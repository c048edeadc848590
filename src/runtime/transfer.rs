//! Transfers: from the host to devices, and between devices.

use super::client::{Runtime, runtime, runtime_error};
use super::device_buffer::{DeviceBuffer, element_type};
use super::executable::Executable;
use super::host_blocks::{HostBlock, global_shape, local_mesh, local_shard_bytes};
use super::placement::{default_device, shards, single_device};
use super::scratch::{NonDonatable, Scratch};
use super::sharded_buffer::ShardedBuffer;
use crate::core::host_function::refuse_inside;
use crate::core::scoped::scoped;
use crate::core::{
    Array, Aval, Buffer, Cache, DeviceId, Error, Kind, NamedSharding, Placement, Program, Shape,
};
use crate::passes::Plan;
use oxidax_pjrt::UniqueBuffer;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Number of compiled reshardings that are cached.
const RESHARDINGS: usize = 256;

scoped!(
    /// The sharding of arrays copied from the host, set by `with_default_sharding`.
    static DEFAULT_SHARDING: Option<NamedSharding> = None
);

/// Runs `f` with this sharding for arrays that are copied from the host.
pub(crate) fn with_default_sharding<R>(sharding: &NamedSharding, f: impl FnOnce() -> R) -> R {
    DEFAULT_SHARDING.scope(Some(sharding.clone()), f)
}

/// Creates the global array of type `global` from this process's block of it, of type `local`.
///
/// # Errors
/// `Op` (shape) if `local` does not have the size of this process's block, or the shards of this
/// process are not one block; `Runtime`.
pub(crate) fn put_process_local(
    bytes: &[u8],
    local: &Aval,
    global: &Aval,
    sharding: &NamedSharding,
) -> Result<Array, Error> {
    sharding.shard_shape(&global.shape)?;
    if sharding.mesh().is_local() && local.shape == global.shape {
        return put_on(bytes, global, &Placement::Mesh(sharding.clone()));
    }
    let shards = local_shard_bytes(bytes, local, global, sharding)?;
    array_from_shards(global, sharding, &shards)
}

/// Creates a global array of which `local` is this process's block.
///
/// # Errors
/// As [`put_process_local`].
pub(crate) fn put_host_local(local: &Array, sharding: &NamedSharding) -> Result<Array, Error> {
    let global = local.aval().with_shape(global_shape(local.shape(), sharding)?);
    put_process_local(&local.to_bytes()?, local.aval(), &global, sharding)
}

/// Returns this process's block of a global array, sharded over this process's devices. An array
/// without shards of other processes is returned unchanged.
///
/// # Errors
/// `Op` (value) if these devices are not a block of the mesh; `Runtime`.
pub(crate) fn host_local(global: &Array) -> Result<Array, Error> {
    let Some(sharding) = global.sharding().filter(|sharding| !sharding.mesh().is_local()) else {
        return Ok(global.clone());
    };
    let local = local_mesh(sharding.mesh())?.sharding(sharding.spec().clone())?;
    let shards = global.addressable_shards()?;
    let bytes = shards.iter().map(|shard| shard.data.to_bytes()).collect::<Result<Vec<_>, _>>()?;
    let block = HostBlock::of(global.shape(), &sharding).shape();
    array_from_shards(&global.aval().with_shape(block), &local, &bytes)
}

/// Copies elements to the default device, or to the devices of the default sharding if one is set.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(super) fn put(bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    if let Some(sharding) = DEFAULT_SHARDING.get() {
        let global = aval.with_shape(global_shape(&aval.shape, &sharding)?);
        return put_process_local(bytes, aval, &global, &sharding);
    }
    put_on_default_device(bytes, aval)
}

/// Copies elements to the default device, even if a default sharding is set: constants of programs.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(super) fn put_on_default_device(bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    let device = default_device()?;
    let buffer = copy_to_device(runtime()?, bytes, aval, &aval.shape, device)?;
    let buffer = DeviceBuffer { buffer, device, committed: false };
    Ok(Array::concrete(aval.clone(), Arc::new(buffer)))
}

/// Copies elements to a placement.
///
/// # Errors
/// `Plugin`, `Runtime`.
fn put_on(bytes: &[u8], aval: &Aval, placement: &Placement) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    refuse_absent(aval, placement)?;
    let runtime = runtime()?;
    let buffer: Arc<dyn Buffer> = match placement {
        Placement::Device(device) => {
            let buffer = copy_to_device(runtime, bytes, aval, &aval.shape, *device)?;
            Arc::new(DeviceBuffer { buffer, device: *device, committed: true })
        }
        Placement::Mesh(sharding) => Arc::new(shard_from_host(runtime, bytes, aval, sharding)?),
    };
    Ok(Array::concrete(aval.clone(), buffer))
}

/// Refuses a mesh whose devices are only described.
fn refuse_absent(aval: &Aval, placement: &Placement) -> Result<(), Error> {
    match placement.mesh() {
        Some(mesh) if mesh.is_absent() => Err(Error::Plugin(format!(
            "{aval} cannot be put on {mesh}, which was made `without_devices`"
        ))),
        _ => Ok(()),
    }
}

fn copy_to_device(
    runtime: &Runtime,
    bytes: &[u8],
    aval: &Aval,
    shape: &Shape,
    device: DeviceId,
) -> Result<UniqueBuffer, Error> {
    let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
    let buffer = runtime
        .client
        .buffer_from_host(bytes, element_type(aval.dtype), &dims, runtime.device(device)?)
        .map_err(|error| runtime_error(format!("copying {aval} to device {device}"), &error))?;
    Ok(buffer.into_unique().expect("a new buffer has one owner"))
}

fn shard_from_host(
    runtime: &Runtime,
    bytes: &[u8],
    aval: &Aval,
    sharding: &NamedSharding,
) -> Result<ShardedBuffer, Error> {
    let mut shard_bytes: FxHashMap<Vec<Range<usize>>, Vec<u8>> = FxHashMap::default();
    let mut buffers = Vec::with_capacity(sharding.devices().len());
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        if !device.is_local() {
            continue;
        }
        let ranges = sharding.part(ordinal, &aval.shape);
        let shape: Shape = ranges.iter().map(Range::len).collect();
        let bytes = if shape == aval.shape {
            bytes
        } else {
            let take = || aval.shape.read_slice(&ranges, aval.dtype.host_bytes(), bytes);
            shard_bytes.entry(ranges.clone()).or_insert_with(take).as_slice()
        };
        buffers.push(copy_to_device(runtime, bytes, aval, &shape, device.id())?);
    }
    Ok(ShardedBuffer::new(sharding.clone(), Arc::new(aval.clone()), buffers))
}

/// Creates a sharded array from the elements of each local shard, in mesh order.
pub(crate) fn array_from_shards<B: AsRef<[u8]>>(
    aval: &Aval,
    sharding: &NamedSharding,
    shards: &[B],
) -> Result<Array, Error> {
    refuse_absent(aval, &Placement::Mesh(sharding.clone()))?;
    let runtime = runtime()?;
    let shape = sharding.shard_shape(&aval.shape)?;
    let local = sharding.devices().iter().filter(|device| device.is_local());
    let buffers = local
        .zip(shards)
        .map(|(device, bytes)| copy_to_device(runtime, bytes.as_ref(), aval, &shape, device.id()))
        .collect::<Result<_, _>>()?;
    let buffer = ShardedBuffer::new(sharding.clone(), Arc::new(aval.clone()), buffers);
    Ok(Array::concrete(aval.clone(), Arc::new(buffer)))
}

/// Returns the array with another placement. It is copied, unless it has that placement already.
///
/// # Errors
/// `Plugin`, `Compile`, `Runtime`; `Op` (shape) if the sharding does not divide it.
pub(crate) fn transfer(array: &Array, target: &Placement) -> Result<Array, Error> {
    let Kind::Concrete(buffer) = &array.kind else { return Ok(array.clone()) };
    if let Placement::Mesh(sharding) = target {
        sharding.shard_shape(array.shape())?;
    }
    let buffer = transfer_buffer(buffer, array.aval(), target)?;
    Ok(Array::concrete(array.shared_aval().clone(), buffer))
}

/// Transfers a buffer to `target`; see [`transfer`]. The result is committed: an uncommitted buffer
/// is copied even if it is on the right device.
pub(super) fn transfer_buffer(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    target: &Placement,
) -> Result<Arc<dyn Buffer>, Error> {
    refuse_inside("moving an array")?;
    refuse_absent(aval, target)?;
    match (single_device(buffer), target) {
        (Some(source), Placement::Device(id)) => {
            if source.device == *id && source.committed {
                return Ok(buffer.clone());
            }
            let copy = copy_between(runtime()?, &source.buffer, *id)?;
            Ok(Arc::new(DeviceBuffer { buffer: copy, device: *id, committed: true }))
        }
        (Some(source), Placement::Mesh(sharding)) if sharding.is_replicated() => {
            let runtime = runtime()?;
            let local = sharding.devices().iter().filter(|device| device.is_local());
            let copies = local.map(|device| copy_between(runtime, &source.buffer, device.id()));
            let copies = copies.collect::<Result<_, _>>()?;
            Ok(Arc::new(ShardedBuffer::new(sharding.clone(), Arc::new(aval.clone()), copies)))
        }
        (None, Placement::Mesh(sharding)) if shards(buffer).sharding() == sharding => {
            Ok(buffer.clone())
        }
        (None, Placement::Mesh(sharding))
            if shards(buffer).sharding().mesh().same_devices(sharding.mesh()) =>
        {
            reshard(buffer, aval, shards(buffer).sharding(), sharding)
        }
        _ => {
            let mut bytes = vec![0; aval.size() * aval.dtype.host_bytes()];
            buffer.read(&mut bytes)?;
            match put_on(&bytes, aval, target)?.kind {
                Kind::Concrete(buffer) => Ok(buffer),
                Kind::Traced { .. } => unreachable!("an array put on a device is concrete"),
            }
        }
    }
}

fn copy_between(
    runtime: &Runtime,
    buffer: &UniqueBuffer,
    id: DeviceId,
) -> Result<UniqueBuffer, Error> {
    let failed = |error| runtime_error(format!("copying an array to device {id}"), &error);
    let copy = buffer.copy_to_device(runtime.device(id)?).map_err(failed)?;
    Ok(copy.into_unique().expect("a new buffer has one owner"))
}

/// Changes the sharding of an array on the same devices, with a compiled program that exchanges the
/// shards between them.
fn reshard(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    from: &NamedSharding,
    to: &NamedSharding,
) -> Result<Arc<dyn Buffer>, Error> {
    type Key = (Aval, NamedSharding, NamedSharding);
    static EXECUTABLES: OnceLock<Cache<Key, Executable>> = OnceLock::new();
    let key = (aval.clone(), from.clone(), to.clone());
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    let executable = EXECUTABLES.get_or_init(|| Cache::new(RESHARDINGS)).get_or_make(
        hasher.finish(),
        |other| *other == key,
        || key.clone(),
        |(aval, from, to)| {
            let program = Program::new(std::slice::from_ref(aval), &[0], Vec::new(), &[0]);
            let plan = Plan {
                target: Some(Placement::Mesh(to.mesh().replicated())),
                inputs: vec![from.clone()],
                outputs: vec![Some(to.clone())],
            };
            Executable::compile(&program, "reshard", &plan)
        },
    )?;
    let mut scratch = Scratch::default();
    scratch.arguments.push(buffer.clone());
    let result =
        executable.value().execute(&mut scratch, NonDonatable::Indices(&[0]), |results| {
            results.next().map(|array| array.kind)
        })?;
    match result {
        Some(Kind::Concrete(buffer)) => Ok(buffer),
        _ => unreachable!("a program with one output returns one array"),
    }
}
