//! Memory statistics of devices.

use super::client::{runtime_error, runtime_of};
use super::placement::{shards, single_device};
use crate::core::{Buffer, DeviceId, Error, Layout};
use oxidax_pjrt::{BufferLayout, Code};
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

/// Returns the layout of the elements of an array of this rank on each of its devices.
///
/// # Errors
/// `Runtime` if the plugin does not report it, or the buffer was donated.
pub(crate) fn layout_of(buffer: &Arc<dyn Buffer>, rank: usize) -> Result<Layout, Error> {
    let failed = |error| runtime_error("reading the layout of an array", &error);
    let layout = match single_device(buffer) {
        Some(on_device) => Some(on_device.buffer.layout().map_err(failed)?),
        None => {
            let first = shards(buffer).buffers().first();
            first.map(|shard| shard.layout()).transpose().map_err(failed)?
        }
    };
    // Without a shard in this process there is nothing to report.
    Ok(layout.as_ref().map_or_else(|| Layout::row_major(rank), from_buffer_layout))
}

/// Returns the layout that a plugin reports.
pub(super) fn from_buffer_layout(layout: &BufferLayout) -> Layout {
    let number = |&number: &i64| usize::try_from(number).unwrap_or_default();
    match layout {
        BufferLayout::Tiled { minor_to_major, tiles } => Layout {
            major_to_minor: minor_to_major.iter().rev().map(number).collect(),
            tiling: tiles.iter().map(|tile| tile.iter().map(number).collect()).collect(),
        },
        BufferLayout::Strides { byte_strides } => {
            let mut axes: Vec<usize> = (0..byte_strides.len()).collect();
            axes.sort_by_key(|&axis| std::cmp::Reverse(byte_strides[axis]));
            Layout::new(axes)
        }
        _ => Layout::new([]),
    }
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
