//! The identity that derivatives do not pass.

use super::rules::{arity, batch_elementwise, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    RuleResult, Sample, Tangent, bind1,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// The operand itself, as a constant to every derivative.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x` |
/// | lowering   | none: the value itself |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopGradient;

impl Primitive for StopGradient {
    fn name(&self) -> &'static str {
        "stop_gradient"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![x.clone()])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        _: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(operands.to_vec())
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
}

/// `x`, which derivatives take for a constant. See [`StopGradient`].
#[track_caller]
pub fn stop_gradient(x: &Array) -> Array {
    bind1(StopGradient, [x])
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let of = |sample| Exemplar::new(StopGradient, [sample]);
    vec![
        // Its derivative differs from that of the function it computes: that is its purpose.
        of(Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)).without_derivative(),
        of(Sample::uniform(DType::C64, [], -1.0, 1.0)).without_derivative(),
        of(Sample::uniform(DType::I32, [0], 0.0, 1.0)),
    ]
}
