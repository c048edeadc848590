//! Settings of the process: platform, default device, precision, CPU memory, compile cache.
//!
//! [`update`] sets them in code, before or after the first array. What environment variables set
//! too, code overrides.
//!
//! ```standalone_crate
//! use oxidax::config::{self, ProcessConfig};
//! use oxidax::prelude::*;
//! config::update(ProcessConfig::new().default_matmul_precision(Precision::Highest))?;
//! assert_eq!(config::current()?.default_matmul_precision, Precision::Highest);
//! # Ok::<(), Error>(())
//! ```
//!
//! | setting | in JAX | variable | can be changed |
//! |---|---|---|---|
//! | [`platform`](ProcessConfig::platform) | `jax_platforms` | `OXIDAX_PLATFORM` | always; arrays stay where they are |
//! | [`default_device`](ProcessConfig::default_device) | `jax_default_device` | | always; arrays stay where they are |
//! | [`cpu_devices`](ProcessConfig::cpu_devices) | `jax_num_cpu_devices` | `OXIDAX_CPU_DEVICES` | until the CPU client exists |
//! | [`cpu_malloc`](ProcessConfig::cpu_malloc) | | `OXIDAX_CPU_MALLOC`: `pool` or `system` | always, for memory allocated afterwards |
//! | [`default_matmul_precision`](ProcessConfig::default_matmul_precision) | `jax_default_matmul_precision` | `OXIDAX_DEFAULT_MATMUL_PRECISION`: `default`, `high` or `highest` | always; functions are compiled again |
//! | [`cache`](ProcessConfig::cache), [`cache_folder`](ProcessConfig::cache_folder) | `jax_compilation_cache_dir` and related | `OXIDAX_CACHE` and related | always, for programs compiled afterwards |
//! | [`track_arrays`](ProcessConfig::track_arrays) | | `OXIDAX_TRACK_ARRAYS` | always, for arrays created afterwards |
//! | [`record_failures`](ProcessConfig::record_failures) | | `OXIDAX_RECORD_FAILURES`: a folder | always |
//!
//! Scopes override the process's settings on one thread:
//! [`with_default_device`](crate::parallel::with_default_device) and
//! [`with_matmul_precision`](crate::core::with_matmul_precision).

use crate::core::{Device, Error, Precision};
use crate::jit::cache::{self, Settings};
use crate::{parallel, runtime};
use std::path::PathBuf;

pub use crate::runtime::{CpuMalloc, RecordOptions};

/// Settings to change with [`update`]. Settings that are not mentioned stay as they are.
#[derive(Clone, Debug, Default)]
pub struct ProcessConfig {
    cpu_devices: Option<usize>,
    cpu_malloc: Option<CpuMalloc>,
    cache: Option<Settings>,
    cache_folder: Option<PathBuf>,
    platform: Option<Option<String>>,
    default_device: Option<Option<Device>>,
    default_matmul_precision: Option<Precision>,
    track_arrays: Option<bool>,
    record_failures: Option<Option<RecordOptions>>,
}

/// The settings in force, as [`current`] returns them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurrentConfig {
    /// The default platform that the program set; `None` if the environment and this host decide.
    pub platform: Option<String>,
    /// The default device that the program set; `None` for the first one of the default platform.
    pub default_device: Option<Device>,
    /// The number of CPU devices that the program requested.
    pub cpu_devices: Option<usize>,
    /// The allocator of large blocks of CPU memory that the program or the environment chose, or
    /// the default.
    pub cpu_malloc: CpuMalloc,
    /// The default precision of matrix products and convolutions.
    pub default_matmul_precision: Precision,
    /// The disk cache of compiled programs.
    pub cache: Settings,
    /// True if new arrays are listed by [`live_arrays`](parallel::live_arrays).
    pub track_arrays: bool,
    /// The folder in which failing calls of all threads are recorded; `None` if they are not.
    pub record_failures: Option<RecordOptions>,
}

impl ProcessConfig {
    /// Returns no changes.
    pub fn new() -> ProcessConfig {
        ProcessConfig::default()
    }

    /// Sets the default platform: `cpu`, `cuda` (or `gpu`), `tpu`, or the name of a
    /// [registered plugin](parallel::register_plugin). `None` restores the platform of
    /// `OXIDAX_PLATFORM` or of this host.
    ///
    /// The platform's client is created on first use; a platform that is unusable is an error then,
    /// and never replaced by another one. After the first array, the setting holds for what is
    /// created later.
    #[doc(alias = "jax_platforms")]
    #[must_use]
    pub fn platform<'a>(mut self, name: impl Into<Option<&'a str>>) -> ProcessConfig {
        self.platform = Some(name.into().map(str::to_owned));
        self
    }

    /// Sets the device of new arrays, and of programs without committed arguments, on all threads.
    /// `None` restores the first device of the default platform.
    #[doc(alias = "jax_default_device")]
    #[must_use]
    pub fn default_device<'a>(mut self, device: impl Into<Option<&'a Device>>) -> ProcessConfig {
        self.default_device = Some(device.into().cloned());
        self
    }

    /// Sets the number of CPU devices, from 1 to 1024.
    #[doc(alias = "jax_num_cpu_devices")]
    #[must_use]
    pub fn cpu_devices(mut self, count: usize) -> ProcessConfig {
        self.cpu_devices = Some(count);
        self
    }

    /// Sets the allocator of large blocks of CPU memory: temporary memory of programs, results, and
    /// arrays. Blocks in use stay where they are. [`CpuMalloc::System`] returns the idle memory of
    /// the pool to the system.
    ///
    /// ```standalone_crate
    /// use oxidax::config::{self, CpuMalloc, ProcessConfig};
    /// use oxidax::prelude::*;
    /// assert_eq!(config::current()?.cpu_malloc, CpuMalloc::Pool);
    /// config::update(ProcessConfig::new().cpu_malloc(CpuMalloc::System))?;
    /// assert_eq!(ones([1024, 1024]).sum().item::<f32>()?, 1024.0 * 1024.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn cpu_malloc(mut self, malloc: CpuMalloc) -> ProcessConfig {
        self.cpu_malloc = Some(malloc);
        self
    }

    /// Sets the default precision of matrix products and convolutions on all threads.
    #[doc(alias = "jax_default_matmul_precision")]
    #[must_use]
    pub fn default_matmul_precision(mut self, precision: Precision) -> ProcessConfig {
        self.default_matmul_precision = Some(precision);
        self
    }

    /// Sets the disk cache of compiled programs; [`Settings::off`] disables it.
    #[doc(alias = "jax_enable_compilation_cache")]
    #[must_use]
    pub fn cache(mut self, settings: Settings) -> ProcessConfig {
        self.cache = Some(settings);
        self
    }

    /// Sets the folder of the disk cache and keeps its limits.
    #[doc(alias = "jax_compilation_cache_dir")]
    #[must_use]
    pub fn cache_folder(mut self, folder: impl Into<PathBuf>) -> ProcessConfig {
        self.cache_folder = Some(folder.into());
        self
    }

    /// Lists new arrays in [`live_arrays`](parallel::live_arrays), or no longer.
    #[must_use]
    pub fn track_arrays(mut self, tracked: bool) -> ProcessConfig {
        self.track_arrays = Some(tracked);
        self
    }

    /// Records the calls of `jit` functions that fail on any thread; see [`replay`](crate::replay).
    /// `None` turns it off.
    ///
    /// ```standalone_crate
    /// use oxidax::config::{self, ProcessConfig};
    /// use oxidax::replay::RecordOptions;
    /// let options = RecordOptions::new("failures");
    /// config::update(ProcessConfig::new().record_failures(options))?;
    /// config::update(ProcessConfig::new().record_failures(None))?;
    /// assert_eq!(config::current()?.record_failures, None);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn record_failures(mut self, options: impl Into<Option<RecordOptions>>) -> ProcessConfig {
        self.record_failures = Some(options.into());
        self
    }
}

/// Changes settings of the process.
///
/// The order is: CPU devices and memory, cache, platform, default device, precision, tracking,
/// recording. An error leaves the settings after the failing one unchanged.
///
/// # Errors
/// `Plugin` if it is too late to change the number of CPU devices, the platform is unknown, the CPU
/// plugin cannot use a pool of memory, or the device does not belong to this process; `Io` for a
/// cache folder that other users own or can write.
///
/// ```no_run
/// use oxidax::config::{self, ProcessConfig};
/// use oxidax::parallel::devices_of;
/// config::update(ProcessConfig::new().cpu_devices(8).cache_folder("/var/cache/oxidax"))?;
/// config::update(ProcessConfig::new().default_device(&devices_of("cpu")?[3]))?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.config.update")]
pub fn update(config: ProcessConfig) -> Result<(), Error> {
    if let Some(count) = config.cpu_devices {
        parallel::set_cpu_devices(count)?;
    }
    if let Some(malloc) = config.cpu_malloc {
        runtime::set_cpu_malloc(malloc)?;
    }
    if let Some(settings) = config.cache {
        cache::set_disk(settings)?;
    }
    if let Some(folder) = config.cache_folder {
        cache::set_disk(Settings { folder: Some(folder), ..cache::disk()? })?;
    }
    if let Some(platform) = config.platform {
        runtime::set_default_platform(platform.as_deref())?;
    }
    if let Some(device) = config.default_device {
        runtime::set_default_device(device.map(|device| device.id()))?;
    }
    if let Some(precision) = config.default_matmul_precision {
        precision.set_of_process();
    }
    if let Some(tracked) = config.track_arrays {
        runtime::set_tracked(tracked);
    }
    if let Some(options) = config.record_failures {
        runtime::set_recording(options);
    }
    Ok(())
}

/// Returns the settings of the process. Scopes of this thread are not included.
///
/// # Errors
/// `Plugin` if a variable of the disk cache or of the CPU client is invalid.
#[doc(alias = "jax.config.values")]
pub fn current() -> Result<CurrentConfig, Error> {
    let device = runtime::configured_device().map(runtime::device_by_id).transpose()?;
    Ok(CurrentConfig {
        platform: runtime::configured_platform().map(|platform| platform.to_string()),
        default_device: device,
        cpu_devices: runtime::requested_cpu_devices(),
        cpu_malloc: runtime::cpu_malloc()?,
        default_matmul_precision: Precision::of_process(),
        cache: cache::disk()?,
        track_arrays: runtime::is_tracked(),
        record_failures: runtime::process_recording(),
    })
}
