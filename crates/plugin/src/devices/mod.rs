//! Detects the accelerators of this host and checks that they are usable.
//!
//! Detection opens no device and loads no plugin: it reads `/sys`, `/dev` and `/proc`. The root of
//! the file system is [`Config::root`](crate::Config), so tests use fake file trees.

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
use crate::search::PluginFile;

/// Checks whether a client of this platform can be created on this host, without loading a plugin.
/// The check is fast. Compiling for absent devices does not need it.
///
/// The CPU is always usable.
///
/// # Errors
///
/// [`Error::Unusable`] with the reason: no such device, no device files, no permission, or used by
/// another process (with its id). [`Error::BadVariable`] for variables of TPU hosts that cannot be
/// parsed or that contradict the host.
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

/// Checks whether this host meets the requirements of a plugin: a CUDA 13 plugin needs a driver
/// that supports CUDA 13.
///
/// # Errors
///
/// [`Error::Unusable`].
pub fn check_plugin(plugin: &PluginFile, config: &Config) -> Result<(), Error> {
    match plugin.platform {
        Platform::Cuda => Ok(gpu::check_driver(plugin, config)?),
        Platform::Cpu | Platform::Tpu => Ok(()),
    }
}

/// Explains a plugin's failure after [`check`] succeeded, from the plugin's message. Returns `None`
/// if there is nothing to add.
///
/// Without rights over other users' processes, [`check`] cannot see which of them holds the device,
/// and libtpu reports only that the device is in use.
pub fn explain(platform: Platform, config: &Config, message: &str) -> Option<Unusable> {
    match platform {
        Platform::Tpu => tpu::explain(config, message),
        Platform::Cpu | Platform::Cuda => None,
    }
}
