//! Memory statistics of devices.

use super::client::{runtime_error, runtime_of};
use crate::core::{DeviceId, Error};
use oxidax_pjrt::Code;

pub use oxidax_pjrt::MemoryStats;

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
