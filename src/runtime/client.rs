//! The process's clients: one per platform, created on first use and kept until the process ends.

use super::cache_key::CacheKeyPrefix;
use super::config::{CompilerVariables, RuntimeConfig};
use super::cpu_malloc::{self, CpuMalloc};
use super::cuda::{self, CudaOptions};
use super::default_device;
use super::memory_report::{REMEDIES, explain, means_out_of_memory};
use super::registered_plugins::{self, PluginOptions, RegisteredPlugin};
use crate::core::host_function::take_failure;
use crate::core::{DeviceId, Error, Loc, PlatformId};
use oxidax_pjrt::{Client, Code, NamedValue, PjrtDevice};
use oxidax_plugin::{Config, Origin, Platform, PluginFile, Request, Stderr, devices, find_usable};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// A client and its devices.
pub(super) struct Runtime {
    pub(super) client: Client,
    /// Devices of this process. The first one is the platform's default device.
    pub(super) local: Vec<PjrtDevice>,
    /// Devices of all processes, as users see them.
    pub(super) devices: Vec<crate::core::Device>,
    /// The platform: `cpu`, `cuda`, `tpu`, or the name of a registered plugin.
    pub(super) platform: PlatformId,
    /// The platform that programs are lowered for. A registered plugin reports it.
    pub(super) compiler: String,
    /// Prefix of the disk cache's keys.
    pub(super) cache_key: CacheKeyPrefix,
}

/// The clients, in the order of their creation.
static RUNTIMES: RwLock<Vec<&'static Runtime>> = RwLock::new(Vec::new());
/// Held while a client is created, and while settings of clients change.
static CREATION: Mutex<()> = Mutex::new(());
/// Number of CPU devices set with `set_cpu_devices`.
static CPU_DEVICES: OnceLock<i64> = OnceLock::new();
/// The default platform set by the program.
static DEFAULT_PLATFORM: Mutex<Option<PlatformId>> = Mutex::new(None);

impl Runtime {
    /// Returns a device of this process.
    ///
    /// # Errors
    /// `Plugin` if this process has no device with this id.
    pub(super) fn device(&self, id: DeviceId) -> Result<&PjrtDevice, Error> {
        let number = id.0;
        // The numbers of local devices are usually consecutive.
        let index = usize::try_from(number - self.local[0].id()).ok();
        let guess = index.and_then(|index| self.local.get(index));
        let device = guess.filter(|device| device.id() == number);
        device.or_else(|| self.local.iter().find(|device| device.id() == number)).ok_or_else(|| {
            let local: Vec<i32> = self.local.iter().map(PjrtDevice::id).collect();
            Error::Plugin(format!("device {id} is not among those of this process, {local:?}"))
        })
    }

    /// Returns the id of the first device of this process.
    pub(super) fn first_device(&self) -> DeviceId {
        DeviceId(self.local[0].id(), self.platform)
    }

    /// Returns the description of a device of any process.
    pub(super) fn described(&self, id: DeviceId) -> Option<&crate::core::Device> {
        self.devices.iter().find(|device| device.id().0 == id.0)
    }
}

fn creation() -> MutexGuard<'static, ()> {
    CREATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the client of a platform, if it exists.
fn existing(platform: PlatformId) -> Option<&'static Runtime> {
    let runtimes = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner);
    runtimes.iter().copied().find(|runtime| runtime.platform == platform)
}

/// Sets the number of CPU devices, before the client is created. Overrides `OXIDAX_CPU_DEVICES`.
///
/// # Errors
/// `Plugin` if a client with another number of devices exists, or the number is not from 1 to 1024.
pub(crate) fn set_cpu_devices(count: usize) -> Result<(), Error> {
    let _creation = creation();
    if !(1..=1024).contains(&count) {
        return Err(Error::Plugin(format!("{count} CPU devices: it must be from 1 to 1024")));
    }
    let set = *CPU_DEVICES.get_or_init(|| count as i64);
    match existing(PlatformId::of("cpu")) {
        Some(runtime) if runtime.local.len() != count => Err(Error::Plugin(format!(
            "the CPU has {} devices already: request {count} before the first array is created",
            runtime.local.len()
        ))),
        _ if set != count as i64 => {
            Err(Error::Plugin(format!("{set} CPU devices were requested before, now {count}")))
        }
        _ => Ok(()),
    }
}

/// Returns the number of CPU devices that the program requested.
pub(crate) fn requested_cpu_devices() -> Option<usize> {
    CPU_DEVICES.get().and_then(|count| usize::try_from(*count).ok())
}

/// Sets the allocator of large blocks of CPU memory. Overrides `OXIDAX_CPU_MALLOC`.
///
/// # Errors
/// `Plugin` if the CPU client exists and its plugin cannot use a pool.
pub(crate) fn set_cpu_malloc(malloc: CpuMalloc) -> Result<(), Error> {
    let _creation = creation();
    let runtime = existing(PlatformId::of("cpu"));
    cpu_malloc::choose(malloc, runtime.map(|runtime| runtime.client.plugin()))
}

/// Returns the allocator of large blocks of CPU memory that the program or the environment chose,
/// or the default.
///
/// # Errors
/// `Plugin` if a variable is invalid.
pub(crate) fn cpu_malloc() -> Result<CpuMalloc, Error> {
    let environment = RuntimeConfig::from_env()?.cpu_malloc;
    Ok(cpu_malloc::choice(environment).unwrap_or_default())
}

/// Sets the options of the CUDA client, before it is created. Overrides the environment.
///
/// # Errors
/// `Plugin` if a CUDA client exists, other options were set before, or an option is invalid.
pub(crate) fn set_cuda_options(options: CudaOptions) -> Result<(), Error> {
    let _creation = creation();
    if existing(PlatformId::of("cuda")).is_some() {
        let message = "the CUDA client exists already: set its options before the first array";
        return Err(Error::Plugin(message.into()));
    }
    cuda::set_options(options)
}

/// Registers a plugin under the name of a platform.
///
/// # Errors
/// `Plugin` if the name is invalid, the file is not a plugin for this machine, or the platform is
/// in use already.
pub(crate) fn register_plugin(
    name: &str,
    library: &Path,
    options: PluginOptions,
) -> Result<(), Error> {
    let _creation = creation();
    let is_in_use = existing(PlatformId::of(name)).is_some();
    registered_plugins::register(name, library, options, is_in_use)
}

/// Sets the default platform of the process, or with `None` the one of the environment and this
/// host. Its client is created on first use.
///
/// # Errors
/// `Plugin` if there is no platform of this name.
pub(crate) fn set_default_platform(name: Option<&str>) -> Result<(), Error> {
    let platform = name.map(platform_named).transpose()?;
    let _creation = creation();
    *DEFAULT_PLATFORM.lock().unwrap_or_else(PoisonError::into_inner) = platform;
    default_device::forget_first();
    Ok(())
}

/// Returns the default platform that the program set.
pub(crate) fn configured_platform() -> Option<PlatformId> {
    *DEFAULT_PLATFORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the platform of this name. `gpu` is `cuda`.
///
/// # Errors
/// `Plugin` if it is neither built in nor registered.
pub(crate) fn platform_named(name: &str) -> Result<PlatformId, Error> {
    let name = name.to_lowercase();
    let name = if name == "gpu" { "cuda" } else { &name };
    if name.parse::<Platform>().is_ok() {
        return Ok(PlatformId::of(name));
    }
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    match registered_plugins::find(name, &config)? {
        Some(_) => Ok(PlatformId::of(name)),
        None => {
            let mut known: Vec<String> = Platform::ALL.map(|one| one.to_string()).to_vec();
            known.extend(registered_plugins::names(&config));
            Err(Error::Plugin(format!(
                "there is no platform `{name}`; there are {}\n  help: `register_plugin` adds one, \
                 and so does PJRT_NAMES_AND_LIBRARY_PATHS={name}:PATH",
                known.join(", ")
            )))
        }
    }
}

/// Returns the client of a platform, creating it if necessary.
///
/// # Errors
/// `Plugin` if there is no usable plugin; the next call searches again.
pub(super) fn runtime_of(platform: PlatformId) -> Result<&'static Runtime, Error> {
    if platform == PlatformId::UNSPECIFIED {
        return default_runtime();
    }
    if let Some(runtime) = existing(platform) {
        return Ok(runtime);
    }
    let _creation = creation();
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    existing_or_created(platform, &config)
}

/// Returns the client of the default platform, creating it if necessary: the platform that the
/// program chose, else that of `OXIDAX_PLATFORM`, else the one of this host's devices.
///
/// # Errors
/// `Plugin` if there is no usable plugin; the next call searches again.
pub(super) fn default_runtime() -> Result<&'static Runtime, Error> {
    if let Some(runtime) = default_device::first().and_then(|first| existing(first.1)) {
        return Ok(runtime);
    }
    let _creation = creation();
    if let Some(runtime) = default_device::first().and_then(|first| existing(first.1)) {
        return Ok(runtime);
    }
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let named = config.platform.map(|platform| platform.to_string());
    let chosen = match (configured_platform(), named.or(config.other_platform.clone())) {
        (Some(platform), _) => Some(platform),
        (None, Some(name)) => Some(platform_named(&name)?),
        (None, None) => None,
    };
    let runtime = match chosen {
        Some(platform) => existing_or_created(platform, &config)?,
        None => {
            let located = find_usable(&Request::default(), &config, &mut Stderr::new());
            let located = located.map_err(|error| plugin_error(&error))?;
            let platform = PlatformId::of(located.platform.name());
            match existing(platform) {
                Some(runtime) => runtime,
                None => create(platform, &located, Some(located.platform), None, &config)?,
            }
        }
    };
    default_device::set_first(runtime.first_device());
    Ok(runtime)
}

/// Returns the client of a platform. The caller holds `CREATION`.
fn existing_or_created(platform: PlatformId, config: &Config) -> Result<&'static Runtime, Error> {
    if let Some(runtime) = existing(platform) {
        return Ok(runtime);
    }
    let builtin: Option<Platform> = platform.name().parse().ok();
    if let Some(registered) = registered_plugins::find(platform.name(), config)? {
        let file = PluginFile {
            platform: builtin.unwrap_or(Platform::Cpu),
            path: registered.path.clone(),
            origin: Origin::Caller,
            sha256: None,
        };
        return create(platform, &file, builtin, Some(&registered), config);
    }
    let Some(builtin) = builtin else {
        return Err(Error::Plugin(format!("there is no platform `{platform}`")));
    };
    let request = Request { platform: Some(builtin), path: None };
    let located = find_usable(&request, config, &mut Stderr::new());
    create(platform, &located.map_err(|error| plugin_error(&error))?, Some(builtin), None, config)
}

fn plugin_error(error: &dyn std::fmt::Display) -> Error {
    Error::Plugin(error.to_string())
}

/// Creates the client of a platform. `builtin` is the platform that the plugin is known to drive;
/// `registered` is its registration, if there is one.
fn create(
    platform: PlatformId,
    located: &PluginFile,
    builtin: Option<Platform>,
    registered: Option<&RegisteredPlugin>,
    config: &Config,
) -> Result<&'static Runtime, Error> {
    let settings = RuntimeConfig::from_env()?;
    if settings.track_arrays {
        super::live_arrays::set_tracked_by_environment();
    }
    // Reports an invalid variable now instead of when the first program is stored.
    super::disk_cache::disk_settings()?;
    let variables = CompilerVariables::from_env();
    let plugin = super::plugin_profilers::load_plugin(&located.path);
    let plugin = plugin.map_err(|error| load_error(located, builtin, config, &error))?;
    let defaults = match builtin {
        Some(Platform::Cpu) => vec![{
            let count = CPU_DEVICES.get().copied().unwrap_or(settings.cpu_devices);
            NamedValue::new("cpu_device_count", count)
        }],
        Some(Platform::Cuda) => cuda::options_or(settings.cuda).to_plugin(),
        Some(Platform::Tpu) | None => Vec::new(),
    };
    let options = match registered {
        Some(registered) => registered.options.over(defaults),
        None => defaults,
    };
    if builtin == Some(Platform::Cpu) {
        cpu_malloc::apply(plugin, cpu_malloc::choice(settings.cpu_malloc))?;
    }
    let cache_key = CacheKeyPrefix::new(located, options.clone(), variables);
    let client = super::processes::create_client(plugin, builtin, options)
        .map_err(|error| client_error(builtin, config, error))?;
    let compiler = match builtin {
        Some(builtin) => builtin.to_string(),
        None if client.is_cpu() => Platform::Cpu.to_string(),
        None => client.platform_name().to_lowercase(),
    };
    install_callbacks(&client, &compiler, registered.is_some())?;
    let local = client.addressable_devices();
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
            platform.name(),
            device.kind(),
            local,
        )
        .in_slice(slice_index(&attributes))
        .at(coordinates, core)
    });
    let devices = described.collect();
    let runtime = Runtime { client, local, devices, platform, compiler, cache_key };
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    RUNTIMES.write().unwrap_or_else(PoisonError::into_inner).push(runtime);
    Ok(runtime)
}

/// Registers the custom call of host functions, if the platform supports such calls. A plugin that
/// the user registered may lack them; programs with host functions then fail to compile.
fn install_callbacks(client: &Client, compiler: &str, is_optional: bool) -> Result<(), Error> {
    // libtpu does not support custom call handlers.
    if compiler == "tpu" {
        return Ok(());
    }
    let is_installed =
        |other: &&Runtime| other.client.plugin() == client.plugin() && other.compiler == compiler;
    let runtimes = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner);
    if runtimes.iter().copied().any(|other| is_installed(&other)) {
        return Ok(());
    }
    match super::callbacks::install(client) {
        Err(error) if is_optional => {
            tracing::debug!(%error, "programs for this plugin cannot call host functions");
            Ok(())
        }
        installed => installed.map_err(|error| plugin_error(&error)),
    }
}

/// Explains why a plugin cannot be loaded, with a remedy if one is known.
fn load_error(
    located: &PluginFile,
    builtin: Option<Platform>,
    config: &Config,
    error: &oxidax_pjrt::Error,
) -> Error {
    let old = matches!(error, oxidax_pjrt::Error::UnsupportedVersion { .. });
    let explain = |platform| devices::explain(platform, config, &error.to_string());
    Error::Plugin(match builtin.and_then(explain) {
        Some(reason) => format!("{reason}\n  {error}"),
        None if old && builtin.is_some() => format!("{error}\n  help: {}", located.replacement()),
        None => error.to_string(),
    })
}

/// Explains why client creation failed: the plugin's message plus hints from the host (drivers,
/// device files).
fn client_error(builtin: Option<Platform>, config: &Config, error: Error) -> Error {
    match builtin.and_then(|platform| devices::explain(platform, config, &error.to_string())) {
        Some(reason) => Error::Plugin(format!("{reason}\n  {error}")),
        None => error,
    }
}

/// Returns the index of the slice of a device with these attributes; 0 if they name none. TPU
/// plugins call it `slice_index`, CUDA plugins `partition_index`.
pub(super) fn slice_index(attributes: &[NamedValue]) -> i64 {
    let names = ["slice_index", "partition_index"];
    let slice = attributes.iter().find(|attribute| names.contains(&attribute.name.as_str()));
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
        help: out_of_memory.then(|| help.into()),
    }
}
