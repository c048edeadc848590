//! Products over windows.

use super::dims::Window;
use super::lowering::Monoid;
use super::plan::Plan;
use super::reduced;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Scalar, Shape, Tangent, bind1, trace,
};
use crate::ensure_dtype;
use crate::primitives::arithmetic::{add, mul};
use crate::primitives::constant::fill_of;
use crate::primitives::rules::{arity, batched, move_axis};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

const PROD: Monoid = Monoid {
    name: "reduce_window_prod",
    op: "multiply",
    combine: |x, y| mul(x, y),
    identity: |_| Scalar::Int(1),
    rounds: true,
};

/// Product over sliding windows.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | dtype of `x`; along each axis one element per window; padding counts as 1; integers wrap |
/// | lowering   | on CPU multiplications of neighbours by doubling, narrow floats in `f32`; elsewhere [`stablehlo.reduce_window`](https://openxla.org/stablehlo/spec#reduce_window) |
/// | derivative | products of pairs, `(x, dx)·(y, dy) = (x·y, dx·y + x·dy)`, over the windows; right where elements are zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceWindowProd {
    /// The windows.
    pub window: Window,
}

impl Primitive for ReduceWindowProd {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        ensure_dtype!(!x.dtype.is_bool(), "needs a numeric operand, got {}", x.dtype);
        Ok(vec![reduced(&self.window, x)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let plan = Plan::new(&self.window.axes(x.shape())?);
        let dy = tangents[0].map(y.aval(), |dx| {
            let fills =
                [1, 0].map(|n| fill_of(Scalar::Int(n), &x.aval().with_shape(Shape::scalar())));
            let product = |a: &[Array], b: &[Array]| {
                vec![mul(&a[0], &b[0]), add(mul(&a[1], &b[0]), mul(&a[0], &b[1]))]
            };
            plan.run(&[x.clone(), dx.clone()], &fills, &product).swap_remove(1)
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
        let window = self.window.with_front(&x.shape().remove(0))?;
        Ok(batched(bind1(ReduceWindowProd { window }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[0].ty().dims()))?;
        PROD.lower(ctx, &operands[0], &axes, &results[0])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = self.window.operations(&operands[0], results);
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the product of the elements of each window over `x`. See [`Window`], and
/// [`ReduceWindowProd`] for the rules.
/// [`ReduceWindowProd`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// let pairs = Window { dimensions: vec![2], ..Default::default() };
/// let x = Aval::new(DType::F32, [10]);
/// let y = eval_shape(move |x: Array| reduce_window_prod(&x, &pairs), x)?;
/// assert_eq!(y.aval().to_string(), "f32[9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn reduce_window_prod(x: &Array, window: &Window) -> Array {
    match window.resolved(x.shape()) {
        Ok(window) => bind1(ReduceWindowProd { window }, [x]),
        Err(error) => trace::throw_operands("reduce_window_prod", error, &[x]),
    }
}

impl Registered for ReduceWindowProd {
    const NAME: &'static str = "reduce_window_prod";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |window: Window, x: Sample| Exemplar::new(ReduceWindowProd { window }, [x]);
        let mut all: Vec<Exemplar> = super::sum::windows()
            .into_iter()
            .map(|(window, shape)| exemplar(window, Sample::uniform(DType::F32, shape, -2.0, 2.0)))
            .collect();
        let three = || Window { dimensions: vec![3], ..Window::default() };
        let edges = [2.0, f64::INFINITY, -2.0, 0.0, 3.0, f64::NAN, -0.0];
        // Infinities have no finite differences.
        all.push(exemplar(three(), Sample::listed(DType::F32, [7], &edges)).without_derivative());
        // The derivative is exact at zeros.
        all.push(exemplar(three(), Sample::listed(DType::F64, [5], &[2.0, 0.0, 3.0, 0.0, 5.0])));
        all.push(exemplar(three(), Sample::listed(DType::I8, [4], &[127.0, 3.0, -128.0, 5.0])));
        for dtype in [DType::C64, DType::BF16, DType::F16, DType::F8E5M2, DType::U4, DType::U32] {
            all.push(exemplar(three(), Sample::uniform(dtype, [5], 0.0, 3.0)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let window = Window { dimensions: vec![2], strides: vec![1, 1], ..Window::default() };
        expect![[r#"
            error[shape]: reduce_window_prod: strides has 2 entries, the operand 1 axes
              operand: f32[5]"#]]
        .assert_eq(&error_of(ReduceWindowProd { window }, [Aval::new(DType::F32, [5])]));
    }
}
