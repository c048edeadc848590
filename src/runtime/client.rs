//! The process's client: made once, on the first use, and alive until the process ends.

use super::config::RuntimeConfig;
use crate::core::Error;
use crate::core::callback::take_failure;
use oxidax_pjrt::{Client, Code, Device, NamedValue, Plugin};
use oxidax_plugin::{Config, Platform, Request, Stderr, find_or_install};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A client and the device that arrays go to.
pub(super) struct Runtime {
    pub(super) client: Client,
    pub(super) device: Device,
    /// The platform as `lower` rules know it: `cpu`, `cuda`, `tpu`.
    pub(super) platform: String,
}

/// The runtime of the default platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin; asked again, it is looked for again.
pub(super) fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = make()?;
    Ok(RUNTIME.get_or_init(|| made))
}

fn make() -> Result<Runtime, Error> {
    let plugin_error = |error: &dyn std::fmt::Display| Error::Plugin(error.to_string());
    let settings = RuntimeConfig::from_env()?;
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let found = find_or_install(&Request::default(), &config, &mut Stderr::new())
        .map_err(|error| plugin_error(&error))?;
    let plugin = Plugin::load(&found.path).map_err(|error| plugin_error(&error))?;
    let options = match found.platform {
        Platform::Cpu => vec![NamedValue::new("cpu_device_count", settings.cpu_devices)],
        _ => Vec::new(),
    };
    let client = Client::new(plugin, &options).map_err(|error| plugin_error(&error))?;
    // TPUs call no handlers.
    if found.platform != Platform::Tpu {
        super::callbacks::install(&client).map_err(|error| plugin_error(&error))?;
    }
    let device = client.addressable_devices().into_iter().next().ok_or_else(|| {
        Error::Plugin(format!("{} has no device of this process's", found.path.display()))
    })?;
    Ok(Runtime { client, device, platform: found.platform.to_string() })
}

/// An error of PJRT's as ours.
pub(super) fn runtime_error(doing: impl Into<String>, error: &oxidax_pjrt::Error) -> Error {
    if let Some(failure) = take_failure(&error.to_string()) {
        return failure;
    }
    let out_of_memory = error.code() == Some(Code::ResourceExhausted);
    let help = "the device is out of memory: use a smaller batch, and pass by value what is not \
                needed afterwards";
    Error::Runtime {
        doing: doing.into(),
        code: error.code().map(|code| code.to_string()),
        message: error.to_string(),
        help: out_of_memory.then(|| help.to_string()),
    }
}
