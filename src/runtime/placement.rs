//! Placements of buffers, the devices of the process, and the default device.

use super::client::runtime;
use super::device_buffer::DeviceBuffer;
use super::sharded_buffer::ShardedBuffer;
use crate::core::scoped::scoped;
use crate::core::{Array, Buffer, Device, DeviceId, Error, Kind, Placement};
use std::sync::Arc;

scoped!(
    /// The device chosen by `with_default_device`.
    keyed static DEFAULT_DEVICE: Option<DeviceId> = None
);

/// Returns the buffer if it is on a single device.
#[inline]
pub(super) fn single_device(buffer: &Arc<dyn Buffer>) -> Option<&DeviceBuffer> {
    (**buffer).as_any().downcast_ref()
}

/// Returns the shards of a buffer that is on a mesh.
#[inline]
pub(super) fn shards(buffer: &Arc<dyn Buffer>) -> &ShardedBuffer {
    let shards = (**buffer).as_any().downcast_ref();
    shards.expect("the runtime creates buffers on one device or on a mesh")
}

/// Returns true if a buffer has this placement.
#[inline]
pub(crate) fn is_placed(buffer: &Arc<dyn Buffer>, placement: &Placement) -> bool {
    match (placement, single_device(buffer)) {
        (Placement::Device(id), Some(on_device)) => on_device.device == *id,
        (Placement::Mesh(sharding), None) => shards(buffer).sharding() == sharding,
        _ => false,
    }
}

/// Returns true if a buffer was placed explicitly, so that it must not be moved implicitly.
pub(crate) fn is_committed(buffer: &Arc<dyn Buffer>) -> bool {
    single_device(buffer).is_none_or(|on_device| on_device.committed)
}

/// Returns the placement of a buffer.
fn buffer_placement(buffer: &Arc<dyn Buffer>) -> Placement {
    match single_device(buffer) {
        Some(on_device) => Placement::Device(on_device.device),
        None => Placement::Mesh(shards(buffer).sharding().clone()),
    }
}

/// Returns the placement of a concrete array; `None` for a traced one.
pub(crate) fn placement_of(array: &Array) -> Option<Placement> {
    match &array.kind {
        Kind::Concrete(buffer) => Some(buffer_placement(buffer)),
        Kind::Traced { .. } => None,
    }
}

/// Returns the placement of an array that was placed explicitly; `None` for other arrays.
pub(crate) fn committed_placement(array: &Array) -> Option<Placement> {
    match &array.kind {
        Kind::Concrete(buffer) if is_committed(buffer) => Some(buffer_placement(buffer)),
        _ => None,
    }
}

/// Returns the id of the device for new arrays and for programs without committed arguments.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn default_device() -> Result<DeviceId, Error> {
    match DEFAULT_DEVICE.key() {
        Some(id) => Ok(id),
        None => Ok(runtime()?.first_device()),
    }
}

/// Runs `f` with this default device.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
pub(crate) fn with_default_device<R>(id: DeviceId, f: impl FnOnce() -> R) -> Result<R, Error> {
    runtime()?.device(id)?;
    Ok(DEFAULT_DEVICE.scope(Some(id), f))
}

/// Returns the devices of all processes.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn devices() -> Result<&'static [Device], Error> {
    Ok(&runtime()?.devices)
}

/// Returns the platform of the process: `cpu`, `cuda` or `tpu`.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn platform() -> Result<&'static str, Error> {
    Ok(&runtime()?.platform)
}

/// Returns the device with this id.
///
/// # Errors
/// `Plugin` if there is none.
pub(crate) fn device_by_id(id: DeviceId) -> Result<Device, Error> {
    let device = runtime()?.described(id).cloned();
    device.ok_or_else(|| Error::Plugin(format!("there is no device {id}")))
}
