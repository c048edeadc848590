//! How exactly floats are multiplied, and the scope that says so for everything traced in it.

use crate::core::scoped::scoped;
use serde::{Deserialize, Serialize};

/// How exactly an accelerator multiplies floats. The CPU always works in full precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// That of [`with_matmul_precision`] around it; else the fastest: one `bf16` pass for `f32` operands on
    /// TPUs, TF32 on GPUs.
    #[default]
    Default,
    /// Three `bf16` passes on TPUs, TF32 on GPUs.
    High,
    /// As exact as the dtype: six `bf16` passes on TPUs, `f32` on GPUs.
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

    /// These precisions, or that of the scope where both are the default.
    pub(crate) fn or_scoped(named: [Precision; 2]) -> [Precision; 2] {
        match named {
            [Precision::Default, Precision::Default] => [matmul_precision(); 2],
            named => named,
        }
    }
}

scoped!(static MATMUL_PRECISION: Precision = Precision::Default);

/// The precision of products that name none, on this thread.
pub(crate) fn matmul_precision() -> Precision {
    MATMUL_PRECISION.get()
}

/// Runs `f` with `precision` for every product and convolution that is called in it, on this thread, and
/// names none of its own. A function of `jit` is compiled once for each precision that it is called under;
/// what is traced, or compiled ahead, keeps the precision that it was traced under.
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
    MATMUL_PRECISION.scope(precision, f)
}
