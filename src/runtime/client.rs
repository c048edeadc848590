//! The process's client: made once, on the first use, and alive until the process ends.

use super::config::{CompilerVariables, RuntimeConfig};
use super::cuda::{self, CudaOptions};
use super::identity::Identity;
use crate::core::Error;
use crate::core::host_function::take_failure;
use oxidax_pjrt::{Client, Code, Device, NamedValue, Plugin};
use oxidax_plugin::{Config, Platform, Request, Stderr, devices, find_usable};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A client and its devices.
pub(super) struct Runtime {
    pub(super) client: Client,
    /// Those of this process; arrays go to the first where nothing else is said.
    pub(super) local: Vec<Device>,
    /// Those of all processes, as users know them.
    pub(super) devices: Vec<crate::core::Device>,
    /// The platform as `lower` rules know it: `cpu`, `cuda`, `tpu`.
    pub(super) platform: String,
    /// What keys of compiled programs on disk begin with.
    pub(super) identity: Identity,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Held while the client is made, and while what it is made from is set.
static MAKING: Mutex<()> = Mutex::new(());
/// How many devices the CPU shows, if a program says so itself.
static CPU_DEVICES: OnceLock<i64> = OnceLock::new();

impl Runtime {
    /// A device of this process.
    ///
    /// # Errors
    /// `Plugin` if there is none of this number, or it is another process's.
    pub(super) fn device(&self, id: i32) -> Result<&Device, Error> {
        // Numbers of local devices follow each other as a rule.
        let guess = usize::try_from(id - self.local[0].id()).ok().and_then(|at| self.local.get(at));
        let found = guess.filter(|device| device.id() == id);
        found.or_else(|| self.local.iter().find(|device| device.id() == id)).ok_or_else(|| {
            let known: Vec<i32> = self.local.iter().map(Device::id).collect();
            Error::Plugin(format!("device {id} is not among those of this process, {known:?}"))
        })
    }

    /// The facts of a device.
    pub(super) fn facts(&self, id: i32) -> Option<&crate::core::Device> {
        self.devices.iter().find(|device| device.id() == id)
    }
}

/// Says how many devices the CPU is to show, before the first array is made: as `OXIDAX_CPU_DEVICES`, over which it goes.
///
/// # Errors
/// `Plugin` if the client is there already with another number of devices, or the number is not from 1 to 1024.
pub(crate) fn set_cpu_devices(count: usize) -> Result<(), Error> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if !(1..=1024).contains(&count) {
        return Err(Error::Plugin(format!("{count} CPU devices: it must be from 1 to 1024")));
    }
    let set = *CPU_DEVICES.get_or_init(|| count as i64);
    match RUNTIME.get() {
        Some(runtime) if runtime.platform == "cpu" && runtime.local.len() != count => {
            Err(Error::Plugin(format!(
                "the CPU shows {} devices already: say {count} before the first array is made",
                runtime.local.len()
            )))
        }
        _ if set != count as i64 => {
            Err(Error::Plugin(format!("{set} CPU devices were asked for before, now {count}")))
        }
        _ => Ok(()),
    }
}

/// Says how the CUDA client is to be made, before the first array: it goes over the environment.
///
/// # Errors
/// `Plugin` if there is a CUDA client already, other options were set before, or they make no sense.
pub(crate) fn set_cuda_options(options: CudaOptions) -> Result<(), Error> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_some_and(|runtime| runtime.platform == "cuda") {
        let message = "the CUDA client is made already: set its options before the first array";
        return Err(Error::Plugin(message.into()));
    }
    cuda::ask(options)
}

/// The runtime of the default platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin; asked again, it is looked for again.
pub(super) fn runtime() -> Result<&'static Runtime, Error> {
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
    // A variable that makes no sense is said here, and not when the first program would be kept.
    super::saved::disk_settings()?;
    let variables = CompilerVariables::from_env();
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let found = find_usable(&Request::default(), &config, &mut Stderr::new())
        .map_err(|error| plugin_error(&error))?;
    let plugin = Plugin::load(&found.path).map_err(|error| load_error(&found, &config, &error))?;
    let options = match found.platform {
        Platform::Cpu => vec![{
            let count = CPU_DEVICES.get().copied().unwrap_or(settings.cpu_devices);
            NamedValue::new("cpu_device_count", count)
        }],
        Platform::Cuda => cuda::asked_or(settings.cuda).to_plugin(),
        Platform::Tpu => Vec::new(),
    };
    let identity = Identity::new(&found, options.clone(), variables);
    let client = super::processes::make_client(plugin, found.platform, options)
        .map_err(|error| explained(&found, &config, error))?;
    // TPUs call no handlers.
    if found.platform != Platform::Tpu {
        super::callbacks::install(&client).map_err(|error| plugin_error(&error))?;
    }
    let (local, platform) = (client.addressable_devices(), found.platform.to_string());
    if local.is_empty() {
        let message = format!("{} has no device of this process's", found.path.display());
        return Err(Error::Plugin(message));
    }
    let all = client.devices();
    let facts = all.iter().map(|device| {
        let local = device.is_addressable();
        crate::core::Device::new(
            device.id(),
            device.process_index(),
            &platform,
            device.kind(),
            local,
        )
        .in_slice(slice_in(&device.attributes().unwrap_or_default()))
    });
    let devices = facts.collect();
    Ok(Runtime { client, local, devices, platform, identity })
}

/// Why a plugin cannot be loaded, and what to do where that is known.
fn load_error(found: &oxidax_plugin::Plugin, config: &Config, error: &oxidax_pjrt::Error) -> Error {
    let old = matches!(error, oxidax_pjrt::Error::UnsupportedVersion { .. });
    Error::Plugin(match devices::explain(found.platform, config, &error.to_string()) {
        Some(reason) => format!("{reason}\n  {error}"),
        None if old => format!("{error}\n  help: {}", found.replacement()),
        None => error.to_string(),
    })
}

/// What a plugin says that made no client, and what the system knows of it.
fn explained(found: &oxidax_plugin::Plugin, config: &Config, error: Error) -> Error {
    match devices::explain(found.platform, config, &error.to_string()) {
        Some(reason) => Error::Plugin(format!("{reason}\n  {error}")),
        None => error,
    }
}

/// The slice of TPUs that a device of these attributes belongs to; 0 where the plugin knows none.
pub(super) fn slice_in(attributes: &[NamedValue]) -> i64 {
    let slice = attributes.iter().find(|attribute| attribute.name == "slice_index");
    match slice.map(|attribute| &attribute.value) {
        Some(oxidax_pjrt::Value::Int64(slice)) => *slice,
        _ => 0,
    }
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
