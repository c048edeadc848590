//! Reductions along axes.

use super::rules::{
    arity, batched, linear_jvp, move_axis, one_cotangent, resolve_axis, without_axes,
};
use super::shape::broadcast_in_dim;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, LowerCtx, Operand, Primitive, Rule,
    Sample, Shape, Tangent, bind1, trace,
};
use crate::ensure_shape;
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// The aval left after reducing `axes`, which must be sorted, distinct and in range.
fn reduced(x: &Aval, axes: &[usize]) -> Rule<Aval> {
    ensure_shape!(
        axes.windows(2).all(|pair| pair[0] < pair[1]) && axes.iter().all(|&axis| axis < x.rank()),
        "axes {axes:?} must increase and lie below the rank {} of {x}",
        x.rank()
    );
    Ok(x.with_shape(without_axes(&x.shape, axes)))
}

/// Writes a `stablehlo.reduce` whose body is one binary operation.
fn lower_reduce(
    ctx: &mut LowerCtx<'_>,
    x: &Value,
    axes: &[usize],
    body: &str,
    initial: &str,
) -> Value {
    let scalar = x.ty().scalar();
    let initial = ctx.constant(initial, &scalar);
    let (outside, arguments) = ctx.open_region(&[scalar.clone(), scalar]);
    let result = ctx.op(body, &arguments);
    let region = ctx.close_region(outside, &[result]);
    let dims = without_axes(&Shape::new(x.ty().dims()), axes);
    let result = x.ty().with_dims(&dims);
    let dimensions = format!("dimensions = {}", i64_array(axes));
    ctx.op_full("reduce", &[x.clone(), initial], &dimensions, vec![region], &[result])
        .swap_remove(0)
}

/// The axes to reduce under `vmap`, with the batch axis in front.
fn shifted(axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|axis| axis + 1).collect()
}

/// Sorts and checks axes given by a user; all axes if the list is empty is the caller's business.
#[track_caller]
pub(crate) fn resolve_axes(name: &str, x: &Array, axes: &[isize]) -> Vec<usize> {
    let resolved: Rule<Vec<usize>> =
        axes.iter().map(|&axis| resolve_axis(axis, x.rank())).collect();
    match resolved {
        Ok(mut resolved) => {
            resolved.sort_unstable();
            resolved
        }
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Sum along axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | dtype of `x`, without the axes `axes`; 0 over an empty axis |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `add` |
/// | derivative | linear; transposes to a broadcast |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceSum {
    /// The axes to sum over, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceSum {
    fn name(&self) -> &'static str {
        "reduce_sum"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> Rule<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![reduced(x, &self.axes)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> Rule<(Vec<Array>, Vec<Tangent>)> {
        linear_jvp(self, primals, tangents)
    }
    fn batch(&self, operands: &[Array], axes: &[Option<usize>], _: &BatchAxis) -> Rule<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceSum { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(&self, ctx: &mut LowerCtx<'_>, operands: &[Value], _: &[Aval]) -> Rule<Vec<Value>> {
        let zero = match operands[0].ty().element() {
            "i1" => "false",
            element if element.starts_with("complex") => "(0.0, 0.0)",
            element if element.starts_with(['i', 'u']) => "0",
            _ => "0.0",
        };
        Ok(vec![lower_reduce(ctx, &operands[0], &self.axes, "add", zero)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> Rule<Vec<Option<Tangent>>> {
        let shape = &operands[0].aval().shape;
        let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !self.axes.contains(axis)).collect();
        Ok(vec![Some(broadcast_in_dim(one_cotangent(cts)?, shape, &kept).into())])
    }
}

/// Sum of `x` along `axes` (negative ones count from the back), which disappear. No axes, no sum.
/// See [`ReduceSum`] for its rules.
#[track_caller]
pub fn reduce_sum(x: &Array, axes: &[isize]) -> Array {
    let axes = resolve_axes("reduce_sum", x, axes);
    match axes.is_empty() {
        true => x.clone(),
        false => bind1(ReduceSum { axes }, [x]),
    }
}

pub(super) fn exemplars_sum() -> Vec<Exemplar> {
    let over = |axes: &[usize], sample| Exemplar::new(ReduceSum { axes: axes.to_vec() }, [sample]);
    vec![
        over(&[0], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
        over(&[0, 2], Sample::uniform(DType::F64, [2, 3, 4], -1.0, 1.0)),
        over(&[1], Sample::uniform(DType::F32, [2, 0], -1.0, 1.0)),
        over(&[0], Sample::listed(DType::U8, [3], &[200.0, 100.0, 1.0])),
        over(&[], Sample::uniform(DType::C64, [], -1.0, 1.0)),
    ]
}
