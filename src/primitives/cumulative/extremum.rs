//! Running maximum and minimum.

use super::loops::{Along, lower_loop, lower_tree, narrow_carry};
use super::{LinearRecurrence, RunningTotalOptions, axis_of, predecessors, total_type};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::{maximum, minimum, mul, sub};
use crate::primitives::comparison::eq;
use crate::primitives::constant::full_like;
use crate::primitives::iota::broadcasted_iota;
use crate::primitives::reduce::choose;
use crate::primitives::rules::{batched, move_axis};
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns the tangent of a running extremum `y` of `x`: a recurrence of the weights of the element
/// and of the extremum before it, which are the derivatives of `maximum` and `minimum`.
fn chosen_tangent(x: &Array, y: &Array, dx: &Array, along: Along) -> Array {
    let before = predecessors(y, along.axis, along.reverse, 0.0);
    let positions = broadcasted_iota(DType::I32, x.shape(), along.axis);
    let first = if along.reverse { x.shape()[along.axis].saturating_sub(1) } else { 0 };
    let (is_first, is_own) = (eq(positions, first), eq(x, y));
    let [none, half, all] = [0.0, 0.5, 1.0].map(|share| full_like(x, share));
    // The comparison tests only for the element itself: a compiler that computes `x` or `y` twice
    // may round them differently. In all other cases the extremum is the previous one, which does
    // not exist before the first element.
    let shared = select(&eq(&before, y), &half, &all);
    let own = select(&is_own, &shared, &none);
    let own = select(&is_first, &all, &own);
    let recurrence = LinearRecurrence { axis: along.axis, reverse: along.reverse };
    let earlier = sub(&all, &own);
    let own = mul(&own, dx);
    bind1(recurrence, [&earlier, &own])
}

/// Running maximum along an axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | same shape and dtype as `x`; each element is the maximum of those up to it, or from it on if `reverse`; NaN from the first NaN on; complex numbers by real, then imaginary part |
/// | lowering   | a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) along the axis on CPU, elsewhere a tree |
/// | derivative | the tangent of the element that was chosen, a [`LinearRecurrence`]; an element that equals the maximum before it shares with it half and half |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cummax {
    /// The axis of the running total.
    pub axis: usize,
    /// Runs from the end of the axis.
    pub reverse: bool,
}

impl Primitive for Cummax {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        total_type(operands, self.axis)
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let along = Along { axis: self.axis, reverse: self.reverse };
        let dy = tangents[0].map(y.aval(), |dx| chosen_tangent(x, &y, dx, along));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(Cummax { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
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
            let combine = |a: &[Array], b: &[Array]| vec![maximum(&a[0], &b[0])];
            return lower_tree(ctx, "cummax", operands, along, &combine);
        }
        let carry = narrow_carry(results[0].dtype);
        Ok(vec![lower_loop(ctx, operands, along, carry, |ctx, total, x| {
            choose(ctx, &[total.clone(), x[0].clone()], "maximum", "GT")
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = results[0].size() as u64;
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the running maximum of `x` along `axis`. Negative axes count from the back. See
/// [`Cummax`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| cummax(&x, 0), Aval::new(DType::F32, [5]))?;
/// assert_eq!(y.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cummax(x: &Array, axis: isize) -> Array {
    cummax_with(x, axis, RunningTotalOptions::default())
}

/// Returns the running total of [`cummax`], with options.
#[track_caller]
pub fn cummax_with(x: &Array, axis: isize, options: RunningTotalOptions) -> Array {
    let RunningTotalOptions { reverse } = options;
    bind1(Cummax { axis: axis_of("cummax", x, axis), reverse }, [x])
}

/// Running minimum along an axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | same shape and dtype as `x`; each element is the minimum of those up to it, or from it on if `reverse`; NaN from the first NaN on; complex numbers by real, then imaginary part |
/// | lowering   | a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) along the axis on CPU, elsewhere a tree |
/// | derivative | the tangent of the element that was chosen, a [`LinearRecurrence`]; an element that equals the minimum before it shares with it half and half |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cummin {
    /// The axis of the running total.
    pub axis: usize,
    /// Runs from the end of the axis.
    pub reverse: bool,
}

impl Primitive for Cummin {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        total_type(operands, self.axis)
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let along = Along { axis: self.axis, reverse: self.reverse };
        let dy = tangents[0].map(y.aval(), |dx| chosen_tangent(x, &y, dx, along));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(Cummin { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
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
            let combine = |a: &[Array], b: &[Array]| vec![minimum(&a[0], &b[0])];
            return lower_tree(ctx, "cummin", operands, along, &combine);
        }
        let carry = narrow_carry(results[0].dtype);
        Ok(vec![lower_loop(ctx, operands, along, carry, |ctx, total, x| {
            choose(ctx, &[total.clone(), x[0].clone()], "minimum", "LT")
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = results[0].size() as u64;
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the running minimum of `x` along `axis`. Negative axes count from the back. See
/// [`Cummin`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| cummin(&x, 0), Aval::new(DType::F32, [5]))?;
/// assert_eq!(y.aval().to_string(), "f32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cummin(x: &Array, axis: isize) -> Array {
    cummin_with(x, axis, RunningTotalOptions::default())
}

/// Returns the running total of [`cummin`], with options.
#[track_caller]
pub fn cummin_with(x: &Array, axis: isize, options: RunningTotalOptions) -> Array {
    let RunningTotalOptions { reverse } = options;
    bind1(Cummin { axis: axis_of("cummin", x, axis), reverse }, [x])
}

/// Axis, direction, operand, and true if the derivative exists there.
fn samples() -> Vec<(usize, bool, Sample, bool)> {
    let floats = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
    let edges = [1.0, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, 1.0];
    let integers = [-128.0, 3.0, 127.0, 127.0, 0.0];
    let mut all = vec![
        (1, false, floats(DType::F32, &[2, 5]), true),
        (0, true, floats(DType::F64, &[4, 3]), true),
        (1, true, floats(DType::F64, &[2, 4, 2]), true),
        // The order of complex numbers is not differentiable.
        (0, false, floats(DType::C64, &[4]), false),
        // At ties the two one-sided derivatives differ.
        (0, false, Sample::listed(DType::F32, [6], &[1.0, 1.0, 0.0, 1.0, 2.0, 2.0]), false),
        (1, false, Sample::listed(DType::F32, [2, 4], &edges), false),
        (0, false, floats(DType::BF16, &[1]), true),
        (1, false, floats(DType::F32, &[3, 0]), true),
        (0, false, floats(DType::F32, &[0]), true),
        (0, false, Sample::listed(DType::I8, [5], &integers), true),
        (0, true, Sample::listed(DType::I64, [3], &[-9.2e18, 9.2e18, 0.0]), true),
    ];
    for dtype in [DType::I4, DType::U4, DType::U8, DType::U32, DType::F16, DType::F8E4M3FN] {
        all.push((0, false, Sample::uniform(dtype, [4], 0.0, 6.0), false));
    }
    all
}

fn exemplar(running: impl Primitive, x: Sample, differentiable: bool) -> Exemplar {
    let exemplar = Exemplar::new(running, [x]);
    if differentiable { exemplar } else { exemplar.without_derivative() }
}

impl Registered for Cummax {
    const NAME: &'static str = "cummax";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar_of =
            |(axis, reverse, x, smooth)| exemplar(Cummax { axis, reverse }, x, smooth);
        samples().into_iter().map(exemplar_of).collect()
    }
}

impl Registered for Cummin {
    const NAME: &'static str = "cummin";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar_of =
            |(axis, reverse, x, smooth)| exemplar(Cummin { axis, reverse }, x, smooth);
        samples().into_iter().map(exemplar_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let along = Cummax { axis: 0, reverse: false };
        expect![[r#"
            error[dtype]: cummax: needs a numeric operand, got bool
              operand: bool[5]"#]]
        .assert_eq(&error_of(along, [Aval::new(DType::Bool, [5])]));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::grad;

        #[test]
        fn an_element_shares_with_the_extremum_that_it_equals() {
            let x = Array::from_slice(&[1.0f32, 3.0, 2.0, 3.0], [4]).unwrap();
            let total = |x: &Array| crate::primitives::reduce_sum(&cummax(x, 0), &[0]);
            assert_eq!(grad(total)(&x).to_vec::<f32>().unwrap(), [1.0, 2.5, 0.0, 0.5]);
        }
    }
}
