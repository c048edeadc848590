//! Extrema over windows.

use super::dims::Window;
use super::gather_add::{Extremum, SelectAndGatherAdd};
use super::lowering::Monoid;
use super::reduced;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Shape, Tangent, bind1, trace,
};
use crate::ensure_dtype;
use crate::primitives::arithmetic::{maximum, minimum};
use crate::primitives::reduce::{highest, lowest};
use crate::primitives::rules::{arity, batched, move_axis};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

const MAX: Monoid = Monoid {
    name: "reduce_window_max",
    op: "maximum",
    combine: |x, y| maximum(x, y),
    identity: lowest,
    rounds: false,
};

const MIN: Monoid = Monoid {
    name: "reduce_window_min",
    op: "minimum",
    combine: |x, y| minimum(x, y),
    identity: highest,
    rounds: false,
};

fn reduced_real(window: &Window, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
    let [x] = arity(operands)?;
    ensure_dtype!(x.dtype.is_real(), "needs an operand with an order, got {}", x.dtype);
    Ok(vec![reduced(window, x)?])
}

/// Largest element in sliding windows.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int, float}[…]` |
/// | result     | dtype of `x`; along each axis one element per window; NaN if there is one; padding counts as the lowest value of the dtype |
/// | lowering   | on CPU largest of neighbours by doubling; elsewhere [`stablehlo.reduce_window`](https://openxla.org/stablehlo/spec#reduce_window) |
/// | derivative | the tangent of the largest element, the first of equals: [`SelectAndGatherAdd`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceWindowMax {
    /// The windows.
    pub window: Window,
}

impl Primitive for ReduceWindowMax {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        reduced_real(&self.window, operands)
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let gather = SelectAndGatherAdd { window: self.window.clone(), extremum: Extremum::Max };
        let dy = tangents[0].map(y.aval(), |dx| bind1(gather, [dx, x]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let window = self.window.with_front(&x.shape().remove(0))?;
        Ok(batched(bind1(ReduceWindowMax { window }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[0].ty().dims()))?;
        MAX.lower(ctx, &operands[0], &axes, &results[0])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = self.window.operations(&operands[0], results);
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the largest element in each window over `x`. See [`Window`], and [`ReduceWindowMax`] for
/// the rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// let three = Window { dimensions: vec![3], strides: vec![2], ..Default::default() };
/// let y = eval_shape(move |x: Array| reduce_window_max(&x, &three), Aval::new(DType::F32, [9]))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn reduce_window_max(x: &Array, window: &Window) -> Array {
    match window.resolved(x.shape()) {
        Ok(window) => bind1(ReduceWindowMax { window }, [x]),
        Err(error) => trace::throw_operands("reduce_window_max", error, &[x]),
    }
}

/// Smallest element in sliding windows.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int, float}[…]` |
/// | result     | dtype of `x`; along each axis one element per window; NaN if there is one; padding counts as the highest value of the dtype |
/// | lowering   | on CPU smallest of neighbours by doubling; elsewhere [`stablehlo.reduce_window`](https://openxla.org/stablehlo/spec#reduce_window) |
/// | derivative | the tangent of the smallest element, the first of equals: [`SelectAndGatherAdd`] |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceWindowMin {
    /// The windows.
    pub window: Window,
}

impl Primitive for ReduceWindowMin {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        reduced_real(&self.window, operands)
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let gather = SelectAndGatherAdd { window: self.window.clone(), extremum: Extremum::Min };
        let dy = tangents[0].map(y.aval(), |dx| bind1(gather, [dx, x]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let window = self.window.with_front(&x.shape().remove(0))?;
        Ok(batched(bind1(ReduceWindowMin { window }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[0].ty().dims()))?;
        MIN.lower(ctx, &operands[0], &axes, &results[0])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = self.window.operations(&operands[0], results);
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the smallest element in each window over `x`. See [`Window`], and [`ReduceWindowMin`]
/// for the rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// let three = Window { dimensions: vec![3], strides: vec![2], ..Default::default() };
/// let y = eval_shape(move |x: Array| reduce_window_min(&x, &three), Aval::new(DType::F32, [9]))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn reduce_window_min(x: &Array, window: &Window) -> Array {
    match window.resolved(x.shape()) {
        Ok(window) => bind1(ReduceWindowMin { window }, [x]),
        Err(error) => trace::throw_operands("reduce_window_min", error, &[x]),
    }
}

/// Windows, operands, and true if the derivative exists there.
fn samples() -> Vec<(Window, Sample, bool)> {
    let mut all: Vec<(Window, Sample, bool)> = super::sum::windows()
        .into_iter()
        .map(|(window, shape)| {
            let x = Sample::uniform(DType::F32, &shape, -2.0, 2.0);
            // A window of padding has an infinite value, which has no finite differences.
            let axes = window.axes(&Shape::from(shape)).unwrap_or_default();
            let inside = axes.iter().all(|axis| axis.low < axis.span() as isize && axis.size > 0);
            (window, x, inside)
        })
        .collect();
    let three = || Window { dimensions: vec![3], ..Window::default() };
    let edges = [1.0, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2.0, 2.0, 2.0];
    all.push((three(), Sample::listed(DType::F32, [9], &edges), false));
    // At ties the two one-sided derivatives differ.
    all.push((three(), Sample::listed(DType::F64, [5], &[1.0, 1.0, 0.0, 1.0, 1.0]), false));
    all.push((three(), Sample::listed(DType::I8, [4], &[127.0, 3.0, -128.0, 5.0]), true));
    all.push((three(), Sample::listed(DType::Bool, [4], &[0.0, 1.0, 0.0, 0.0]), true));
    for dtype in [DType::BF16, DType::F16, DType::F8E4M3FN, DType::U4, DType::U32, DType::I64] {
        all.push((three(), Sample::uniform(dtype, [5], 0.0, 3.0), false));
    }
    all
}

fn exemplar(reduce: impl Primitive, x: Sample, differentiable: bool) -> Exemplar {
    let exemplar = Exemplar::new(reduce, [x]);
    if differentiable { exemplar } else { exemplar.without_derivative() }
}

impl Registered for ReduceWindowMax {
    const NAME: &'static str = "reduce_window_max";
    fn exemplars() -> Vec<Exemplar> {
        let case = |(window, x, smooth)| exemplar(ReduceWindowMax { window }, x, smooth);
        samples().into_iter().map(case).collect()
    }
}

impl Registered for ReduceWindowMin {
    const NAME: &'static str = "reduce_window_min";
    fn exemplars() -> Vec<Exemplar> {
        let case = |(window, x, smooth)| exemplar(ReduceWindowMin { window }, x, smooth);
        samples().into_iter().map(case).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Padding;
    use super::*;
    use crate::core::LowerCtx;
    use crate::core::trace::{Mode, Tracing};
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    fn two() -> Window {
        let padding = Padding::Explicit(vec![(0, 1), (0, 0)]);
        Window { dimensions: vec![2, 3], strides: vec![1, 2], padding, ..Window::default() }
    }

    #[test]
    fn accelerators_use_reduce_window() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let y = reduce_window_max(&tracing.input(Aval::new(DType::F32, [4, 5])), &two());
        let (program, _) = tracing.finish(&[y]);
        let mut ctx = LowerCtx::new("tpu");
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        let ops = text.lines().filter(|line| line.contains("\"stablehlo.") || line.contains("})"));
        let ops: String = ops
            .map(|line| line.trim().split(" loc(#").next().unwrap_or(line).to_string() + "\n")
            .collect();
        expect![[r#"
            %1 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
            %5 = "stablehlo.reduce_window"(%0, %1) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}> ({
            %4 = "stablehlo.maximum"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            "stablehlo.return"(%4) : (tensor<f32>) -> ()
            }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x2xf32>
        "#]].assert_eq(&ops);
    }

    #[test]
    fn rejects_invalid_operands() {
        let window = ReduceWindowMin { window: two() };
        expect![[r#"
            error[dtype]: reduce_window_min: needs an operand with an order, got c64
              operand: c64[4,5]"#]]
        .assert_eq(&error_of(window, [Aval::new(DType::C64, [4, 5])]));
    }
}
