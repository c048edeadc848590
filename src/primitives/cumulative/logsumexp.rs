//! Running log-sum-exp.

use super::loops::{Along, lower_loop, lower_tree, narrow_carry};
use super::{LinearRecurrence, RunningTotalOptions, axis_of, ensure_along, predecessors};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::mul;
use crate::primitives::logaddexp::{logaddexp, lower_logaddexp, share};
use crate::primitives::rules::{arity, batched, move_axis, same_float_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Running `log(exp(x₀) + exp(x₁) + …)` along an axis, without overflow.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; each element takes together those up to it, or from it on if `reverse` |
/// | lowering   | a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) along the axis on CPU, elsewhere a tree, of [`logaddexp`] |
/// | derivative | `dyᵢ = logistic(yᵢ₋₁ - xᵢ)·dyᵢ₋₁ + logistic(xᵢ - yᵢ₋₁)·dxᵢ`, a [`LinearRecurrence`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cumlogsumexp {
    /// The axis of the running total.
    pub axis: usize,
    /// Runs from the end of the axis.
    pub reverse: bool,
}

impl Primitive for Cumlogsumexp {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let x = same_float_type(arity::<1>(operands)?)?;
        ensure_along(&x, self.axis)?;
        Ok(vec![x])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let dy = tangents[0].map(y.aval(), |dx| {
            let before = predecessors(&y, self.axis, self.reverse, f64::NEG_INFINITY);
            let recurrence = LinearRecurrence { axis: self.axis, reverse: self.reverse };
            bind1(recurrence, [&share(&before, x), &mul(share(x, &before), dx)])
        });
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(Cumlogsumexp { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].size() == 0 {
            return Ok(operands.to_vec());
        }
        let along = Along { axis: self.axis, reverse: self.reverse };
        if ctx.platform() != "cpu" {
            let combine = |a: &[Array], b: &[Array]| vec![logaddexp(&a[0], &b[0])];
            return lower_tree(ctx, "cumlogsumexp", operands, along, &combine);
        }
        let carry = narrow_carry(results[0].dtype);
        Ok(vec![lower_loop(ctx, operands, along, carry, |ctx, total, x| {
            lower_logaddexp(ctx, &[total.clone(), x[0].clone()])
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let elements = results[0].size() as u64;
        let (flops, transcendentals) = (6 * elements, 2 * elements);
        Cost { flops, transcendentals, ..Cost::whole(operands, results) }
    }
}

/// Returns the running logarithm of the sum of `exp(x)` along `axis`, without overflow. Negative
/// axes count from the back. See [`Cumlogsumexp`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let options = RunningTotalOptions { reverse: true };
/// let f = |x: Array| cumlogsumexp_with(&x, 0, options);
/// let y = eval_shape(f, Aval::new(DType::F32, [5]))?;
/// assert_eq!(y.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "logcumsumexp")]
#[track_caller]
pub fn cumlogsumexp(x: &Array, axis: isize) -> Array {
    cumlogsumexp_with(x, axis, RunningTotalOptions::default())
}

/// Returns the running total of [`cumlogsumexp`], with options.
#[track_caller]
pub fn cumlogsumexp_with(x: &Array, axis: isize, options: RunningTotalOptions) -> Array {
    let RunningTotalOptions { reverse } = options;
    bind1(Cumlogsumexp { axis: axis_of("cumlogsumexp", x, axis), reverse }, [x])
}

impl Registered for Cumlogsumexp {
    const NAME: &'static str = "cumlogsumexp";
    fn exemplars() -> Vec<Exemplar> {
        let along = |axis, reverse, x: Sample| Exemplar::new(Cumlogsumexp { axis, reverse }, [x]);
        let floats = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -3.0, 3.0);
        let inf = f64::INFINITY;
        let edges = [-inf, -inf, 1.0, -inf, 900.0, inf, -inf, f64::NAN];
        vec![
            along(1, false, floats(DType::F32, &[2, 5])),
            along(0, true, floats(DType::F64, &[4, 3])),
            along(1, true, floats(DType::F64, &[2, 3, 2])),
            along(0, false, Sample::listed(DType::F64, [4], &[700.0, -700.0, 710.0, 710.0])),
            along(0, false, floats(DType::BF16, &[1])),
            along(0, false, floats(DType::F16, &[6])),
            along(1, false, floats(DType::F32, &[3, 0])),
            along(0, false, floats(DType::F8E5M2, &[0])),
            // Infinities have no finite differences.
            along(1, false, Sample::listed(DType::F32, [4, 2], &edges)).without_derivative(),
            along(1, true, Sample::listed(DType::F64, [2, 4], &edges)).without_derivative(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let along = Cumlogsumexp { axis: 0, reverse: false };
        expect![[r#"
            error[dtype]: cumlogsumexp: needs a float operand, got i32
              operand: i32[5]"#]]
        .assert_eq(&error_of(along, [Aval::new(DType::I32, [5])]));
    }
}
