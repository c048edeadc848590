//! Products on CPUs whose sums run along the columns of `lhs`, such as gradients of weights.

use super::{DotGeneral, free};
use crate::core::{DType, LowerCtx, RuleResult};
use crate::primitives::rules::element_dtype;
use crate::stablehlo::Value;

/// The number of elements up to which `lhs` is transposed for a product in `f32`. A larger `lhs`
/// does not stay in the cache: the transposition took longer than the product gained.
const MAX_TRANSPOSED: usize = 1 << 23;

/// The number of multiplications from which `lhs` is transposed for a product in `f32`. Below, the
/// call of the function that transposes is not negligible.
const MIN_PRODUCTS: usize = 1 << 20;

impl DotGeneral {
    /// Returns true if XLA's CPU compiler multiplies faster once `lhs` is transposed so that the
    /// sums run along its rows. Its library declines other products in `bf16`, and takes 1.1 to 2
    /// times as long for others in `f32`.
    pub(super) fn gains_from_rows(&self, ctx: &LowerCtx<'_>, operands: &[Value]) -> bool {
        (Self::is_for_library(ctx, operands) || self.is_large_in_f32(ctx, operands))
            && !ctx.is_partitioned()
            && !self.sums_along_rows(operands[0].ty().dims().len())
    }

    /// Returns true for a product of `f32` matrices on a CPU that pays for a transposition.
    fn is_large_in_f32(&self, ctx: &LowerCtx<'_>, operands: &[Value]) -> bool {
        let [lhs, rhs] = [0, 1].map(|side| operands[side].ty().dims());
        let (_, free) = self.free(lhs.len(), rhs.len());
        let of_lhs: usize = lhs.iter().product();
        let columns: usize = free.iter().map(|&axis| rhs[axis]).product();
        ctx.platform() == "cpu"
            && ctx.target().rewrites()
            && !ctx.is_in_kernel()
            && operands.iter().all(|operand| element_dtype(operand) == DType::F32)
            && self.lhs_batch.is_empty()
            && of_lhs <= MAX_TRANSPOSED
            && of_lhs.saturating_mul(columns) >= MIN_PRODUCTS
    }

    /// Transposes `lhs` so that its contracted axes are its last. Returns the product of the
    /// transposed operand, and that operand.
    pub(super) fn along_rows(
        &self,
        ctx: &mut LowerCtx<'_>,
        lhs: &Value,
    ) -> RuleResult<(DotGeneral, Value)> {
        let dims = lhs.ty().dims();
        let (batch, contracted) = (self.lhs_batch.len(), self.lhs_contracting.len());
        let free = free(dims.len(), &self.lhs_contracting, &self.lhs_batch);
        let order: Vec<usize> =
            self.lhs_batch.iter().chain(&free).chain(&self.lhs_contracting).copied().collect();
        let product = DotGeneral {
            lhs_batch: (0..batch).collect(),
            lhs_contracting: (dims.len() - contracted..dims.len()).collect(),
            ..self.clone()
        };
        Ok((product, ctx.transposed_apart(lhs, &order)?))
    }
}
