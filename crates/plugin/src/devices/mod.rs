//! Accelerators of this host: which there are, and what keeps them from being used.
//!
//! Nothing is opened and no plugin is loaded: what there is to know lies in `/sys`, `/dev` and
//! `/proc`. The root of the file system is [`Config::root`](crate::Config), so tests describe hosts
//! by faked trees.

mod access;
mod environment;
mod gpu;
mod holders;
mod pci;
#[cfg(test)]
mod tests;
mod tpu;
mod unusable;

pub(crate) use environment::VARIABLES as TPU_VARIABLES;
pub use environment::{AcceleratorType, TpuEnvironment};
pub use gpu::{DriverVersion, GpuHost, NEEDED_DRIVER};
pub use holders::Holder;
pub use tpu::{Generation, TpuHost};
pub use unusable::Unusable;

use crate::config::Config;
use crate::error::Error;
use crate::platform::Platform;
use crate::search::Plugin;

/// Whether a client of this platform can be made here, as far as the system tells without trying:
/// at once, before any plugin is loaded. Compiling for devices that are elsewhere needs none of it.
///
/// The CPU can always be used.
///
/// # Errors
///
/// [`Error::Unusable`] with the reason: no such device, no device files, no permission, held by
/// another process (by its number). [`Error::BadVariable`] for variables of TPU hosts that cannot
/// be read, or that contradict the host.
///
/// # Example
///
/// ```
/// use oxidax_plugin::{Config, Platform, devices};
/// let laptop = Config::bare();
/// assert!(devices::check(Platform::Cpu, &laptop).is_ok());
/// let error = devices::check(Platform::Tpu, &laptop).unwrap_err().to_string();
/// assert!(error.starts_with("this host has no TPU"));
/// ```
pub fn check(platform: Platform, config: &Config) -> Result<(), Error> {
    let user = access::User::current();
    match platform {
        Platform::Cpu => Ok(()),
        Platform::Tpu => tpu::check(config, &user),
        Platform::Cuda => gpu::check(config, &user),
    }
}

/// Whether what this host has goes with a plugin: a CUDA 13 plugin needs a driver that knows CUDA
/// 13.
///
/// # Errors
///
/// [`Error::Unusable`].
pub fn check_plugin(plugin: &Plugin, config: &Config) -> Result<(), Error> {
    match plugin.platform {
        Platform::Cuda => Ok(gpu::check_driver(plugin, config)?),
        Platform::Cpu | Platform::Tpu => Ok(()),
    }
}

/// Why a plugin failed that [`check`] had no objection to, from what the plugin said: `None` where
/// there is nothing to add.
///
/// Without rights over other users' processes [`check`] cannot see which of them holds the device;
/// libtpu then says only that somebody does.
pub fn explain(platform: Platform, config: &Config, message: &str) -> Option<Unusable> {
    match platform {
        Platform::Tpu => tpu::explain(config, message),
        Platform::Cpu | Platform::Cuda => None,
    }
}
