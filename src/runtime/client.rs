//! The process's client, created on first use and kept until the process ends.

use super::cache_key::CacheKeyPrefix;
use super::config::{CompilerVariables, RuntimeConfig};
use super::cuda::{self, CudaOptions};
use super::memory_report::{REMEDIES, explain, means_out_of_memory};
use crate::core::host_function::take_failure;
use crate::core::{DeviceId, Error, Loc};
use oxidax_pjrt::{Client, Code, NamedValue, PjrtDevice, Plugin};
use oxidax_plugin::{Config, Platform, Request, Stderr, devices, find_usable};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A client and its devices.
pub(super) struct Runtime {
    pub(super) client: Client,
    /// Devices of this process. The first one is the default device.
    pub(super) local: Vec<PjrtDevice>,
    /// Devices of all processes, as users see them.
    pub(super) devices: Vec<crate::core::Device>,
    /// The platform: `cpu`, `cuda` or `tpu`.
    pub(super) platform: String,
    /// Prefix of the disk cache's keys.
    pub(super) cache_key: CacheKeyPrefix,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Held while the client is created, and while its options are set.
static CREATION: Mutex<()> = Mutex::new(());
/// Number of CPU devices set with `set_cpu_devices`.
static CPU_DEVICES: OnceLock<i64> = OnceLock::new();

impl Runtime {
    /// Returns a device of this process.
    ///
    /// # Errors
    /// `Plugin` if this process has no device with this id.
    pub(super) fn device(&self, id: DeviceId) -> Result<&PjrtDevice, Error> {
        let DeviceId(id) = id;
        // The ids of local devices are usually consecutive.
        let index = usize::try_from(id - self.local[0].id()).ok();
        let guess = index.and_then(|index| self.local.get(index));
        let device = guess.filter(|device| device.id() == id);
        device.or_else(|| self.local.iter().find(|device| device.id() == id)).ok_or_else(|| {
            let local: Vec<i32> = self.local.iter().map(PjrtDevice::id).collect();
            Error::Plugin(format!("device {id} is not among those of this process, {local:?}"))
        })
    }

    /// Returns the id of the first device of this process.
    pub(super) fn first_device(&self) -> DeviceId {
        DeviceId(self.local[0].id())
    }

    /// Returns the description of a device of any process.
    pub(super) fn described(&self, id: DeviceId) -> Option<&crate::core::Device> {
        self.devices.iter().find(|device| device.id() == id)
    }
}

/// Sets the number of CPU devices, before the client is created. Overrides `OXIDAX_CPU_DEVICES`.
///
/// # Errors
/// `Plugin` if a client with another number of devices exists, or the number is not from 1 to 1024.
pub(crate) fn set_cpu_devices(count: usize) -> Result<(), Error> {
    let _creation = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    if !(1..=1024).contains(&count) {
        return Err(Error::Plugin(format!("{count} CPU devices: it must be from 1 to 1024")));
    }
    let set = *CPU_DEVICES.get_or_init(|| count as i64);
    match RUNTIME.get() {
        Some(runtime) if runtime.platform == "cpu" && runtime.local.len() != count => {
            Err(Error::Plugin(format!(
                "the CPU has {} devices already: request {count} before the first array is created",
                runtime.local.len()
            )))
        }
        _ if set != count as i64 => {
            Err(Error::Plugin(format!("{set} CPU devices were requested before, now {count}")))
        }
        _ => Ok(()),
    }
}

/// Sets the options of the CUDA client, before it is created. Overrides the environment.
///
/// # Errors
/// `Plugin` if a CUDA client exists, other options were set before, or an option is invalid.
pub(crate) fn set_cuda_options(options: CudaOptions) -> Result<(), Error> {
    let _creation = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_some_and(|runtime| runtime.platform == "cuda") {
        let message = "the CUDA client exists already: set its options before the first array";
        return Err(Error::Plugin(message.into()));
    }
    cuda::set_options(options)
}

/// Returns the runtime of the process, creating it if necessary.
///
/// # Errors
/// `Plugin` if there is no usable plugin; the next call searches again.
pub(super) fn runtime() -> Result<&'static Runtime, Error> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _creation = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = create()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

fn create() -> Result<Runtime, Error> {
    let plugin_error = |error: &dyn std::fmt::Display| Error::Plugin(error.to_string());
    let settings = RuntimeConfig::from_env()?;
    // Reports an invalid variable now instead of when the first program is stored.
    super::disk_cache::disk_settings()?;
    let variables = CompilerVariables::from_env();
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let located = find_usable(&Request::default(), &config, &mut Stderr::new())
        .map_err(|error| plugin_error(&error))?;
    let plugin =
        Plugin::load(&located.path).map_err(|error| load_error(&located, &config, &error))?;
    let options = match located.platform {
        Platform::Cpu => vec![{
            let count = CPU_DEVICES.get().copied().unwrap_or(settings.cpu_devices);
            NamedValue::new("cpu_device_count", count)
        }],
        Platform::Cuda => cuda::options_or(settings.cuda).to_plugin(),
        Platform::Tpu => Vec::new(),
    };
    let cache_key = CacheKeyPrefix::new(&located, options.clone(), variables);
    let client = super::processes::create_client(plugin, located.platform, options)
        .map_err(|error| client_error(&located, &config, error))?;
    // libtpu does not support custom call handlers.
    if located.platform != Platform::Tpu {
        super::callbacks::install(&client).map_err(|error| plugin_error(&error))?;
    }
    let (local, platform) = (client.addressable_devices(), located.platform.to_string());
    if local.is_empty() {
        let message = format!("{} has no device for this process", located.path.display());
        return Err(Error::Plugin(message));
    }
    let all = client.devices();
    let described = all.iter().map(|device| {
        let local = device.is_addressable();
        let attributes = device.attributes().unwrap_or_default();
        let (coordinates, core) = location(&attributes);
        crate::core::Device::new(
            device.id(),
            device.process_index(),
            &platform,
            device.kind(),
            local,
        )
        .in_slice(slice_index(&attributes))
        .at(coordinates, core)
    });
    let devices = described.collect();
    Ok(Runtime { client, local, devices, platform, cache_key })
}

/// Explains why a plugin cannot be loaded, with a remedy if one is known.
fn load_error(
    located: &oxidax_plugin::PluginFile,
    config: &Config,
    error: &oxidax_pjrt::Error,
) -> Error {
    let old = matches!(error, oxidax_pjrt::Error::UnsupportedVersion { .. });
    Error::Plugin(match devices::explain(located.platform, config, &error.to_string()) {
        Some(reason) => format!("{reason}\n  {error}"),
        None if old => format!("{error}\n  help: {}", located.replacement()),
        None => error.to_string(),
    })
}

/// Explains why client creation failed: the plugin's message plus hints from the host (drivers,
/// device files).
fn client_error(located: &oxidax_plugin::PluginFile, config: &Config, error: Error) -> Error {
    match devices::explain(located.platform, config, &error.to_string()) {
        Some(reason) => Error::Plugin(format!("{reason}\n  {error}")),
        None => error,
    }
}

/// Returns the index of the TPU slice of a device with these attributes; 0 if they name none.
pub(super) fn slice_index(attributes: &[NamedValue]) -> i64 {
    let slice = attributes.iter().find(|attribute| attribute.name == "slice_index");
    match slice.map(|attribute| &attribute.value) {
        Some(oxidax_pjrt::PjrtValue::Int64(slice)) => *slice,
        _ => 0,
    }
}

/// Returns the coordinates of a TPU's chip in its slice, empty if the attributes do not contain
/// them, and the index of the device on the chip.
pub(super) fn location(attributes: &[NamedValue]) -> (Vec<i64>, i64) {
    let (mut coordinates, mut core) = (Vec::new(), 0);
    for attribute in attributes {
        match (attribute.name.as_str(), &attribute.value) {
            ("coords", oxidax_pjrt::PjrtValue::Int64List(list)) => coordinates.clone_from(list),
            ("core_on_chip", oxidax_pjrt::PjrtValue::Int64(index)) => core = *index,
            _ => {}
        }
    }
    (coordinates, core)
}

/// Converts an error of PJRT; `doing` names the activity that failed.
pub(super) fn runtime_error(doing: impl Into<String>, error: &oxidax_pjrt::Error) -> Error {
    if let Some(failure) = take_failure(&error.to_string()) {
        return failure;
    }
    let text = error.to_string();
    let code = match means_out_of_memory(&text) {
        true => Some(Code::ResourceExhausted),
        false => error.code(),
    };
    let out_of_memory = code == Some(Code::ResourceExhausted);
    let help = format!("the device is out of memory: {REMEDIES}");
    Error::Runtime {
        doing: doing.into(),
        code: code.map(|code| code.to_string()),
        message: match explain(&text) {
            Some(reason) => format!("{reason}: {text}"),
            None => text,
        },
        loc: Loc::UNKNOWN,
        help: out_of_memory.then_some(help),
    }
}
