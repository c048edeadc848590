//! Functions that are constant outside an interval, in kernels of loops.
//!
//! XLA's CPU compiler unrolls a short loop over the elements of a small array before it looks for
//! vector code, and then computes a function such as `tanh` element by element: 32 of them take
//! three times as long as with vectors. A loop with two more operations is long enough to be kept.

use crate::core::{Aval, DType, LowerCtx, RuleResult, Scalar};
use crate::stablehlo::Value;

/// The sizes of arrays whose loop is unrolled without the further operations only.
const SIZES: std::ops::RangeInclusive<usize> = 32..=51;

/// Lowers a function that has the same result for all numbers above `limit`, and for all below
/// `-limit`: in kernels of loops, of an operand that is limited to this interval.
pub(super) fn lower_saturated(
    ctx: &mut LowerCtx<'_>,
    operation: &str,
    limit: f64,
    operands: &[Value],
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let result = &results[0];
    let ty = result.stablehlo();
    let is_unrolled = ctx.is_in_kernel()
        && ctx.target().rewrites()
        && SIZES.contains(&result.size())
        && matches!(result.dtype, DType::F32 | DType::F64);
    let mut x = operands[0].clone();
    if is_unrolled {
        let scalar = ty.with_dims(&[]);
        let [low, high] = [-limit, limit]
            .map(|bound| ctx.constant(&Scalar::Float(bound).stablehlo(result.dtype), &scalar));
        x = ctx.op_as("clamp", &[low, x, high], "", &ty);
    }
    Ok(vec![ctx.op_as(operation, &[x], "", &ty)])
}
