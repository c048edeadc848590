//! Elementwise special functions: gamma, beta, error and Bessel functions.

mod bessel;
mod betainc;
mod erf;
mod gamma;
mod igamma;
mod incomplete;

pub use bessel::{BesselI0e, BesselI1e, bessel_i0e, bessel_i1e};
pub use betainc::{RegularizedIncompleteBeta, betainc};
pub use erf::{Erf, ErfInv, Erfc, erf, erf_inv, erfc};
pub use gamma::{Digamma, Lgamma, Polygamma, Zeta, digamma, lgamma, polygamma, zeta};
pub use igamma::{
    Igamma, IgammaGradA, Igammac, RandomGammaGrad, igamma, igamma_grad_a, igammac,
    random_gamma_grad,
};

pub(crate) use incomplete::{has_open_terms, unconverged};

use crate::core::{Aval, DType, LowerCtx, RuleResult};
use crate::stablehlo::Value;

/// Writes an operation of the `chlo` dialect. Floats of 8 bits are converted to `f32`, because the
/// operation is not expanded for them.
fn lower_chlo(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    operands: &[Value],
    result: &Aval,
) -> RuleResult<Vec<Value>> {
    if result.dtype.bits() > 8 {
        return Ok(vec![ctx.op(name, operands)]);
    }
    let wide = result.with_dtype(DType::F32).stablehlo();
    let operands: Vec<Value> =
        operands.iter().map(|x| ctx.op_as("convert", std::slice::from_ref(x), "", &wide)).collect();
    let y = ctx.op(name, &operands);
    Ok(vec![ctx.op_as("convert", &[y], "", &result.stablehlo())])
}
