//! Constraints on layouts.

use super::rules::{arity, batched, linear_jvp, one_cotangent};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Layout, LowerCtx, Operand,
    Primitive, Registered, RuleError, RuleResult, Sample, Tangent, bind1,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Constrains the layout of a value.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x` |
/// | lowering   | a custom call `LayoutConstraint` |
/// | derivative | linear; transposes to itself |
///
/// Source of the custom call: XLA's `layout_assignment.cc`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayoutConstraint {
    /// The layout of the value, without tiles.
    pub layout: Layout,
}

impl Primitive for LayoutConstraint {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        self.layout.check(x.rank())?;
        if !self.layout.tiling.is_empty() {
            return Err(RuleError::unsupported("constrains the order of axes, not the tiling")
                .help("leave `tiling` empty: the compiler chooses it"));
        }
        Ok(vec![x.clone()])
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
        let batch_axis = axes[0].unwrap_or(0);
        let shifted = |&axis: &usize| if axis < batch_axis { axis } else { axis + 1 };
        // The examples follow each other.
        let order =
            std::iter::once(batch_axis).chain(self.layout.major_to_minor.iter().map(shifted));
        let layout = Layout::new(order.collect::<Vec<_>>());
        Ok(batched(bind1(LayoutConstraint { layout }, [&operands[0]]), batch_axis))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let rank = results[0].rank();
        if rank < 2 {
            return Ok(operands.to_vec());
        }
        let list = |order: &mut dyn Iterator<Item = usize>| {
            let order: Vec<String> = order.map(|axis| axis.to_string()).collect();
            format!("[dense<[{}]> : tensor<{rank}xindex>]", order.join(", "))
        };
        let attributes = format!(
            "api_version = 1 : i32, call_target_name = \"LayoutConstraint\", operand_layouts = {}, \
             result_layouts = {}",
            list(&mut (0..rank).rev()),
            list(&mut self.layout.major_to_minor.iter().rev().copied()),
        );
        let ty = results[0].stablehlo();
        let constrain = |ctx: &mut LowerCtx<'_>, x: Value| {
            let ty = [x.ty().clone()];
            ctx.op_full("custom_call", &[x], &attributes, Vec::new(), &ty).swap_remove(0)
        };
        if ctx.platform() == "tpu" && results[0].dtype.is_complex() {
            // TPUs store complex numbers as two arrays.
            let part = Aval { dtype: results[0].dtype.real(), ..results[0].clone() };
            let parts = ["real", "imag"].map(|part_of| {
                let x = ctx.op_as(part_of, operands, "", &part.stablehlo());
                constrain(ctx, x)
            });
            return Ok(vec![ctx.op_as("complex", &parts, "", &ty)]);
        }
        Ok(vec![constrain(ctx, operands[0].clone())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(bind1(self.clone(), [one_cotangent(cts)?]).into())])
    }
}

/// Constrains the layout of `x`.
#[track_caller]
pub(crate) fn in_layout(x: &Array, layout: Layout) -> Array {
    bind1(LayoutConstraint { layout }, [x])
}

impl Registered for LayoutConstraint {
    const NAME: &'static str = "layout_constraint";
    fn exemplars() -> Vec<Exemplar> {
        let of = |order: &[usize], sample| {
            Exemplar::new(LayoutConstraint { layout: Layout::new(order) }, [sample])
        };
        vec![
            of(&[1, 0], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            of(&[2, 0, 1], Sample::uniform(DType::F64, [2, 3, 4], -1.0, 1.0)),
            of(&[], Sample::uniform(DType::F32, [], -1.0, 1.0)),
            of(&[0], Sample::uniform(DType::I32, [4], -9.0, 9.0)),
            of(&[1, 0], Sample::uniform(DType::F32, [0, 3], -1.0, 1.0)),
            of(&[1, 0], Sample::uniform(DType::C64, [1, 2], -1.0, 1.0)),
        ]
    }
}
