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
//! | [`rank_promotion`](ProcessConfig::rank_promotion) | `jax_numpy_rank_promotion` | `OXIDAX_RANK_PROMOTION`: `allow`, `warn` or `raise` | always, for programs traced afterwards |
//! | [`dtype_promotion`](ProcessConfig::dtype_promotion) | `jax_numpy_dtype_promotion` | `OXIDAX_DTYPE_PROMOTION`: `standard` or `strict` | always, for programs traced afterwards |
//! | [`transfer_guard`](ProcessConfig::transfer_guard) | `jax_transfer_guard` | `OXIDAX_TRANSFER_GUARD`: `allow`, `log`, `disallow`, `log_explicit` or `disallow_explicit`; `OXIDAX_TRANSFER_GUARD_HOST_TO_DEVICE` and related | always |
//! | [`default_prng_impl`](ProcessConfig::default_prng_impl) | `jax_default_prng_impl` | `OXIDAX_DEFAULT_PRNG_IMPL`: `threefry2x32`, `rbg` or `unsafe_rbg` | always; functions are compiled again |
//! | [`debug_nans`](ProcessConfig::debug_nans), [`debug_infs`](ProcessConfig::debug_infs) | `jax_debug_nans`, `jax_debug_infs` | `OXIDAX_DEBUG_NANS`, `OXIDAX_DEBUG_INFS` | always |
//! | [`disable_jit`](ProcessConfig::disable_jit) | `jax_disable_jit` | `OXIDAX_DISABLE_JIT` | always |
//! | [`log_compiles`](ProcessConfig::log_compiles), [`explain_cache_misses`](ProcessConfig::explain_cache_misses) | `jax_log_compiles`, `jax_explain_cache_misses` | `OXIDAX_LOG_COMPILES`, `OXIDAX_EXPLAIN_CACHE_MISSES` | always |
//! | [`error_checking`](ProcessConfig::error_checking) | `jax_error_checking_behavior_oob` and related | `OXIDAX_ERROR_CHECKING_BEHAVIOR_OOB`, `OXIDAX_ERROR_CHECKING_BEHAVIOR_NAN`, `OXIDAX_ERROR_CHECKING_BEHAVIOR_DIVIDE`: `ignore` or `raise` | always; functions are compiled again |
//! | [`log_checkpoint_residuals`](ProcessConfig::log_checkpoint_residuals) | `jax_log_checkpoint_residuals` | `OXIDAX_LOG_CHECKPOINT_RESIDUALS` | always |
//! | [`dump_ir_to`](ProcessConfig::dump_ir_to) | `jax_dump_ir_to` | `OXIDAX_DUMP_IR_TO` | always |
//! | [`raise_persistent_cache_errors`](ProcessConfig::raise_persistent_cache_errors) | `jax_raise_persistent_cache_errors` | `OXIDAX_RAISE_PERSISTENT_CACHE_ERRORS` | always |
//! | [`record_failures`](ProcessConfig::record_failures) | | `OXIDAX_RECORD_FAILURES`: a folder | always |
//!
//! Scopes override the process's settings on one thread:
//! [`with_default_device`](crate::parallel::with_default_device),
//! [`with_matmul_precision`](crate::core::with_matmul_precision),
//! [`nan_check`](crate::debug::nan_check), [`finite_check`](crate::debug::finite_check),
//! [`disable_jit`](crate::transforms::disable_jit), and [`with_rank_promotion`] and the other
//! functions of this module.

use crate::core::options::{self, transfer_guard};
use crate::core::{CheckSet, Device, Error, Loc, OpErrorKind, Precision, trace};
use crate::jit::cache::{self, Settings};
use crate::{parallel, runtime};
use std::path::PathBuf;

pub use crate::core::options::{
    DTypePromotion, KeyImpl, RankPromotion, TransferDirection, TransferGuard,
};
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
    rank_promotion: Option<RankPromotion>,
    dtype_promotion: Option<DTypePromotion>,
    transfer_guards: [Option<TransferGuard>; 3],
    default_prng_impl: Option<KeyImpl>,
    debug_nans: Option<bool>,
    debug_infs: Option<bool>,
    disable_jit: Option<bool>,
    log_compiles: Option<bool>,
    explain_cache_misses: Option<bool>,
    log_checkpoint_residuals: Option<bool>,
    raise_persistent_cache_errors: Option<bool>,
    error_checking: Option<CheckSet>,
    dump_ir_to: Option<Option<PathBuf>>,
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
    /// The policy for operands of different ranks.
    pub rank_promotion: RankPromotion,
    /// The policy for operands of different dtypes.
    pub dtype_promotion: DTypePromotion,
    /// The policy for transfers from the host to devices.
    pub transfer_guard_host_to_device: TransferGuard,
    /// The policy for transfers between devices.
    pub transfer_guard_device_to_device: TransferGuard,
    /// The policy for transfers from devices to the host.
    pub transfer_guard_device_to_host: TransferGuard,
    /// The generator of new keys.
    pub default_prng_impl: KeyImpl,
    /// True if operations that produce NaN are errors.
    pub debug_nans: bool,
    /// True if operations that produce NaN or infinities are errors.
    pub debug_infs: bool,
    /// True if programs are evaluated one equation at a time.
    pub disable_jit: bool,
    /// True if every compilation is logged.
    pub log_compiles: bool,
    /// True if the reason of every recompilation is logged as a warning.
    pub explain_cache_misses: bool,
    /// True if the values that `remat` stores are logged.
    pub log_checkpoint_residuals: bool,
    /// True if failures of the disk cache are errors.
    pub raise_persistent_cache_errors: bool,
    /// The errors that all functions check for.
    pub error_checking: CheckSet,
    /// The folder to which programs are written before they are compiled.
    pub dump_ir_to: Option<PathBuf>,
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

    /// Sets the policy for operands of different ranks. It applies to operations that the user
    /// writes, not to those inside of this library. Scalars are always allowed.
    ///
    /// ```standalone_crate
    /// use oxidax::config::{self, ProcessConfig, RankPromotion};
    /// use oxidax::prelude::*;
    /// config::update(ProcessConfig::new().rank_promotion(RankPromotion::Raise))?;
    /// assert!(catch(|| ones([2, 3]) + 1.0).is_ok());
    /// assert_eq!(config::current()?.rank_promotion, RankPromotion::Raise);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "jax_numpy_rank_promotion")]
    #[must_use]
    pub fn rank_promotion(mut self, policy: RankPromotion) -> ProcessConfig {
        self.rank_promotion = Some(policy);
        self
    }

    /// Sets the policy for operands of different dtypes. It applies to operations that the user
    /// writes, not to those inside of this library.
    #[doc(alias = "jax_numpy_dtype_promotion")]
    #[must_use]
    pub fn dtype_promotion(mut self, policy: DTypePromotion) -> ProcessConfig {
        self.dtype_promotion = Some(policy);
        self
    }

    /// Sets the policy for transfers in all directions.
    ///
    /// | direction | explicit | implicit |
    /// |---|---|---|
    /// | host to device | `Array::from_slice`, `array!`, `to_device` | numbers and small constants outside of `jit` |
    /// | device to device | `device_put` | arguments that are stored elsewhere than the program runs |
    /// | device to host | `Array::to_host` | `Array::to_vec`, `item`, `to_bytes` |
    ///
    /// Printing an array is always allowed. The policy holds on CPUs too.
    #[doc(alias = "jax_transfer_guard")]
    #[must_use]
    pub fn transfer_guard(mut self, policy: TransferGuard) -> ProcessConfig {
        self.transfer_guards = [Some(policy); 3];
        self
    }

    /// Sets the policy for transfers in one direction; see
    /// [`transfer_guard`](Self::transfer_guard).
    #[doc(alias("jax_transfer_guard_host_to_device", "jax_transfer_guard_device_to_host"))]
    #[must_use]
    pub fn transfer_guard_of(
        mut self,
        direction: TransferDirection,
        policy: TransferGuard,
    ) -> ProcessConfig {
        self.transfer_guards[direction as usize] = Some(policy);
        self
    }

    /// Sets the generator of keys that [`key`](crate::random::key) and
    /// [`Key::from_data`](crate::random::Key::from_data) create on all threads. Keys that exist
    /// keep theirs. [`KeyImpl::Custom`] is an error.
    #[doc(alias = "jax_default_prng_impl")]
    #[must_use]
    pub fn default_prng_impl(mut self, implementation: KeyImpl) -> ProcessConfig {
        self.default_prng_impl = Some(implementation);
        self
    }

    /// Makes operations that produce NaN an error on all threads, as
    /// [`nan_check`](crate::debug::nan_check) does in a scope.
    #[doc(alias = "jax_debug_nans")]
    #[must_use]
    pub fn debug_nans(mut self, checked: bool) -> ProcessConfig {
        self.debug_nans = Some(checked);
        self
    }

    /// Makes operations that produce NaN or infinities an error on all threads, as
    /// [`finite_check`](crate::debug::finite_check) does in a scope.
    #[doc(alias = "jax_debug_infs")]
    #[must_use]
    pub fn debug_infs(mut self, checked: bool) -> ProcessConfig {
        self.debug_infs = Some(checked);
        self
    }

    /// Evaluates programs one equation at a time on all threads, as
    /// [`disable_jit`](crate::transforms::disable_jit) does in a scope.
    #[doc(alias = "jax_disable_jit")]
    #[must_use]
    pub fn disable_jit(mut self, disabled: bool) -> ProcessConfig {
        self.disable_jit = Some(disabled);
        self
    }

    /// Logs every compilation through `tracing`, target `oxidax::jit`, as a warning with the name,
    /// the number of operations and the duration.
    #[doc(alias = "jax_log_compiles")]
    #[must_use]
    pub fn log_compiles(mut self, logged: bool) -> ProcessConfig {
        self.log_compiles = Some(logged);
        self
    }

    /// Logs the reason of every recompilation of a `jit` function as a warning, not only of the
    /// 4th, 8th, 16th, ….
    #[doc(alias = "jax_explain_cache_misses")]
    #[must_use]
    pub fn explain_cache_misses(mut self, logged: bool) -> ProcessConfig {
        self.explain_cache_misses = Some(logged);
        self
    }

    /// Checks all functions for these errors, as [`checkify`](crate::debug::checkify) checks one,
    /// on all threads. Functions are compiled again. [`CheckSet::USER`] is always included.
    ///
    /// ```standalone_crate
    /// use oxidax::config::{self, ProcessConfig};
    /// use oxidax::debug::CheckSet;
    /// use oxidax::prelude::*;
    /// config::update(ProcessConfig::new().error_checking(CheckSet::DIV))?;
    /// let halves = jit(|x: Array| 1.0 / x);
    /// let error = halves.call(zeros([2])).unwrap_err().to_string();
    /// assert!(error.contains("div: divides by zero"), "{error}");
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "jax_error_checking_behavior_oob")]
    #[doc(alias = "jax_error_checking_behavior_nan")]
    #[doc(alias = "jax_error_checking_behavior_divide")]
    #[must_use]
    pub fn error_checking(mut self, errors: CheckSet) -> ProcessConfig {
        self.error_checking = Some(errors);
        self
    }

    /// Logs the inputs and the values that [`remat`](crate::control_flow::remat()) stores for the
    /// backward pass, through `tracing`, target `oxidax::transforms`, as a warning for each
    /// function that is differentiated.
    #[doc(alias = "jax_log_checkpoint_residuals")]
    #[must_use]
    pub fn log_checkpoint_residuals(mut self, logged: bool) -> ProcessConfig {
        self.log_checkpoint_residuals = Some(logged);
        self
    }

    /// Makes failures of the disk cache errors of the call that compiles: a folder that cannot be
    /// written, a damaged entry. Otherwise they are logged, and the program is compiled.
    #[doc(alias = "jax_raise_persistent_cache_errors")]
    #[must_use]
    pub fn raise_persistent_cache_errors(mut self, raised: bool) -> ProcessConfig {
        self.raise_persistent_cache_errors = Some(raised);
        self
    }

    /// Writes the StableHLO of every program to a file of this folder before it is compiled, also
    /// of single operations outside of `jit`: `oxidax_PROCESS_NUMBER_NAME.mlir`. `None` turns it
    /// off.
    ///
    /// ```standalone_crate
    /// use oxidax::config::{self, ProcessConfig};
    /// use oxidax::prelude::*;
    /// let folder = std::env::temp_dir().join(format!("oxidax-dump-{}", std::process::id()));
    /// config::update(ProcessConfig::new().dump_ir_to(folder.clone()))?;
    /// jit(|x: Array| sin(&x)).call(ones([2]))?;
    /// let files = std::fs::read_dir(&folder).unwrap();
    /// let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    /// assert!(texts.into_iter().any(|text| text.contains("stablehlo.sine")));
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "jax_dump_ir_to")]
    #[must_use]
    pub fn dump_ir_to(mut self, folder: impl Into<Option<PathBuf>>) -> ProcessConfig {
        self.dump_ir_to = Some(folder.into());
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
    if let Some(KeyImpl::Custom(prng)) = config.default_prng_impl {
        return Err(refused_generator(prng.name()));
    }
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
    if let Some(policy) = config.rank_promotion {
        options::RANK_PROMOTION.set_of_process(policy);
    }
    if let Some(policy) = config.dtype_promotion {
        options::DTYPE_PROMOTION.set_of_process(policy);
    }
    for (direction, policy) in DIRECTIONS.into_iter().zip(config.transfer_guards) {
        if let Some(policy) = policy {
            transfer_guard(direction).set_of_process(policy);
        }
    }
    if let Some(implementation) = config.default_prng_impl {
        options::DEFAULT_PRNG_IMPL.set_of_process(implementation);
    }
    let switches = [
        (&options::DEBUG_NANS, config.debug_nans),
        (&options::DEBUG_INFS, config.debug_infs),
        (&options::DISABLE_JIT, config.disable_jit),
        (&options::LOG_COMPILES, config.log_compiles),
        (&options::EXPLAIN_CACHE_MISSES, config.explain_cache_misses),
        (&options::LOG_CHECKPOINT_RESIDUALS, config.log_checkpoint_residuals),
        (&options::RAISE_CACHE_ERRORS, config.raise_persistent_cache_errors),
    ];
    for (setting, value) in switches {
        if let Some(value) = value {
            setting.set_of_process(value);
        }
    }
    if let Some(errors) = config.error_checking {
        options::ERROR_CHECKING.set_of_process(errors);
    }
    if let Some(folder) = config.dump_ir_to {
        runtime::set_dump_ir_to(folder);
    }
    Ok(())
}

fn refused_generator(name: &str) -> Error {
    let message =
        format!("`{name}` is defined by the program, and cannot be the process's default");
    trace::op_error(OpErrorKind::Value, "config::update", message, Loc::UNKNOWN).with_help(
        "create keys with `key_with`, or set it on a thread with `with_default_prng_impl`",
    )
}

/// The directions, in the order of their numbers.
const DIRECTIONS: [TransferDirection; 3] = [
    TransferDirection::HostToDevice,
    TransferDirection::DeviceToDevice,
    TransferDirection::DeviceToHost,
];

/// Runs `f` with a policy for operands of different ranks on this thread. Programs that are traced
/// already are not checked again.
///
/// ```
/// use oxidax::config::{RankPromotion, with_rank_promotion};
/// use oxidax::prelude::*;
/// let sum = |x: &Array, y: &Array| with_rank_promotion(RankPromotion::Raise, || x + y);
/// assert_eq!(sum(&ones([2, 3]), &ones([1, 3])).shape().dims(), [2, 3]);
/// ```
#[doc(alias = "jax.numpy_rank_promotion")]
pub fn with_rank_promotion<R>(policy: RankPromotion, f: impl FnOnce() -> R) -> R {
    options::RANK_PROMOTION.scope(policy, f)
}

/// Runs `f` with a policy for operands of different dtypes on this thread. Programs that are traced
/// already are not checked again.
#[doc(alias = "jax.numpy_dtype_promotion")]
pub fn with_dtype_promotion<R>(policy: DTypePromotion, f: impl FnOnce() -> R) -> R {
    options::DTYPE_PROMOTION.scope(policy, f)
}

/// Runs `f` with a policy for transfers in all directions on this thread; see
/// [`ProcessConfig::transfer_guard`].
///
/// ```
/// use oxidax::config::{TransferGuard, with_transfer_guard};
/// use oxidax::prelude::*;
/// let x = ones([2]);
/// let host = with_transfer_guard(TransferGuard::Disallow, || x.to_host())?; // explicit
/// assert_eq!(host.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.transfer_guard")]
pub fn with_transfer_guard<R>(policy: TransferGuard, f: impl FnOnce() -> R) -> R {
    let [to_device, between, to_host] = DIRECTIONS.map(transfer_guard);
    to_device.scope(policy, || between.scope(policy, || to_host.scope(policy, f)))
}

/// Runs `f` with a policy for transfers in one direction on this thread; see
/// [`ProcessConfig::transfer_guard`].
#[doc(alias("jax.transfer_guard_host_to_device", "jax.transfer_guard_device_to_host"))]
pub fn with_transfer_guard_of<R>(
    direction: TransferDirection,
    policy: TransferGuard,
    f: impl FnOnce() -> R,
) -> R {
    transfer_guard(direction).scope(policy, f)
}

/// Runs `f` with a generator of new keys on this thread; see
/// [`ProcessConfig::default_prng_impl`].
///
/// ```
/// use oxidax::config::with_default_prng_impl;
/// use oxidax::prelude::*;
/// use oxidax::random::KeyImpl;
/// let key = with_default_prng_impl(KeyImpl::Rbg, || random::key(7));
/// assert_eq!(key.implementation(), KeyImpl::Rbg);
/// assert_eq!(random::key(7).implementation(), KeyImpl::Threefry);
/// ```
#[doc(alias = "jax.default_prng_impl")]
pub fn with_default_prng_impl<R>(implementation: KeyImpl, f: impl FnOnce() -> R) -> R {
    options::DEFAULT_PRNG_IMPL.scope(implementation, f)
}

/// Runs `f` with checks of these errors in all functions that it calls on this thread; see
/// [`ProcessConfig::error_checking`].
///
/// ```
/// use oxidax::config::with_error_checking;
/// use oxidax::debug::CheckSet;
/// use oxidax::prelude::*;
/// let pick = jit(|x: Array, i: Array| take(&x, &i, 0));
/// let (x, i) = (arange(4.0), scalar(9));
/// assert!(pick.call(&x, &i)?.item::<f32>()?.is_nan());
/// let error = with_error_checking(CheckSet::INDEX, || pick.call(&x, &i)).unwrap_err();
/// assert!(error.to_string().contains("gather: index out of bounds"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "jax.error_checking_behavior_oob")]
#[doc(alias = "jax.error_checking_behavior_nan")]
#[doc(alias = "jax.error_checking_behavior_divide")]
pub fn with_error_checking<R>(errors: CheckSet, f: impl FnOnce() -> R) -> R {
    options::with_error_checking(errors, f)
}

/// Runs `f` and logs the values that `remat` stores in the functions that are differentiated in it
/// on this thread; see [`ProcessConfig::log_checkpoint_residuals`].
#[doc(alias = "jax.log_checkpoint_residuals")]
pub fn with_logged_checkpoint_residuals<R>(f: impl FnOnce() -> R) -> R {
    options::LOG_CHECKPOINT_RESIDUALS.scope(true, f)
}

/// Runs `f` with failures of the disk cache as errors on this thread; see
/// [`ProcessConfig::raise_persistent_cache_errors`].
pub fn with_raised_cache_errors<R>(f: impl FnOnce() -> R) -> R {
    options::RAISE_CACHE_ERRORS.scope(true, f)
}

/// Runs `f` and logs its compilations on this thread; see [`ProcessConfig::log_compiles`].
#[doc(alias = "jax.log_compiles")]
pub fn with_logged_compiles<R>(f: impl FnOnce() -> R) -> R {
    options::LOG_COMPILES.scope(true, f)
}

/// Runs `f` and logs the reasons of its recompilations on this thread; see
/// [`ProcessConfig::explain_cache_misses`].
#[doc(alias = "jax.explain_cache_misses")]
pub fn with_explained_cache_misses<R>(f: impl FnOnce() -> R) -> R {
    options::EXPLAIN_CACHE_MISSES.scope(true, f)
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
        rank_promotion: options::RANK_PROMOTION.of_process(),
        dtype_promotion: options::DTYPE_PROMOTION.of_process(),
        transfer_guard_host_to_device: options::HOST_TO_DEVICE.of_process(),
        transfer_guard_device_to_device: options::DEVICE_TO_DEVICE.of_process(),
        transfer_guard_device_to_host: options::DEVICE_TO_HOST.of_process(),
        default_prng_impl: options::DEFAULT_PRNG_IMPL.of_process(),
        debug_nans: options::DEBUG_NANS.of_process(),
        debug_infs: options::DEBUG_INFS.of_process(),
        disable_jit: options::DISABLE_JIT.of_process(),
        log_compiles: options::LOG_COMPILES.of_process(),
        explain_cache_misses: options::EXPLAIN_CACHE_MISSES.of_process(),
        log_checkpoint_residuals: options::LOG_CHECKPOINT_RESIDUALS.of_process(),
        raise_persistent_cache_errors: options::RAISE_CACHE_ERRORS.of_process(),
        error_checking: options::ERROR_CHECKING.of_process(),
        dump_ir_to: runtime::dump_ir_to(),
    })
}
