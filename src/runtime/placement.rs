//! Placements of buffers, and the devices of the process.

use super::client::{default_runtime, platform_named, runtime_of};
use super::device_buffer::DeviceBuffer;
use super::sharded_buffer::ShardedBuffer;
use crate::core::{Array, Buffer, Device, DeviceId, Error, Kind, Placement};
use std::sync::Arc;

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
pub(super) fn buffer_placement(buffer: &Arc<dyn Buffer>) -> Placement {
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

/// Returns the devices of the default platform, of all processes.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn devices() -> Result<&'static [Device], Error> {
    Ok(&default_runtime()?.devices)
}

/// Returns the devices of a platform, of all processes.
///
/// # Errors
/// `Plugin` if there is no such platform, or no usable plugin for it.
pub(crate) fn devices_of(platform: &str) -> Result<&'static [Device], Error> {
    Ok(&runtime_of(platform_named(platform)?)?.devices)
}

/// Returns the default platform: `cpu`, `cuda`, `tpu`, or the name of a registered plugin.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub(crate) fn platform() -> Result<&'static str, Error> {
    Ok(default_runtime()?.platform.name())
}

/// Returns the device with this id.
///
/// # Errors
/// `Plugin` if there is none.
pub(crate) fn device_by_id(id: DeviceId) -> Result<Device, Error> {
    let device = runtime_of(id.1)?.described(id).cloned();
    device.ok_or_else(|| Error::Plugin(format!("there is no device {id}")))
}
