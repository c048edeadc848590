//! Largest and smallest element along axes.

use super::axes::{
    compare, highest, lower_reduce, lowest, reduced, reduction_rule, remaining_axes, resolve_axes,
    shifted,
};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, ShardingRule, Spmd, Tangent, bind1,
};
use crate::primitives::arithmetic::{div, mul};
use crate::primitives::comparison::eq;
use crate::primitives::convert::convert_element_type;
use crate::primitives::rules::{arity, batched, move_axis};
use crate::primitives::shape::broadcast_in_dim;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Chooses one of two scalars. Complex numbers are ordered by real part, then by imaginary part.
pub(in crate::primitives) fn choose(
    ctx: &mut LowerCtx<'_>,
    pair: &[Value],
    op: &str,
    direction: &str,
) -> Value {
    let ty = pair[0].ty().clone();
    let part = match ty.element() {
        "complex<f32>" => DType::F32,
        "complex<f64>" => DType::F64,
        _ => return ctx.op(op, pair),
    };
    let real = ty.with_element(part.stablehlo());
    let parts = |ctx: &mut LowerCtx<'_>, name: &str| {
        [0, 1].map(|side| ctx.op_as(name, &[pair[side].clone()], "", &real))
    };
    let [re_x, re_y] = parts(ctx, "real");
    let [im_x, im_y] = parts(ctx, "imag");
    let tie = compare(ctx, "EQ", part, &re_x, &re_y);
    let by_real = compare(ctx, direction, part, &re_x, &re_y);
    let by_imaginary = compare(ctx, direction, part, &im_x, &im_y);
    let first = ctx.op("select", &[tie, by_imaginary, by_real]);
    ctx.op_as("select", &[first, pair[0].clone(), pair[1].clone()], "", &ty)
}

/// Returns the tangent of an extremum `y` of `x`: the mean of the tangents where `x` equals it, so
/// that ties share the gradient.
fn chosen_tangent(x: &Array, y: &Array, dx: &Array, axes: &[usize]) -> Array {
    let everywhere = broadcast_in_dim(y, x.shape(), &remaining_axes(x.rank(), axes));
    let chosen = convert_element_type(&eq(x, &everywhere), x.dtype());
    let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let count = super::reduce_sum(&chosen, &axes);
    div(super::reduce_sum(&mul(dx, &chosen), &axes), count)
}

/// Returns the tangent like [`chosen_tangent`]; zero for an empty axis.
fn extremum_tangent(x: &Array, y: &Array, dx: &Tangent, axes: &[usize]) -> Tangent {
    if axes.iter().any(|&axis| x.shape()[axis] == 0) {
        Tangent::zero_like(y)
    } else {
        dx.map(y.aval(), |dx| chosen_tangent(x, y, dx, axes))
    }
}

/// Largest element along axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, without the axes `axes`; NaN if there is one; the lowest value of the dtype over an empty axis; complex numbers by real, then imaginary part |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `maximum` |
/// | derivative | mean of the tangents of all elements that equal the result; zero over an empty axis, whose result is a constant |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceMax {
    /// The axes to reduce, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceMax {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![reduced(x, &self.axes)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let dy = extremum_tangent(x, &y, &tangents[0], &self.axes);
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceMax { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dtype = results[0].dtype;
        let initial = lowest(dtype).stablehlo(dtype);
        Ok(vec![lower_reduce(ctx, &operands[0], &self.axes, &initial, |ctx, pair| {
            choose(ctx, pair, "maximum", "GT")
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceMax {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the largest element of `x` along `axes`, which are removed. Negative axes count from the
/// back. Along an empty axis it is the lowest value of the dtype, whereas [`Array::max`] throws.
/// See [`ReduceMax`] for its rules.
/// [`ReduceMax`] for its rules.
#[track_caller]
pub fn reduce_max(x: &Array, axes: &[isize]) -> Array {
    bind1(ReduceMax { axes: resolve_axes("reduce_max", x, axes) }, [x])
}

/// Smallest element along axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, without the axes `axes`; NaN if there is one; the highest value of the dtype over an empty axis; complex numbers by real, then imaginary part |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `minimum` |
/// | derivative | mean of the tangents of all elements that equal the result; zero over an empty axis, whose result is a constant |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceMin {
    /// The axes to reduce, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceMin {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![reduced(x, &self.axes)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let dy = extremum_tangent(x, &y, &tangents[0], &self.axes);
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceMin { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dtype = results[0].dtype;
        let initial = highest(dtype).stablehlo(dtype);
        Ok(vec![lower_reduce(ctx, &operands[0], &self.axes, &initial, |ctx, pair| {
            choose(ctx, pair, "minimum", "LT")
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceMin {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the smallest element of `x` along `axes`, which are removed. Negative axes count from
/// the back. Along an empty axis it is the highest value of the dtype, whereas [`Array::min`]
/// throws. See [`ReduceMin`] for its rules.
/// [`ReduceMin`] for its rules.
#[track_caller]
pub fn reduce_min(x: &Array, axes: &[isize]) -> Array {
    bind1(ReduceMin { axes: resolve_axes("reduce_min", x, axes) }, [x])
}

/// Axes, operand, and true if the derivative exists there.
fn samples() -> Vec<(Vec<usize>, Sample, bool)> {
    let inf = f64::INFINITY;
    let ties = [1.0, 3.0, 3.0, 3.0, -2.0, -2.0];
    let edges = [f64::NAN, 1.0, inf, -inf, -0.0, 0.0];
    vec![
        (vec![1], Sample::uniform(DType::F32, [2, 3], -3.0, 3.0), true),
        (vec![0, 2], Sample::uniform(DType::F64, [2, 3, 4], -3.0, 3.0), true),
        (vec![0], Sample::uniform(DType::C64, [3, 2], -3.0, 3.0), false),
        // At ties the two one-sided derivatives differ.
        (vec![1], Sample::listed(DType::F32, [2, 3], &ties), false),
        (vec![1], Sample::listed(DType::F32, [3, 2], &edges), false),
        // Infinity has no finite differences.
        (vec![0], Sample::uniform(DType::BF16, [0, 2], 0.0, 1.0), false),
        (vec![0], Sample::listed(DType::I8, [3], &[-128.0, 5.0, 127.0]), true),
        (vec![0, 1], Sample::listed(DType::Bool, [2, 2], &[0.0, 1.0]), true),
        (vec![], Sample::uniform(DType::U32, [], 0.0, 9.0), true),
        (vec![0], Sample::listed(DType::F8E4M3FN, [3], &[-448.0, 2.0, 0.5]), false),
    ]
}

fn exemplar(reduce: impl Primitive, x: Sample, differentiable: bool) -> Exemplar {
    let exemplar = Exemplar::new(reduce, [x]);
    if differentiable { exemplar } else { exemplar.without_derivative() }
}

impl Registered for ReduceMax {
    const NAME: &'static str = "reduce_max";
    fn exemplars() -> Vec<Exemplar> {
        samples()
            .into_iter()
            .map(|(axes, x, smooth)| exemplar(ReduceMax { axes }, x, smooth))
            .collect()
    }
}

impl Registered for ReduceMin {
    const NAME: &'static str = "reduce_min";
    fn exemplars() -> Vec<Exemplar> {
        samples()
            .into_iter()
            .map(|(axes, x, smooth)| exemplar(ReduceMin { axes }, x, smooth))
            .collect()
    }
}
