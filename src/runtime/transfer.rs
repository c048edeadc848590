//! Transfers: from the host to devices, and between devices.

use super::client::{runtime_error, runtime_of};
use super::default_device::default_device;
use super::device_buffer::{DeviceBuffer, element_type};
use super::executable::Executable;
use super::host_blocks::{HostBlock, global_shape, local_shard_bytes};
use super::layouts::in_default_layout;
use super::placement::{shards, single_device};
use super::scratch::{NonDonatable, Scratch};
use super::sharded_buffer::ShardedBuffer;
use crate::core::host_function::refuse_inside;
use crate::core::options::{TransferDirection, TransferRequest, check_transfer};
use crate::core::scoped::scoped;
use crate::core::spans::{Details, EventKind, Span};
use crate::core::{
    Array, Aval, Buffer, Cache, DeviceId, Error, Kind, Loc, MemoryKind, NamedSharding, Placement,
    Program, Shape,
};
use crate::passes::Plan;
use oxidax_pjrt::{Memory, PjrtDevice, UniqueBuffer};
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
    let global = &global.with_memory(sharding.memory_kind());
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
    let local = sharding.mesh().local_mesh()?.sharding(sharding.spec().clone())?;
    let local = local.with_memory_kind(sharding.memory_kind());
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
    let buffer = copy_to_device(bytes, aval, &aval.shape, device)?;
    let aval = Arc::new(aval.clone());
    let buffer = DeviceBuffer::new(buffer, device, false, &aval);
    Ok(Array::concrete(aval, Arc::new(buffer)))
}

/// Copies elements to a placement, into the memory of `aval`.
///
/// # Errors
/// `Plugin`, `Runtime`.
fn put_on(bytes: &[u8], aval: &Aval, placement: &Placement) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    refuse_absent(aval, placement)?;
    let aval = &placed(aval, placement.sharding());
    let buffer: Arc<dyn Buffer> = match placement {
        Placement::Device(device) => {
            let buffer = copy_to_device(bytes, aval, &aval.shape, *device)?;
            Arc::new(DeviceBuffer::new(buffer, *device, true, &Arc::new(aval.clone())))
        }
        Placement::Mesh(sharding) => Arc::new(shard_from_host(bytes, aval, sharding)?),
    };
    Ok(Array::concrete(aval.clone(), buffer))
}

/// Returns the type of an array of type `aval` that is stored with this sharding, or on one device.
fn placed(aval: &Aval, sharding: Option<&NamedSharding>) -> Aval {
    Aval { sharding: sharding.and_then(NamedSharding::explicit_part), ..aval.clone() }
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
    bytes: &[u8],
    aval: &Aval,
    shape: &Shape,
    device: DeviceId,
) -> Result<UniqueBuffer, Error> {
    let _span = Span::within(EventKind::ToDevice, || Details::new("", "bytes", bytes.len()));
    let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
    let runtime = runtime_of(device.1)?;
    let (dtype, on_device) = (element_type(aval.dtype), runtime.device(device)?);
    let created = if aval.memory.is_host() {
        let memory = memory_of(on_device, aval.memory)?;
        runtime.client.buffer_from_host(bytes, dtype, &dims, &memory)
    } else {
        runtime.client.buffer_from_host(bytes, dtype, &dims, on_device)
    };
    let buffer = created
        .map_err(|error| runtime_error(format!("copying {aval} to device {device}"), &error))?;
    Ok(buffer.into_unique().expect("a new buffer has one owner"))
}

fn shard_from_host(
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
        buffers.push(copy_to_device(bytes, aval, &shape, device.id())?);
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
    let aval = &placed(aval, Some(sharding)).with_memory(sharding.memory_kind());
    let shape = sharding.shard_shape(&aval.shape)?;
    let local = sharding.devices().iter().filter(|device| device.is_local());
    let buffers = local
        .zip(shards)
        .map(|(device, bytes)| copy_to_device(bytes.as_ref(), aval, &shape, device.id()))
        .collect::<Result<_, _>>()?;
    let buffer = ShardedBuffer::new(sharding.clone(), Arc::new(aval.clone()), buffers);
    Ok(Array::concrete(aval.clone(), Arc::new(buffer)))
}

/// Creates a sharded array from its shards: arrays on one device each, in the order of the local
/// devices of the sharding. They are copied.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(crate) fn array_on_devices(
    aval: &Aval,
    sharding: &NamedSharding,
    shards: &[&Array],
) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    refuse_absent(aval, &Placement::Mesh(sharding.clone()))?;
    let mut copies = Vec::with_capacity(shards.len());
    for shard in shards {
        let Kind::Concrete(buffer) = &shard.kind else { continue };
        let buffer = in_default_layout(buffer, shard.aval())?;
        let Some(source) = single_device(&buffer) else { continue };
        copies.push(copy_between(&source.buffer, aval.memory, source.device, aval.memory)?);
    }
    let aval = Arc::new(placed(aval, Some(sharding)));
    let buffer = ShardedBuffer::new(sharding.clone(), aval.clone(), copies);
    Ok(Array::concrete(aval, Arc::new(buffer)))
}

/// Returns the array with another placement, in `memory`. It is copied, unless it is there already.
/// `memory` is that of the sharding, if `target` is one.
///
/// # Errors
/// `Plugin`, `Compile`, `Runtime`; `Op` (shape) if the sharding does not divide it.
pub(crate) fn transfer(
    array: &Array,
    target: &Placement,
    memory: MemoryKind,
) -> Result<Array, Error> {
    let Kind::Concrete(buffer) = &array.kind else { return Ok(array.clone()) };
    if let Placement::Mesh(sharding) = target {
        sharding.shard_shape(array.shape())?;
    }
    let direction = TransferDirection::DeviceToDevice;
    check_transfer(direction, TransferRequest::Explicit, array.aval(), Loc::UNKNOWN)?;
    let buffer = transfer_buffer(buffer, array.aval(), target, memory)?;
    let explicit = target.sharding().and_then(NamedSharding::explicit_part);
    if array.aval().memory == memory && array.aval().sharding == explicit {
        return Ok(Array::concrete(array.shared_aval().clone(), buffer));
    }
    let aval = Aval { sharding: explicit, ..array.aval().with_memory(memory) };
    Ok(Array::concrete(aval, buffer))
}

/// Transfers a buffer of type `aval` to `target`; see [`transfer`]. The result is committed: an
/// uncommitted buffer is copied even if it is on the right device.
pub(super) fn transfer_buffer(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    target: &Placement,
    memory: MemoryKind,
) -> Result<Arc<dyn Buffer>, Error> {
    let moved = || Arc::new(aval.with_memory(memory));
    refuse_inside("moving an array")?;
    refuse_absent(aval, target)?;
    let buffer = &in_default_layout(buffer, aval)?;
    match (single_device(buffer), target) {
        (Some(source), Placement::Device(id)) if source.device.1 == id.1 => {
            if source.device == *id && source.committed && aval.memory == memory {
                return Ok(buffer.clone());
            }
            let copy = copy_between(&source.buffer, aval.memory, *id, memory)?;
            Ok(Arc::new(DeviceBuffer::new(copy, *id, true, &moved())))
        }
        (Some(source), Placement::Mesh(sharding))
            if sharding.is_replicated() && sharding.devices()[0].id().1 == source.device.1 =>
        {
            let local = sharding.devices().iter().filter(|device| device.is_local());
            let copies =
                local.map(|device| copy_between(&source.buffer, aval.memory, device.id(), memory));
            let copies = copies.collect::<Result<_, _>>()?;
            Ok(Arc::new(ShardedBuffer::new(sharding.clone(), moved(), copies)))
        }
        (None, Placement::Mesh(sharding)) if shards(buffer).sharding() == sharding => {
            Ok(buffer.clone())
        }
        (None, Placement::Mesh(sharding))
            if shards(buffer).sharding().mesh().same_devices(sharding.mesh()) =>
        {
            let from = shards(buffer).sharding();
            let same_memory = sharding.with_memory_kind(aval.memory);
            let buffer = match *from == same_memory {
                true => buffer.clone(),
                false => reshard(buffer, aval, from, &same_memory)?,
            };
            if aval.memory == memory {
                return Ok(buffer);
            }
            let local = sharding.devices().iter().filter(|device| device.is_local());
            let copies = local
                .zip(shards(&buffer).buffers())
                .map(|(device, shard)| copy_between(shard, aval.memory, device.id(), memory));
            let copies = copies.collect::<Result<_, _>>()?;
            Ok(Arc::new(ShardedBuffer::new(sharding.clone(), moved(), copies)))
        }
        // Through the host: between meshes of different devices, and between platforms.
        _ => {
            let mut bytes = vec![0; aval.size() * aval.dtype.host_bytes()];
            buffer.read(&mut bytes)?;
            match put_on(&bytes, &moved(), target)?.kind {
                Kind::Concrete(buffer) => Ok(buffer),
                Kind::Traced { .. } => unreachable!("an array put on a device is concrete"),
            }
        }
    }
}

/// Copies a buffer from the memory `from` of its device to the memory `to` of a device of its
/// platform.
pub(super) fn copy_between(
    buffer: &UniqueBuffer,
    from: MemoryKind,
    id: DeviceId,
    to: MemoryKind,
) -> Result<UniqueBuffer, Error> {
    let _span = Span::within(EventKind::Copy, || "");
    let failed = |error| runtime_error(format!("copying an array to device {id}"), &error);
    let device = runtime_of(id.1)?.device(id)?;
    let copy = match from.is_host() || to.is_host() {
        true => buffer.copy_to_memory(&memory_of(device, to)?),
        false => buffer.copy_to_device(device),
    };
    let copy = copy.map_err(failed)?;
    Ok(copy.into_unique().expect("a new buffer has one owner"))
}

/// Returns a memory of a device.
///
/// # Errors
/// `Plugin` with the device's memories if it has none of this kind.
fn memory_of(device: &PjrtDevice, kind: MemoryKind) -> Result<Memory, Error> {
    let memory = match kind {
        MemoryKind::Device => device.default_memory(),
        host => device.memory(host.name()),
    };
    memory.ok_or_else(|| {
        let kinds: Vec<String> =
            device.memories().iter().map(|memory| format!("`{}`", memory.kind())).collect();
        Error::Plugin(format!(
            "{device} has no memory `{kind}`; it has {}",
            if kinds.is_empty() { "none that it names".into() } else { kinds.join(", ") }
        ))
    })
}

/// Returns the kinds of memory that a device of this process can access.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
pub(crate) fn memory_kinds(id: DeviceId) -> Result<Vec<MemoryKind>, Error> {
    let device = runtime_of(id.1)?.device(id)?;
    let is_there = |kind: &MemoryKind| memory_of(device, *kind).is_ok();
    Ok(MemoryKind::ALL.into_iter().filter(is_there).collect())
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
                ..Plan::default()
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
