//! Sums over windows.

use super::dims::{Window, WindowAxis};
use super::lowering::Monoid;
use super::reduced;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Scalar, Shape, Tangent, bind1, trace,
};
use crate::ensure_dtype;
use crate::primitives::arithmetic::add;
use crate::primitives::rules::{arity, batched, linear_jvp, move_axis, one_cotangent};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

const SUM: Monoid = Monoid {
    name: "reduce_window_sum",
    op: "add",
    combine: |x, y| add(x, y),
    identity: |_| Scalar::Int(0),
    rounds: true,
};

/// Sum over sliding windows.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | dtype of `x`; along each axis one element per window; padding counts as 0; integers wrap |
/// | lowering   | on CPU additions of neighbours by doubling, narrow floats in `f32`; elsewhere [`stablehlo.reduce_window`](https://openxla.org/stablehlo/spec#reduce_window) |
/// | derivative | linear; transposes to a sum over windows with strides and base dilations exchanged |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceWindowSum {
    /// The windows.
    pub window: Window,
}

impl Primitive for ReduceWindowSum {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        ensure_dtype!(!x.dtype.is_bool(), "needs a numeric operand, got {}", x.dtype);
        Ok(vec![reduced(&self.window, x)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let window = self.window.with_front(&x.shape().remove(0))?;
        Ok(batched(bind1(ReduceWindowSum { window }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[0].ty().dims()))?;
        SUM.lower(ctx, &operands[0], &axes, &results[0])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = self.window.operations(&operands[0], results);
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let axes = self.window.axes(&operands[0].aval().shape)?;
        let window = Window::of(&axes.iter().map(WindowAxis::transposed).collect::<Vec<_>>());
        Ok(vec![Some(bind1(ReduceWindowSum { window }, [one_cotangent(cts)?]).into())])
    }
}

impl WindowAxis {
    /// Returns the windows of cotangents that hit each element of the operand.
    fn transposed(&self) -> WindowAxis {
        let span = self.span() as isize;
        let bare = super::dims::dilated(self.size, self.base_dilation) as isize;
        let cts = super::dims::dilated(self.windows, self.stride) as isize;
        let low = span - 1 - self.low;
        WindowAxis {
            size: self.windows,
            stride: self.base_dilation,
            low,
            high: bare + span - 1 - cts - low,
            base_dilation: self.stride,
            windows: self.size,
            ..*self
        }
    }
}

/// Returns the sum of the elements of each window over `x`. See [`Window`], and [`ReduceWindowSum`]
/// for the rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// // A moving sum of 3 numbers.
/// let three = Window { dimensions: vec![3], padding: Padding::Same, ..Default::default() };
/// let y = eval_shape(move |x: Array| reduce_window_sum(&x, &three), Aval::new(DType::F32, [10]))?;
/// assert_eq!(y.aval().to_string(), "f32[10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn reduce_window_sum(x: &Array, window: &Window) -> Array {
    match window.resolved(x.shape()) {
        Ok(window) => bind1(ReduceWindowSum { window }, [x]),
        Err(error) => trace::throw_operands("reduce_window_sum", error, &[x]),
    }
}

/// Windows of every kind, each with the shape of an operand.
pub(super) fn windows() -> Vec<(Window, Vec<usize>)> {
    use super::dims::Padding::{Explicit, Same, SameLower, Valid};
    let window = |dimensions: &[usize], strides: &[usize], padding| Window {
        dimensions: dimensions.to_vec(),
        strides: strides.to_vec(),
        padding,
        ..Window::default()
    };
    let dilated = |base: &[usize], by: &[usize], of: Window| Window {
        base_dilation: base.to_vec(),
        window_dilation: by.to_vec(),
        ..of
    };
    vec![
        (window(&[2, 3], &[], Valid), vec![3, 4]),
        (window(&[1, 3, 2], &[1, 2, 2], Same), vec![2, 5, 3]),
        (window(&[5], &[2], SameLower), vec![6]),
        (window(&[2, 2], &[1, 3], Explicit(vec![(-1, 2), (3, -1)])), vec![4, 3]),
        (
            dilated(&[2, 1], &[1, 2], window(&[3, 2], &[2, 1], Explicit(vec![(1, 0), (0, 1)]))),
            vec![3, 4],
        ),
        (dilated(&[3], &[2], window(&[3], &[2], Same)), vec![4]),
        // Windows of padding only, and windows larger than the operand.
        (window(&[1], &[], Explicit(vec![(2, 1)])), vec![2]),
        (window(&[4], &[], Valid), vec![3]),
        (window(&[2, 1], &[], Same), vec![1, 1]),
        (window(&[2, 2], &[], Same), vec![0, 3]),
        (window(&[2], &[], Explicit(vec![(1, 1)])), vec![0]),
        (window(&[], &[], Valid), vec![]),
    ]
}

impl Registered for ReduceWindowSum {
    const NAME: &'static str = "reduce_window_sum";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |window: Window, x: Sample| Exemplar::new(ReduceWindowSum { window }, [x]);
        let mut all: Vec<Exemplar> = windows()
            .into_iter()
            .map(|(window, shape)| exemplar(window, Sample::uniform(DType::F32, shape, -2.0, 2.0)))
            .collect();
        let three = || Window { dimensions: vec![3], ..Window::default() };
        let edges = [1.0, f64::INFINITY, 2.0, f64::NEG_INFINITY, 3.0, f64::NAN, -0.0, -0.0, -0.0];
        // Infinities have no finite differences.
        all.push(exemplar(three(), Sample::listed(DType::F32, [9], &edges)).without_derivative());
        all.push(exemplar(three(), Sample::listed(DType::I8, [4], &[127.0, 1.0, -128.0, 5.0])));
        all.push(exemplar(three(), Sample::listed(DType::U64, [4], &[1.8e19, 1e18, 1e18, 5.0])));
        for dtype in [DType::C64, DType::BF16, DType::F16, DType::F8E5M2, DType::I4, DType::I32] {
            all.push(exemplar(three(), Sample::uniform(dtype, [5], 0.0, 2.0)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    fn three() -> ReduceWindowSum {
        let window = Window {
            dimensions: vec![3],
            padding: super::super::Padding::Same,
            ..Window::default()
        };
        ReduceWindowSum { window }
    }

    #[test]
    fn lowering() {
        expect![[r#"
            func.func public @main(%0: tensor<5xf32>) -> (tensor<5xf32>) {
            %10 = "func.call"(%0) <{callee = @reduce_window_sum_0}> : (tensor<5xf32>) -> tensor<5xf32>
            "func.return"(%10) : (tensor<5xf32>) -> ()
            }
            func.func private @reduce_window_sum_0(%1: tensor<5xf32>) -> (tensor<5xf32>) {
            %2 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
            %3 = "stablehlo.pad"(%1, %2) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<5xf32>, tensor<f32>) -> tensor<7xf32>
            %4 = "stablehlo.slice"(%3) <{start_indices = array<i64: 0>, limit_indices = array<i64: 5>, strides = array<i64: 1>}> : (tensor<7xf32>) -> tensor<5xf32>
            %5 = "stablehlo.slice"(%3) <{start_indices = array<i64: 0>, limit_indices = array<i64: 6>, strides = array<i64: 1>}> : (tensor<7xf32>) -> tensor<6xf32>
            %6 = "stablehlo.slice"(%3) <{start_indices = array<i64: 1>, limit_indices = array<i64: 7>, strides = array<i64: 1>}> : (tensor<7xf32>) -> tensor<6xf32>
            %7 = "stablehlo.add"(%5, %6) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
            %8 = "stablehlo.slice"(%7) <{start_indices = array<i64: 1>, limit_indices = array<i64: 6>, strides = array<i64: 1>}> : (tensor<6xf32>) -> tensor<5xf32>
            %9 = "stablehlo.add"(%4, %8) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
            "func.return"(%9) : (tensor<5xf32>) -> ()
            }
        "#]].assert_eq(&module_of(three(), [Aval::new(DType::F32, [5])]));
    }

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[shape]: reduce_window_sum: dimensions has 1 entries, the operand 2 axes
              operand: f32[5,2]"#]]
        .assert_eq(&error_of(three(), [Aval::new(DType::F32, [5, 2])]));
        expect![[r#"
            error[dtype]: reduce_window_sum: needs a numeric operand, got bool
              operand: bool[5]"#]]
        .assert_eq(&error_of(three(), [Aval::new(DType::Bool, [5])]));
        let none = Window { dimensions: vec![0], ..Window::default() };
        let none = ReduceWindowSum { window: none };
        expect![[r#"
            error[shape]: reduce_window_sum: dimensions [0] must be positive
              operand: f32[5]"#]]
        .assert_eq(&error_of(none, [Aval::new(DType::F32, [5])]));
    }
}
