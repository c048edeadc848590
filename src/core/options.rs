//! Settings of the process and of scopes that operations, transfers and compilations consult.
//!
//! A scope of this thread comes first, then the program's setting of the process, then the
//! environment's.

use super::error::{Error, Loc, OpError, OpErrorKind, RuleError, RuleResult};
use super::scoped::{Scoped, scoped};
use super::types::{Aval, CheckSet};
use std::fmt;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The policy for operands of different ranks, which broadcasting extends. Scalars are always
/// allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "jax_numpy_rank_promotion")]
pub enum RankPromotion {
    /// Operands of different ranks broadcast.
    #[default]
    Allow,
    /// They broadcast, with a warning through `tracing`.
    Warn,
    /// They are an error of kind `shape`.
    Raise,
}

/// The policy for operands of different dtypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "jax_numpy_dtype_promotion")]
pub enum DTypePromotion {
    /// Operands promote by JAX's table.
    #[default]
    Standard,
    /// Different dtypes are an error of kind `dtype`. Numbers and other weakly typed operands still
    /// take the dtype of an array that can represent their category.
    Strict,
}

/// The policy for transfers in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "jax_transfer_guard")]
pub enum TransferGuard {
    /// All transfers are allowed.
    #[default]
    Allow,
    /// Implicit transfers are logged through `tracing`.
    Log,
    /// Implicit transfers are errors.
    Disallow,
    /// All transfers are logged.
    LogExplicit,
    /// All transfers are errors.
    DisallowExplicit,
}

/// The generator of the bits of random keys.
///
/// The bits of [`KeyImpl::Threefry`] are the same on every platform. Those of the others are
/// defined by the platform; on CPUs they equal JAX's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyImpl {
    /// Counters hashed by Threefry-2x32: JAX's `threefry2x32`.
    #[default]
    #[doc(alias = "threefry2x32")]
    Threefry,
    /// Bits from XLA's generator, the platform's fastest; keys are split and folded by Threefry.
    Rbg,
    /// Bits from XLA's generator, which also splits and folds keys. Less work than
    /// [`KeyImpl::Rbg`], and without evidence that split keys are independent.
    UnsafeRbg,
    /// A generator that the program defines; see
    /// [`define_prng_impl`](crate::random::define_prng_impl).
    Custom(CustomPrng),
}

/// A generator that [`define_prng_impl`](crate::random::define_prng_impl) defined.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CustomPrng {
    /// The position among the definitions of the process.
    pub(crate) index: usize,
    pub(crate) name: &'static str,
}

impl CustomPrng {
    /// Returns the name that the generator was defined with.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for CustomPrng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferDirection {
    /// From the host to a device.
    HostToDevice,
    /// From one device to another.
    DeviceToDevice,
    /// From a device to the host.
    DeviceToHost,
}

/// Tells whether the user wrote a transfer or an operation needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferRequest {
    /// The user called a function whose purpose is a transfer.
    Explicit,
    /// Another operation needs it.
    Implicit,
}

/// The settings of the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvironmentOptions {
    pub(crate) rank_promotion: RankPromotion,
    pub(crate) dtype_promotion: DTypePromotion,
    /// In the order of [`TransferDirection`].
    pub(crate) transfer_guards: [TransferGuard; 3],
    pub(crate) debug_nans: bool,
    pub(crate) debug_infs: bool,
    pub(crate) disable_jit: bool,
    pub(crate) log_compiles: bool,
    pub(crate) explain_cache_misses: bool,
    pub(crate) default_prng_impl: KeyImpl,
    /// The errors that all functions check for.
    pub(crate) error_checking: CheckSet,
    pub(crate) log_checkpoint_residuals: bool,
    pub(crate) raise_persistent_cache_errors: bool,
}

fn environment() -> &'static EnvironmentOptions {
    static OPTIONS: OnceLock<EnvironmentOptions> = OnceLock::new();
    OPTIONS.get_or_init(crate::options_of_environment)
}

/// A value that is stored as a number.
pub(crate) trait Coded: Copy + 'static {
    /// All values. The code of a value is its position.
    const VALUES: &'static [Self];

    /// The position in [`VALUES`](Self::VALUES).
    fn code(self) -> u8;
}

macro_rules! coded {
    ($ty:ty, [$($value:expr),* $(,)?]) => {
        impl Coded for $ty {
            const VALUES: &'static [$ty] = &[$($value),*];

            fn code(self) -> u8 {
                self as u8
            }
        }
    };
}

coded!(bool, [false, true]);
impl Coded for CheckSet {
    const VALUES: &'static [CheckSet] = &CheckSet::EVERY;

    fn code(self) -> u8 {
        self.number()
    }
}

coded!(RankPromotion, [RankPromotion::Allow, RankPromotion::Warn, RankPromotion::Raise]);
coded!(DTypePromotion, [DTypePromotion::Standard, DTypePromotion::Strict]);
impl Coded for KeyImpl {
    const VALUES: &'static [KeyImpl] = &[KeyImpl::Threefry, KeyImpl::Rbg, KeyImpl::UnsafeRbg];

    fn code(self) -> u8 {
        match self {
            KeyImpl::Threefry => 0,
            KeyImpl::Rbg => 1,
            KeyImpl::UnsafeRbg => 2,
            KeyImpl::Custom(_) => panic!("`config::update` refuses generators of the program"),
        }
    }
}

coded!(
    TransferGuard,
    [
        TransferGuard::Allow,
        TransferGuard::Log,
        TransferGuard::Disallow,
        TransferGuard::LogExplicit,
        TransferGuard::DisallowExplicit,
    ]
);

/// A setting of the process, with scopes.
pub(crate) struct Setting<T: 'static> {
    process: AtomicU8,
    scope: &'static Scoped<Option<T>>,
    environment: fn(&EnvironmentOptions) -> T,
}

/// The number of a setting that the program has not set.
const NOT_SET: u8 = u8::MAX;

impl<T: Coded> Setting<T> {
    const fn new(
        scope: &'static Scoped<Option<T>>,
        environment: fn(&EnvironmentOptions) -> T,
    ) -> Setting<T> {
        Setting { process: AtomicU8::new(NOT_SET), scope, environment }
    }

    /// Returns the value in force on this thread.
    pub(crate) fn get(&self) -> T {
        self.scope.get().unwrap_or_else(|| self.of_process())
    }

    /// Returns the value of the process, without scopes of this thread.
    pub(crate) fn of_process(&self) -> T {
        let code = usize::from(self.process.load(Ordering::Relaxed));
        T::VALUES.get(code).copied().unwrap_or_else(|| (self.environment)(environment()))
    }

    /// Sets the value of the process.
    pub(crate) fn set_of_process(&self, value: T) {
        self.process.store(value.code(), Ordering::Relaxed);
    }

    /// Runs `f` with a value in force on this thread.
    pub(crate) fn scope<R>(&self, value: T, f: impl FnOnce() -> R) -> R {
        self.scope.scope(Some(value), f)
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident, $scope:ident: $ty:ty = $environment:expr;)*) => {$(
        scoped!(
            /// The value of a scope.
            static $scope: Option<$ty> = None
        );

        $(#[$doc])*
        pub(crate) static $name: Setting<$ty> = Setting::new(&$scope, $environment);
    )*};
}

settings! {
    /// The policy for operands of different ranks.
    RANK_PROMOTION, RANK_SCOPE: RankPromotion = |options| options.rank_promotion;
    /// The policy for operands of different dtypes.
    DTYPE_PROMOTION, DTYPE_SCOPE: DTypePromotion = |options| options.dtype_promotion;
    /// The policy for transfers from the host to devices.
    HOST_TO_DEVICE, HOST_TO_DEVICE_SCOPE: TransferGuard = |options| options.transfer_guards[0];
    /// The policy for transfers between devices.
    DEVICE_TO_DEVICE, DEVICE_TO_DEVICE_SCOPE: TransferGuard = |options| options.transfer_guards[1];
    /// The policy for transfers from devices to the host.
    DEVICE_TO_HOST, DEVICE_TO_HOST_SCOPE: TransferGuard = |options| options.transfer_guards[2];
    /// Locates operations that produce NaN.
    DEBUG_NANS, DEBUG_NANS_SCOPE: bool = |options| options.debug_nans;
    /// Locates operations that produce infinities.
    DEBUG_INFS, DEBUG_INFS_SCOPE: bool = |options| options.debug_infs;
    /// Evaluates programs one equation at a time.
    DISABLE_JIT, DISABLE_JIT_SCOPE: bool = |options| options.disable_jit;
    /// Logs every compilation.
    LOG_COMPILES, LOG_COMPILES_SCOPE: bool = |options| options.log_compiles;
    /// Logs the reason of every compilation of a function that was compiled before.
    EXPLAIN_CACHE_MISSES, EXPLAIN_SCOPE: bool = |options| options.explain_cache_misses;
    /// Logs the values that `remat` stores.
    LOG_CHECKPOINT_RESIDUALS, RESIDUALS_SCOPE: bool = |options| options.log_checkpoint_residuals;
    /// Makes failures of the disk cache errors.
    RAISE_CACHE_ERRORS, RAISE_CACHE_SCOPE: bool = |options| options.raise_persistent_cache_errors;
    /// The errors that all functions check for.
    ERROR_CHECKING, ERROR_CHECKING_SCOPE: CheckSet = |options| options.error_checking;
}

/// Runs `f` with checks of these errors in all functions, on this thread.
pub(crate) fn with_error_checking<R>(errors: CheckSet, f: impl FnOnce() -> R) -> R {
    ERROR_CHECKING.scope(errors, f)
}

scoped!(
    /// The generator of new keys in a scope.
    keyed static PRNG_SCOPE: Option<KeyImpl> = None
);

/// The generator of new keys.
pub(crate) static DEFAULT_PRNG_IMPL: Setting<KeyImpl> =
    Setting::new(&PRNG_SCOPE, |options| options.default_prng_impl);

/// Returns the setting of a direction.
pub(crate) fn transfer_guard(direction: TransferDirection) -> &'static Setting<TransferGuard> {
    match direction {
        TransferDirection::HostToDevice => &HOST_TO_DEVICE,
        TransferDirection::DeviceToDevice => &DEVICE_TO_DEVICE,
        TransferDirection::DeviceToHost => &DEVICE_TO_HOST,
    }
}

/// Returns true unless the location is in a source file of this library, or a function of this
/// library has set the location of its operations: such functions may broadcast and transfer.
pub(crate) fn is_outside(location: &Location<'_>) -> bool {
    if Loc::scoped().get().is_some() {
        return false;
    }
    const THIS: &str = "core/options.rs";
    let library = &file!()[..file!().len() - THIS.len()];
    !location.file().starts_with(library)
}

/// Checks operands, as they are before promotion to the type `joint`, by the policies for ranks and
/// dtypes.
pub(crate) fn check_promotion(
    name: &str,
    operands: &[Aval],
    joint: &Aval,
    caller: &Location<'_>,
) -> RuleResult<()> {
    let ranks = || operands.iter().map(|aval| aval.shape.rank()).filter(|&rank| rank > 0);
    let differ = ranks().any(|rank| Some(rank) != ranks().next());
    let policy = if differ { RANK_PROMOTION.get() } else { RankPromotion::Allow };
    if policy != RankPromotion::Allow && is_outside(caller) {
        let text: Vec<String> = operands.iter().map(Aval::to_string).collect();
        let message = format!("operands of different ranks broadcast: {}", text.join(", "));
        if policy == RankPromotion::Raise {
            let help = "reshape them to one rank, or allow it with `config::with_rank_promotion`";
            return Err(RuleError::shape(message).help(help));
        }
        tracing::warn!(target: "oxidax::config", operation = name, at = %caller, "{message}");
    }
    let differs = operands.iter().any(|aval| !aval.weak && aval.dtype != joint.dtype);
    if differs && DTYPE_PROMOTION.get() == DTypePromotion::Strict && is_outside(caller) {
        let text: Vec<String> = operands.iter().map(Aval::to_string).collect();
        let message = format!("promotion is strict, and the dtypes differ: {}", text.join(", "));
        return Err(RuleError::dtype(message).help("convert one of them with `astype`"));
    }
    Ok(())
}

/// Checks a transfer by the policy for its direction.
///
/// # Errors
/// `Op` (value) if the policy disallows it.
pub(crate) fn check_transfer(
    direction: TransferDirection,
    request: TransferRequest,
    aval: &Aval,
    loc: Loc,
) -> Result<(), Error> {
    let guard = transfer_guard(direction).get();
    let explicit = request == TransferRequest::Explicit;
    let (logs, fails) = match guard {
        TransferGuard::Allow => return Ok(()),
        TransferGuard::Log => (!explicit, false),
        TransferGuard::LogExplicit => (true, false),
        TransferGuard::Disallow => (false, !explicit),
        TransferGuard::DisallowExplicit => (false, true),
    };
    let direction = match direction {
        TransferDirection::HostToDevice => "from the host to a device",
        TransferDirection::DeviceToDevice => "from device to device",
        TransferDirection::DeviceToHost => "from a device to the host",
    };
    let kind = if explicit { "explicit" } else { "implicit" };
    if logs {
        tracing::warn!(target: "oxidax::config", at = %loc, "{kind} transfer of {aval} {direction}");
    }
    if !fails {
        return Ok(());
    }
    Err(Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: "transfer_guard".to_owned(),
        message: format!("{kind} transfers {direction} are disallowed: {aval}"),
        operands: Vec::new(),
        note: None,
        loc,
        path: Vec::new(),
        help: Some("allow it in a scope with `config::with_transfer_guard`".to_owned()),
    })))
}
