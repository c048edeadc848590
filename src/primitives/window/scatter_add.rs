//! Scatters the cotangent of each window to its extremum.

use super::dims::{Window, WindowAxis};
use super::gather_add::{Extremum, SelectAndGatherAdd, ensure_selectable};
use super::lowering::padding_attribute;
use super::plan::Plan;
use super::reduced;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleError, RuleResult, Sample, Shape, Tangent, bind1,
};
use crate::primitives::composite::lower_as_function;
use crate::primitives::rules::{arity, batch_at_front, batched, element_dtype, one_cotangent};
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// Adds each element of `source` at the index of the extremum in its window over `operand`, the
/// first of equal elements. The transpose of [`SelectAndGatherAdd`].
///
/// | | |
/// |-|-|
/// | operands   | `source: {int, float, complex}`, one element per window; `operand: {bool, int, float}[…]` |
/// | result     | dtype of `source`, shape of `operand` |
/// | lowering   | comparisons of neighbours by doubling, and back; on TPU, for windows without dilation, [`stablehlo.select_and_scatter`](https://openxla.org/stablehlo/spec#select_and_scatter) |
/// | derivative | linear in `source`, transposes to [`SelectAndGatherAdd`]; zero in `operand` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SelectAndScatterAdd {
    /// The windows.
    pub window: Window,
    /// The chosen element of a window.
    pub extremum: Extremum,
}

impl Primitive for SelectAndScatterAdd {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [source, operand] = arity(operands)?;
        ensure_selectable(source, operand, &reduced(&self.window, operand)?.shape)?;
        Ok(vec![source.with_shape(&operand.shape)])
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
        let window = self.window.with_front(&operands[1].shape().remove(0))?;
        let scatter = SelectAndScatterAdd { window, ..self.clone() };
        Ok(batched(bind1(scatter, [&operands[0], &operands[1]]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let axes = self.window.axes(&Shape::new(operands[1].ty().dims()))?;
        let plain = |axis: &WindowAxis| {
            axis.base_dilation == 1 && axis.window_dilation == 1 && axis.low >= 0 && axis.high >= 0
        };
        let same = element_dtype(&operands[0]) == element_dtype(&operands[1]);
        // TPUs do not support windows over both of the axes that are innermost in memory.
        let minor = axes.iter().rev().take(2).filter(|axis| axis.window > 1).count();
        if ctx.platform() == "tpu" && same && minor < 2 && axes.iter().all(plain) {
            return Ok(vec![self.lower_natively(ctx, operands, &axes, &results[0])]);
        }
        let extremum = self.extremum;
        lower_as_function(ctx, self.name(), operands, |operands| {
            let (source, operand) = (&operands[0], &operands[1]);
            let plan = Plan::new(&axes);
            let choice =
                plan.choose(operand, &extremum.fill(operand.dtype()), |x, y| extremum.wins(x, y));
            vec![choice.scatter(source)]
        })
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = operands[0].size() as u64 * self.window.size();
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Linear(_), Operand::Known(operand)] = operands else {
            return Err(RuleError::not_linear("select_and_scatter_add"));
        };
        let gather = SelectAndGatherAdd { window: self.window.clone(), extremum: self.extremum };
        Ok(vec![Some(bind1(gather, [one_cotangent(cts)?, operand]).into()), None])
    }
}

impl SelectAndScatterAdd {
    fn lower_natively(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        axes: &[WindowAxis],
        result: &Aval,
    ) -> Value {
        let scalar = operands[1].ty().scalar();
        let pair = [scalar.clone(), scalar.clone()];
        let zero = ctx.constant(&crate::core::Scalar::Int(0).stablehlo(result.dtype), &scalar);
        let (outside, arguments) = ctx.open_region(&pair);
        let direction = format!(
            "comparison_direction = #stablehlo<comparison_direction {}>",
            self.extremum.direction()
        );
        let wins = ctx.op_as("compare", &arguments, &direction, &scalar.with_element("i1"));
        let select = ctx.close_region(outside, &[wins]);
        let (outside, arguments) = ctx.open_region(&pair);
        let sum = ctx.op("add", &arguments);
        let scatter = ctx.close_region(outside, &[sum]);
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}{}",
            i64_array(axes.iter().map(|axis| axis.window)),
            i64_array(axes.iter().map(|axis| axis.stride)),
            padding_attribute(axes)
        );
        let all = [operands[1].clone(), operands[0].clone(), zero];
        let types = [result.stablehlo()];
        let regions = vec![select, scatter];
        ctx.op_full("select_and_scatter", &all, &attributes, regions, &types).swap_remove(0)
    }
}

impl Registered for SelectAndScatterAdd {
    const NAME: &'static str = "select_and_scatter_add";
    fn exemplars() -> Vec<Exemplar> {
        let case = |(window, extremum, operand): (Window, Extremum, Sample)| {
            let dtype = if operand.aval.dtype.is_float() { operand.aval.dtype } else { DType::F32 };
            let positions =
                reduced(&window, &operand.aval).map(|aval| aval.shape).unwrap_or_default();
            let source = Sample::uniform(dtype, positions, -2.0, 2.0);
            let ties = operand.aval.dtype.is_float() && operand.aval.size() == 9;
            let exemplar =
                Exemplar::new(SelectAndScatterAdd { window, extremum }, [source, operand]);
            // Perturbations change which of several equal numbers is chosen.
            if ties { exemplar.without_derivative() } else { exemplar }
        };
        super::gather_add::samples().into_iter().map(case).collect()
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
        let scatter = SelectAndScatterAdd { window, extremum: Extremum::Max };
        let avals = [Aval::new(DType::F32, [5]), Aval::new(DType::F32, [5])];
        expect![[r#"
            error[shape]: select_and_scatter_add: what is moved must have shape [4], got [5]
              lhs: f32[5]
              rhs: f32[5]"#]]
        .assert_eq(&error_of(scatter, avals));
    }
}
