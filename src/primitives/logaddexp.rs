//! Addition of numbers that are represented by their logarithms.

use super::arithmetic::{mul, sub};
use super::comparison::eq;
use super::constant::{full_like, zeros_like};
use super::exponential::logistic;
use super::logic::bitwise_and;
use super::promote::{ArrayLike, promote_inexact};
use super::select::select;
use crate::core::{Array, Aval, Cost, DType, Exemplar, LowerCtx, RuleResult, Sample, bind1};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// `log(exp(x) + exp(y))` without overflow.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; for equal infinities the infinity |
/// | lowering   | `max(x, y) + log1p(exp(-abs(x - y)))` |
/// | derivative | `logistic(x - y)·dx + logistic(y - x)·dy` |
///
/// `logaddexp` is a primitive so that derivatives of every order are exact at `x = y`, where those
/// of `max` and `abs` are not. At `x = y = inf` both weights are 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogAddExp;

/// Returns the weight of an operand's tangent in the tangent of the result. It is `exp(own -
/// result)` without the rounding of the result, which may exceed the difference of the operands.
pub(super) fn share(own: &Array, other: &Array) -> Array {
    let infinity = full_like(own, f64::INFINITY);
    let both = bitwise_and(eq(own, &infinity), eq(other, &infinity));
    logistic(sub(own, select(&both, &zeros_like(other), other)))
}

/// Writes the function of two floats of one type.
pub(super) fn lower_logaddexp(ctx: &mut LowerCtx<'_>, pair: &[Value]) -> Value {
    let bool = pair[0].ty().with_element("i1");
    let larger = ctx.op("maximum", pair);
    let distance = ctx.op("subtract", pair);
    let not_equal = "comparison_direction = #stablehlo<comparison_direction NE>, compare_type = \
        #stablehlo<comparison_type FLOAT>";
    // For infinities of one sign and for NaN the plain sum is right.
    let special = ctx.op_as("compare", &[distance.clone(), distance.clone()], not_equal, &bool);
    let distance = ctx.op("abs", &[distance]);
    let distance = ctx.op("negate", &[distance]);
    let ratio = ctx.op("exponential", &[distance]);
    let above = ctx.op("log_plus_one", &[ratio]);
    let usual = ctx.op("add", &[larger.clone(), above]);
    let sum = ctx.op("add", pair);
    let ty = larger.ty().clone();
    ctx.op_as("select", &[special, sum, usual], "", &ty)
}

impl LogAddExp {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![lower_logaddexp(ctx, operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let elements = results[0].size() as u64;
        Cost {
            flops: 6 * elements,
            transcendentals: 2 * elements,
            ..Cost::elementwise(operands, results)
        }
    }
}

impl Elementwise for LogAddExp {
    const NAME: &'static str = "logaddexp";
    const TYPE: TypeRule<LogAddExp> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<LogAddExp> = Derivative::Binary(
        |_, x, y, _, dx| mul(dx, share(x, y)),
        |_, x, y, _, dy| mul(dy, share(y, x)),
    );
    const LOWERING: Lowering<LogAddExp> = Lowering::Custom(LogAddExp::lower);
    const COST: CostRule<LogAddExp> = CostRule::Custom(LogAddExp::cost);
    fn exemplars() -> Vec<Exemplar> {
        let inf = f64::INFINITY;
        let uniform = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -3.0, 3.0);
        let listed = |elements: &[f64]| Sample::listed(DType::F32, [4], elements);
        let ties = [0.0, 1.5, -2.0, 700.0];
        vec![
            Exemplar::new(LogAddExp, [uniform(DType::F32, &[2, 3]), uniform(DType::F32, &[2, 3])]),
            Exemplar::new(LogAddExp, [uniform(DType::BF16, &[]), uniform(DType::BF16, &[])]),
            Exemplar::new(LogAddExp, [listed(&ties), listed(&ties)]),
            // Infinities have no finite differences.
            Exemplar::new(
                LogAddExp,
                [listed(&[inf, -inf, -inf, f64::NAN]), listed(&[inf, -inf, 0., 1.])],
            )
            .without_derivative(),
        ]
    }
}

/// Returns `log(exp(x) + exp(y))` without overflow, with promotion and broadcasting. Integers
/// become floats. Throws `Op` (dtype) for complex operands. See [`LogAddExp`] for its rules.
#[track_caller]
pub fn logaddexp(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("logaddexp", [x.like(), y.like()]);
    bind1(LogAddExp, [&x, &y])
}
