//! The index of an example along a named axis.

use super::unbound_axes;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Spmd, Tangent, Varying, bind1,
};
use crate::primitives::iota::iota;
use crate::primitives::rules::{arity, batched, zero_jvp};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns the index of the example along a named axis.
///
/// | | |
/// |-|-|
/// | operands   | none |
/// | result     | `i32[]`, from 0 to the axis's size less one |
/// | lowering   | from the number of the partition; for `vmap` the numbers from 0 along the batch axis |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AxisIndex {
    /// The name of the axis.
    pub axis_name: String,
    /// The axis is a mesh axis over which types track variation.
    #[serde(default)]
    pub tracked: bool,
}

impl Primitive for AxisIndex {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        arity::<0>(operands)?;
        Ok(vec![Aval::new(DType::I32, [])])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(&self, _: &[Array], _: &[Option<usize>], axis: &BatchAxis) -> RuleResult<Batched> {
        if !axis.is_named(&self.axis_name) {
            return Ok(Batched { outputs: vec![bind1(self.clone(), [])], axes: vec![None] });
        }
        Ok(batched(iota(DType::I32, axis.size), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        _: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        match ctx.position_along(&self.axis_name) {
            Some(position) => {
                Ok(vec![ctx.op_as("convert", &[position], "", &results[0].stablehlo())])
            }
            None => unbound_axes(self.name(), std::slice::from_ref(&self.axis_name)),
        }
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for AxisIndex {
    fn result_varying(&self, _: &[Aval], _: &[Aval]) -> Option<Vec<Varying>> {
        let varying = if self.tracked { Varying::over([&self.axis_name]) } else { Varying::NONE };
        Some(vec![varying])
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(vec![self.axis_name.clone()])
    }
}

impl Registered for AxisIndex {
    const NAME: &'static str = "axis_index";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |name: &str| {
            Exemplar::new(AxisIndex { axis_name: name.into(), tracked: false }, [])
                .along([("i", 3), ("j", 2)])
        };
        vec![exemplar("i"), exemplar("j")]
    }
}
