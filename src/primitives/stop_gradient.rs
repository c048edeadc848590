//! The identity with zero derivative.

use super::rules::arity;
use crate::core::{Array, Aval, DType, Exemplar, LowerCtx, RuleResult, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::elementwise::{CostRule, Derivative, Elementwise, Lowering, TypeRule};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns its operand, which every derivative treats as a constant.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x` |
/// | lowering   | none: the value itself |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopGradient;

impl StopGradient {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![x.clone()])
    }
    fn lower(
        &self,
        _: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(operands.to_vec())
    }
}

impl Elementwise for StopGradient {
    const NAME: &'static str = "stop_gradient";
    const TYPE: TypeRule<StopGradient> = TypeRule::Custom(StopGradient::abstract_eval);
    const DERIVATIVE: Derivative<StopGradient> = Derivative::Zero;
    const LOWERING: Lowering<StopGradient> = Lowering::Custom(StopGradient::lower);
    const COST: CostRule<StopGradient> = CostRule::Movement;
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |sample| Exemplar::new(StopGradient, [sample]);
        vec![
            // By design its derivative differs from finite differences.
            exemplar(Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)).without_derivative(),
            exemplar(Sample::uniform(DType::C64, [], -1.0, 1.0)).without_derivative(),
            exemplar(Sample::uniform(DType::I32, [0], 0.0, 1.0)),
        ]
    }
}

/// Returns `x`, which derivatives treat as a constant. See [`StopGradient`] for its rules.
#[track_caller]
pub fn stop_gradient(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(StopGradient, [x])
}
