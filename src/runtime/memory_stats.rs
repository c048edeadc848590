//! Memory statistics of devices.

use super::client::{runtime_error, runtime_of};
use super::placement::{shards, single_device};
use crate::core::{Buffer, DeviceId, Error};
use oxidax_pjrt::Code;
use std::sync::Arc;

pub use oxidax_pjrt::MemoryStats;

/// Returns the number of a device of this process among those of its host.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
pub(crate) fn local_hardware_id(id: DeviceId) -> Result<Option<i32>, Error> {
    Ok(runtime_of(id.1)?.device(id)?.local_hardware_id())
}

/// Returns the bytes that a buffer takes on all of its devices.
///
/// # Errors
/// `Runtime` if the plugin does not report it, or the buffer was donated.
pub(crate) fn on_device_bytes(buffer: &Arc<dyn Buffer>) -> Result<usize, Error> {
    let failed = |error| runtime_error("reading the size of an array", &error);
    if let Some(on_device) = single_device(buffer) {
        return on_device.buffer.on_device_size().map_err(failed);
    }
    let shards = shards(buffer);
    let one = shards.buffers().first().map_or(Ok(0), |shard| shard.on_device_size());
    Ok(one.map_err(failed)? * shards.sharding().devices().len())
}

/// Returns the memory statistics of a device; `None` if its plugin records none.
///
/// # Errors
/// `Plugin` if it is not a device of this process; `Runtime` if the plugin fails.
pub(crate) fn memory_stats(id: DeviceId) -> Result<Option<MemoryStats>, Error> {
    match runtime_of(id.1)?.device(id)?.memory_stats() {
        Ok(stats) => Ok(Some(stats)),
        Err(oxidax_pjrt::Error::Missing { .. }) => Ok(None),
        Err(error) if error.code() == Some(Code::Unimplemented) => Ok(None),
        Err(error) => Err(runtime_error(format!("reading the memory statistics of {id}"), &error)),
    }
}
