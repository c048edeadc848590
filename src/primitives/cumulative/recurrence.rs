//! First-order linear recurrences.

use super::loops::{Along, lower_loop, lower_tree, narrow_carry};
use super::{RunningTotalOptions, axis_of, ensure_along, predecessors};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleError, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::{add, mul};
use crate::primitives::promote::{ArrayLike, promote_arrays};
use crate::primitives::rules::{arity, batch_at_front, batched, one_cotangent, same_numeric_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// First-order linear recurrence `yᵢ = aᵢ·yᵢ₋₁ + bᵢ` along an axis, with `y₀ = b₀`.
///
/// It is the derivative of running products, extrema and log-sum-exps, and the state update of a
/// linear state space model.
///
/// | | |
/// |-|-|
/// | operands   | `a, b: {int, float, complex}[…]`, of one shape and dtype; the first element of `a` is ignored |
/// | result     | the same shape and dtype; from the end of the axis if `reverse` |
/// | lowering   | a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) along the axis on CPU, elsewhere a tree |
/// | derivative | `dyᵢ = aᵢ·dyᵢ₋₁ + (daᵢ·yᵢ₋₁ + dbᵢ)`; linear in `b`, transposes to a recurrence in the other direction |
///
/// Reference: Blelloch, "Prefix sums and their applications", 1990, section 1.4.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinearRecurrence {
    /// The axis of the recurrence.
    pub axis: usize,
    /// Runs from the end of the axis.
    pub reverse: bool,
}

impl Primitive for LinearRecurrence {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let y = same_numeric_type(arity::<2>(operands)?)?;
        ensure_along(&y, self.axis)?;
        Ok(vec![y])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (a, b) = (&primals[0], &primals[1]);
        let y = bind1(self.clone(), [a, b]);
        let driven =
            tangents[0].map(y.aval(), |da| mul(da, predecessors(&y, self.axis, self.reverse, 0.0)));
        let driven = driven.add(&tangents[1]);
        let dy = driven.map(y.aval(), |driven| bind1(self.clone(), [a, driven]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let operands = batch_at_front(operands, axes, axis);
        let recurrence = LinearRecurrence { axis: self.axis + 1, ..self.clone() };
        Ok(batched(bind1(recurrence, [&operands[0], &operands[1]]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].size() == 0 {
            return Ok(vec![operands[1].clone()]);
        }
        let along = Along { axis: self.axis, reverse: self.reverse };
        if ctx.platform() != "cpu" {
            // Two adjacent ranges: y ↦ a₂·(a₁·y + b₁) + b₂.
            let combine = |first: &[Array], second: &[Array]| {
                let factor = mul(&second[0], &first[0]);
                vec![factor, add(mul(&second[0], &first[1]), &second[1])]
            };
            return lower_tree(ctx, "linear_recurrence", operands, along, &combine);
        }
        let carry = narrow_carry(results[0].dtype);
        Ok(vec![lower_loop(ctx, operands, along, carry, |ctx, total, pair| {
            let decayed = ctx.op("multiply", &[pair[0].clone(), total.clone()]);
            ctx.op("add", &[decayed, pair[1].clone()])
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: 2 * results[0].size() as u64, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Known(a), Operand::Linear(_)] = operands else {
            return Err(RuleError::not_linear("linear_recurrence"));
        };
        // Backwards, an element is multiplied by the factor of the element after it.
        let after = predecessors(a, self.axis, !self.reverse, 0.0);
        let back = LinearRecurrence { axis: self.axis, reverse: !self.reverse };
        Ok(vec![None, Some(bind1(back, [&after, one_cotangent(cts)?]).into())])
    }
}

/// Computes `y[i] = a[i] * y[i - 1] + b[i]` along `axis`, with `y[0] = b[0]`, with promotion and
/// broadcasting. Negative axes count from the back. See [`LinearRecurrence`] for its rules.
///
/// An exponential moving average is `linear_recurrence(0.9, &x * 0.1, 0)`.
///
/// ```
/// use oxidax::prelude::*;
/// let average = |x: Array| linear_recurrence(0.9, &x * 0.1, 0);
/// let y = eval_shape(average, Aval::new(DType::F32, [100, 8]))?;
/// assert_eq!(y.aval().to_string(), "f32[100,8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linear_recurrence(a: impl ArrayLike, b: impl ArrayLike, axis: isize) -> Array {
    linear_recurrence_with(a, b, axis, RunningTotalOptions::default())
}

/// Computes the recurrence of [`linear_recurrence`], with options.
#[track_caller]
pub fn linear_recurrence_with(
    a: impl ArrayLike,
    b: impl ArrayLike,
    axis: isize,
    options: RunningTotalOptions,
) -> Array {
    let RunningTotalOptions { reverse } = options;
    let [a, b] = promote_arrays("linear_recurrence", [a.like(), b.like()]);
    let axis = axis_of("linear_recurrence", &b, axis);
    bind1(LinearRecurrence { axis, reverse }, [&a, &b])
}

impl Registered for LinearRecurrence {
    const NAME: &'static str = "linear_recurrence";
    fn exemplars() -> Vec<Exemplar> {
        let along = |axis, reverse, dtype, shape: &[usize]| {
            let x = || Sample::uniform(dtype, shape, -2.0, 2.0);
            Exemplar::new(LinearRecurrence { axis, reverse }, [x(), x()])
        };
        let edges = [1.0, f64::INFINITY, 0.0, -0.0, f64::NAN, 2.0];
        let edges = || Sample::listed(DType::F32, [2, 3], &edges);
        let axis = LinearRecurrence { axis: 1, reverse: false };
        vec![
            along(1, false, DType::F32, &[2, 4]),
            along(0, true, DType::F64, &[4, 2]),
            along(1, true, DType::F64, &[2, 3, 2]),
            along(0, false, DType::C64, &[3]),
            along(0, false, DType::I32, &[4]),
            along(0, false, DType::U8, &[5]),
            along(0, true, DType::I4, &[4]),
            along(0, false, DType::BF16, &[3]),
            along(0, false, DType::F16, &[1, 2]),
            along(0, false, DType::F32, &[0, 2]),
            along(1, true, DType::F32, &[0, 2]),
            // Infinities have no finite differences.
            Exemplar::new(axis, [edges(), edges()]).without_derivative(),
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
        let along = LinearRecurrence { axis: 0, reverse: false };
        let avals = [Aval::new(DType::F32, [5]), Aval::new(DType::F32, [4])];
        expect![[r#"
            error[shape]: linear_recurrence: operands must have one shape, got [5] and [4]
              lhs: f32[5]
              rhs: f32[4]"#]]
        .assert_eq(&error_of(along, avals));
    }
}
