//! Products of 8-bit integers on NVIDIA GPUs.

use super::DotGeneral;
use crate::core::{DType, LowerCtx};
use crate::primitives::rules::element_dtype;
use crate::stablehlo::Value;

/// A sum of this number of products of 8-bit integers is at most 2^24, so that `f32` holds it, and
/// every partial sum, exactly.
const MOST_IN_F32: usize = 1 << 10;

impl DotGeneral {
    /// Returns the float dtype that multiplies these integers exactly, `None` if the target
    /// multiplies them as they are.
    ///
    /// XLA's CUDA plugin (jax-cuda13-pjrt 0.11.2, on an H100) returns twice the product of `i8`
    /// operands where it leaves it to cuBLAS: for small matrices, and for all without autotuning.
    /// TF32 holds 8-bit integers exactly too.
    pub(super) fn exact_float_on_gpu(
        &self,
        ctx: &LowerCtx<'_>,
        operands: &[Value],
        result: DType,
    ) -> Option<DType> {
        let is_signed_byte =
            |x: &Value| matches!(element_dtype(x), DType::I2 | DType::I4 | DType::I8);
        let is_wide = result.is_integer() && result.bits() > 8;
        if ctx.platform() != "cuda" || !is_wide || !operands.iter().all(is_signed_byte) {
            return None;
        }
        let dims = operands[0].ty().dims();
        let summed: usize = self.lhs_contracting.iter().map(|&axis| dims[axis]).product();
        Some(if summed <= MOST_IN_F32 { DType::F32 } else { DType::F64 })
    }
}

/// Returns the integer dtype that holds all sums in this float dtype. From there a conversion wraps
/// around, which one from a float does not.
pub(super) fn integer_of(float: DType) -> DType {
    if float == DType::F32 { DType::I32 } else { DType::I64 }
}
