//! Gathers the tangent of the extremum of each window.

use super::dims::Window;
use super::plan::Plan;
use super::{SelectAndScatterAdd, reduced};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleError, RuleResult, Sample, Scalar, Shape, Tangent, bind1,
};
use crate::primitives::comparison::{ge, le};
use crate::primitives::composite::lower_as_function;
use crate::primitives::constant::fill_of;
use crate::primitives::reduce::{highest, lowest};
use crate::primitives::rules::{arity, batch_at_front, batched, one_cotangent};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// The extremum of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Extremum {
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

impl Extremum {
    /// Returns true where elements of the first array are preferred over those of the second.
    pub(super) fn wins(self, x: &Array, y: &Array) -> Array {
        match self {
            Extremum::Max => ge(x, y),
            Extremum::Min => le(x, y),
        }
    }

    /// Returns the comparison direction of `stablehlo.compare`.
    pub(super) fn direction(self) -> &'static str {
        match self {
            Extremum::Max => "GE",
            Extremum::Min => "LE",
        }
    }

    /// Returns the value that is preferred over no other.
    pub(super) fn identity(self, dtype: DType) -> Scalar {
        match self {
            Extremum::Max => lowest(dtype),
            Extremum::Min => highest(dtype),
        }
    }

    pub(super) fn fill(self, dtype: DType) -> Array {
        fill_of(self.identity(dtype), &Aval::new(dtype, Shape::scalar()))
    }
}

/// Rejects tangents whose shape differs from that of the operand, and operands without an order.
pub(super) fn ensure_selectable(tangent: &Aval, operand: &Aval, shape: &Shape) -> RuleResult<()> {
    ensure_dtype!(operand.dtype.is_real(), "needs an operand with an order, got {}", operand.dtype);
    ensure_shape!(
        tangent.shape == *shape,
        "what is moved must have shape {shape}, got {}",
        tangent.shape
    );
    Ok(())
}

/// Gathers, from each window over `operand`, the element of `tangents` at the index of the
/// extremum, the first of equal elements; zero where padding is the extremum. It computes the
/// tangent of [`ReduceWindowMax`] and [`ReduceWindowMin`].
/// [`ReduceWindowMin`].
///
/// | | |
/// |-|-|
/// | operands   | `tangents: {int, float, complex}[…]`, `operand: {bool, int, float}[…]`, of one shape |
/// | result     | dtype of `tangents`; along each axis one element per window |
/// | lowering   | comparisons and selections of neighbours by doubling |
/// | derivative | linear in `tangents`, transposes to [`SelectAndScatterAdd`]; zero in `operand` |
///
/// [`ReduceWindowMax`]: super::ReduceWindowMax
/// [`ReduceWindowMin`]: super::ReduceWindowMin
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SelectAndGatherAdd {
    /// The windows.
    pub window: Window,
    /// The chosen element of a window.
    pub extremum: Extremum,
}

impl Primitive for SelectAndGatherAdd {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [tangents, operand] = arity(operands)?;
        ensure_selectable(tangents, operand, &operand.shape)?;
        Ok(vec![reduced(&self.window, tangents)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let y = bind1(self.clone(), [&primals[0], &primals[1]]);
        let dy = tangents[0].map(y.aval(), |dx| bind1(self.clone(), [dx, &primals[1]]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let operands = batch_at_front(operands, axes, axis);
        let window = self.window.with_front(&operands[0].shape().remove(0))?;
        let gather = SelectAndGatherAdd { window, ..self.clone() };
        Ok(batched(bind1(gather, [&operands[0], &operands[1]]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[0].ty().dims()))?;
        let extremum = self.extremum;
        lower_as_function(ctx, self.name(), operands, |operands| {
            let (tangents, operand) = (&operands[0], &operands[1]);
            let plan = Plan::new(&axes);
            let choice =
                plan.choose(operand, &extremum.fill(operand.dtype()), |x, y| extremum.wins(x, y));
            vec![choice.gather(tangents)]
        })
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = results[0].size() as u64 * self.window.size();
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Linear(_), Operand::Known(operand)] = operands else {
            return Err(RuleError::not_linear("select_and_gather_add"));
        };
        let scatter = SelectAndScatterAdd { window: self.window.clone(), extremum: self.extremum };
        Ok(vec![Some(bind1(scatter, [one_cotangent(cts)?, operand]).into()), None])
    }
}

/// Windows with an extremum, and the searched sample. The function is linear in the other operand
/// only.
pub(super) fn samples() -> Vec<(Window, Extremum, Sample)> {
    let mut all: Vec<(Window, Extremum, Sample)> = super::sum::windows()
        .into_iter()
        .enumerate()
        .map(|(index, (window, shape))| {
            let extremum = if index % 2 == 0 { Extremum::Max } else { Extremum::Min };
            // Integers with ties: they are searched, but not differentiated.
            (window, extremum, Sample::uniform(DType::I32, shape, -3.0, 3.0))
        })
        .collect();
    let three = || Window { dimensions: vec![3], ..Window::default() };
    let edges = [1.0, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2.0, 2.0, 2.0];
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        all.push((three(), Extremum::Max, Sample::listed(dtype, [9], &edges)));
    }
    let distinct = Sample::listed(DType::F64, [6], &[1.0, 4.0, -2.0, 3.0, 0.0, 2.0]);
    all.push((three(), Extremum::Min, distinct));
    all
}

impl Registered for SelectAndGatherAdd {
    const NAME: &'static str = "select_and_gather_add";
    fn exemplars() -> Vec<Exemplar> {
        let case = |(window, extremum, operand): (Window, Extremum, Sample)| {
            let dtype = if operand.aval.dtype.is_float() { operand.aval.dtype } else { DType::F32 };
            let tangents = Sample::uniform(dtype, &operand.aval.shape, -2.0, 2.0);
            let ties = operand.aval.dtype.is_float() && operand.aval.size() == 9;
            let exemplar =
                Exemplar::new(SelectAndGatherAdd { window, extremum }, [tangents, operand]);
            // Perturbations change which of several equal numbers is chosen.
            if ties { exemplar.without_derivative() } else { exemplar }
        };
        samples().into_iter().map(case).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let window = Window { dimensions: vec![2], ..Window::default() };
        let gather = SelectAndGatherAdd { window, extremum: Extremum::Max };
        let avals = [Aval::new(DType::F32, [4]), Aval::new(DType::F32, [5])];
        expect![[r#"
            error[shape]: select_and_gather_add: what is moved must have shape [5], got [4]
              lhs: f32[4]
              rhs: f32[5]"#]]
        .assert_eq(&error_of(gather, avals));
    }
}
