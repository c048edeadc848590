//! [`CompileScope`]: the scoped settings that compiled programs depend on.

use super::default_device::{default_device, in_scope_of_device};
use crate::core::scoped::scoped;
use crate::core::{DeviceId, Error};

scoped!(
    /// False inside `disable_most_optimizations`.
    keyed static OPTIMIZES: bool = true
);
scoped!(
    /// False inside `disable_loop_kernels`.
    keyed static LOOP_KERNELS: bool = true
);
scoped!(
    /// True inside `enable_program_kernels`.
    keyed static PROGRAM_KERNELS: bool = false
);
scoped!(
    /// False inside `disable_outlining`.
    keyed static OUTLINES: bool = true
);
scoped!(
    /// False inside `disable_rewrites`.
    keyed static REWRITES: bool = true
);

/// The values of the `keyed` settings while a program is compiled. A cache of compiled programs has
/// it in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompileScope {
    default_device: DeviceId,
    optimizes: bool,
    outlines: bool,
    has_loop_kernels: bool,
    has_program_kernels: bool,
    rewrites: bool,
}

impl CompileScope {
    /// Returns the values in force on this thread.
    ///
    /// # Errors
    /// `Plugin` if there is no usable plugin.
    pub(crate) fn current() -> Result<CompileScope, Error> {
        Ok(CompileScope {
            default_device: default_device()?,
            optimizes: optimizes(),
            outlines: outlines(),
            has_loop_kernels: has_loop_kernels(),
            has_program_kernels: has_program_kernels(),
            rewrites: rewrites(),
        })
    }

    /// Returns the name of each setting with its value, for reports.
    pub(crate) fn settings(self) -> Vec<(&'static str, String)> {
        let state = |is_entered: bool| if is_entered { "in force" } else { "not in force" };
        vec![
            ("default device", self.default_device.to_string()),
            ("disable_most_optimizations", state(!self.optimizes).to_string()),
            ("disable_outlining", state(!self.outlines).to_string()),
            ("disable_loop_kernels", state(!self.has_loop_kernels).to_string()),
            ("enable_program_kernels", state(self.has_program_kernels).to_string()),
            ("disable_rewrites", state(!self.rewrites).to_string()),
        ]
    }

    /// Runs `f` with these values in force on this thread.
    pub(crate) fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        let f = || REWRITES.scope(self.rewrites, f);
        let f = || LOOP_KERNELS.scope(self.has_loop_kernels, f);
        let f = || PROGRAM_KERNELS.scope(self.has_program_kernels, f);
        let f = || OUTLINES.scope(self.outlines, f);
        let f = || OPTIMIZES.scope(self.optimizes, f);
        in_scope_of_device(self.default_device, f)
    }
}

/// Returns false inside [`disable_most_optimizations`].
pub(super) fn optimizes() -> bool {
    OPTIMIZES.key()
}

/// Returns false inside [`disable_loop_kernels`].
pub(super) fn has_loop_kernels() -> bool {
    LOOP_KERNELS.key()
}

/// Returns true inside [`enable_program_kernels`].
pub(super) fn has_program_kernels() -> bool {
    PROGRAM_KERNELS.key()
}

/// Compiles small programs without loops that `f` uses as one kernel each, on CPUs.
///
/// A call of a program of small matrices then costs little more than the call itself: a step of a
/// Kalman filter with four dimensions takes half of its time, 2.7 instead of 5.3 µs. A kernel may
/// contract products and sums that XLA's separate operations round apart, so results can differ in
/// the last bits, and in more of them where terms cancel. That is why it is not the default.
///
/// The rules are those of loops; the program also needs four products, reductions or
/// decompositions, because XLA fuses other operations anyway. Loops of a program are kernels by
/// themselves. [`Lowered::loops`](crate::jit::Lowered::loops) has a report named `program`, with
/// the reason if it is not a kernel.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with another
/// setting are not reused. It has no effect on GPUs and TPUs, and inside of
/// [`disable_loop_kernels`].
///
/// ```
/// use oxidax::jit::enable_program_kernels;
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| (0..4).fold(x, |x, _| x.matmul(&x) * 0.5));
/// let x = eye(3);
/// let (fast, plain) = (enable_program_kernels(|| f.call(&x))?, f.call(&x)?);
/// assert_eq!(fast.to_vec::<f32>()?, plain.to_vec::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enable_program_kernels<R>(f: impl FnOnce() -> R) -> R {
    PROGRAM_KERNELS.scope(true, f)
}

/// Compiles the programs that `f` uses without making kernels of small loops.
///
/// For CPUs, a `scan` or `while_loop` of small steps is compiled as one kernel, which is many times
/// faster than running its operations one by one.
/// [`Lowered::loops`](crate::jit::Lowered::loops) lists the loops of a function, and why some are
/// not kernels. This scope switches it off, for comparison.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with another
/// setting are not reused. It has no effect on GPUs and TPUs.
///
/// ```
/// use oxidax::jit::disable_loop_kernels;
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| fori_loop(0, 100, |_, x: Array| sin(&x) + 1.0, x));
/// let x = ones([3]);
/// let (fast, plain) = (f.call(&x)?, disable_loop_kernels(|| f.call(&x))?);
/// assert_eq!(fast.to_vec::<f32>()?, plain.to_vec::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn disable_loop_kernels<R>(f: impl FnOnce() -> R) -> R {
    LOOP_KERNELS.scope(false, f)
}

/// Compiles the programs that `f` uses with few optimizations on CPUs and GPUs. They compile faster
/// and run slower. On the CPU, the law tests of primitives take about three quarters of the time.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with other settings
/// are not reused. It has no effect on TPUs.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::jit::disable_most_optimizations;
/// let y = disable_most_optimizations(|| sin(&ones([3])));
/// assert!((y.to_vec::<f32>()?[0] - 1.0f32.sin()).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_disable_most_optimizations")]
pub fn disable_most_optimizations<R>(f: impl FnOnce() -> R) -> R {
    OPTIMIZES.scope(false, f)
}

/// Returns false inside [`disable_outlining`].
pub(super) fn outlines() -> bool {
    OUTLINES.key()
}

/// Compiles the programs that `f` uses without functions for repeated parts.
///
/// By default a part that a program repeats, such as the layers that a Rust loop traces, is
/// compiled once on CPUs, as a function with one call per repetition.
/// [`Lowered::repeated_parts`](crate::jit::Lowered::repeated_parts) lists them. Inside
/// `disable_outlining` every repetition is compiled on its own, so the compiler may fuse operations
/// of neighbouring ones. Results may differ in the last bits.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with other settings
/// are not reused.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::jit::disable_outlining;
/// let deep = jit(|x: Array| (0..8).fold(x, |x, _| tanh(x.matmul(&x))));
/// let y = disable_outlining(|| deep.call(ones([64, 64])))?;
/// assert_eq!(y.shape().dims(), [64, 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn disable_outlining<R>(f: impl FnOnce() -> R) -> R {
    OUTLINES.scope(false, f)
}

/// Returns false inside [`disable_rewrites`].
pub(super) fn rewrites() -> bool {
    REWRITES.key()
}

/// Compiles the programs that `f` uses without rewriting their operations.
///
/// By default, programs are rewritten for CPUs. A product takes over the transposition of an
/// operand, which XLA's CPU compiler otherwise copies before a product with a vector. Programs on
/// one device have further forms, some with another order of rounding: the sum of an array and of
/// updates of zeros is an update of the array in place; convolutions whose windows have one element
/// or cover the whole operand, such as gradients of kernels of one element, are products; and large
/// operands of products in `f32`, and large kernels, are transposed before the compiler does it
/// with a slower loop.
///
/// Loops that are one kernel have further forms: sums of products over the steps are products after
/// the loop, in another order of rounding, sums of padded parts are concatenations, and operands of
/// `tanh`, `logistic` and `erf` in short arrays are limited.
///
/// The setting holds on this thread while `f` runs. Programs that were compiled with another
/// setting are not reused. It has no effect on GPUs and TPUs.
///
/// ```
/// use oxidax::jit::disable_rewrites;
/// use oxidax::prelude::*;
/// let lowered = jit(|a: Array, v: Array| a.t().matmul(&v)).lower(ones([4, 3]), ones([4]))?;
/// let transposes = || lowered.as_text("cpu").map(|text| text.contains("stablehlo.transpose"));
/// assert_eq!((transposes()?, disable_rewrites(transposes)?), (false, true));
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn disable_rewrites<R>(f: impl FnOnce() -> R) -> R {
    REWRITES.scope(false, f)
}
