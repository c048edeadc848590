//! [`Precision`] of matrix products, and the scope that sets its default.

use crate::core::scoped::scoped;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The precision with which an accelerator multiplies floats. CPUs always use full precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// The precision of the enclosing [`with_matmul_precision`], else that of the
    /// [process](crate::config::ProcessConfig::default_matmul_precision), else the fastest: for
    /// `f32` operands one `bf16` pass on TPUs, TF32 on GPUs.
    #[default]
    Default,
    /// Three `bf16` passes on TPUs, TF32 on GPUs.
    High,
    /// Full precision of the dtype: six `bf16` passes on TPUs, `f32` on GPUs.
    Highest,
}

impl Precision {
    pub(crate) fn stablehlo(self) -> &'static str {
        match self {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        }
    }

    /// Returns `precisions`, or the precision in force if both are the default.
    pub(crate) fn or_scoped(precisions: [Precision; 2]) -> [Precision; 2] {
        match precisions {
            [Precision::Default, Precision::Default] => [Precision::in_force(); 2],
            precisions => precisions,
        }
    }

    /// Returns the default precision of matrix products on this thread.
    pub(in crate::core) fn in_force() -> Precision {
        MATMUL_PRECISION.key().unwrap_or_else(Precision::of_process)
    }

    /// Returns the default precision of the process: the program's, else the environment's.
    pub(crate) fn of_process() -> Precision {
        match OF_PROCESS.load(Ordering::Relaxed) {
            0 => Precision::Default,
            1 => Precision::High,
            2 => Precision::Highest,
            _ => {
                static OF_ENVIRONMENT: OnceLock<Precision> = OnceLock::new();
                *OF_ENVIRONMENT.get_or_init(crate::precision_of_environment)
            }
        }
    }

    /// Sets the default precision of the process.
    pub(crate) fn set_of_process(self) {
        OF_PROCESS.store(self as u8, Ordering::Relaxed);
    }
}

/// The program's default precision of the process as a number, or [`NOT_SET`].
static OF_PROCESS: AtomicU8 = AtomicU8::new(NOT_SET);
const NOT_SET: u8 = u8::MAX;

scoped!(
    /// The precision set on this thread by `with_matmul_precision`.
    keyed static MATMUL_PRECISION: Option<Precision> = None
);

/// Runs `f` with `precision` as the default of matrix products and convolutions on this thread.
///
/// A `jit` function is compiled once for each precision that it is called under. Programs that are
/// already traced or compiled keep the precision they were traced under.
///
/// ```
/// use oxidax::prelude::*;
/// let square = |x: Array| x.matmul(&x);
/// let exact = with_matmul_precision(Precision::Highest, || {
///     jit(square).lower(Aval::new(DType::F32, [3, 3]))?.as_text("tpu")
/// })?;
/// assert!(exact.contains("HIGHEST"));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "default_matmul_precision")]
pub fn with_matmul_precision<R>(precision: Precision, f: impl FnOnce() -> R) -> R {
    MATMUL_PRECISION.scope(Some(precision), f)
}
