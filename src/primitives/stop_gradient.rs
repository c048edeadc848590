//! The identity with zero derivative.

use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule, lower_identity,
};
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

impl Elementwise for StopGradient {
    const NAME: &'static str = "stop_gradient";
    const TYPE: TypeRule<StopGradient> = TypeRule::unary(Dtypes::Any);
    const DERIVATIVE: Derivative<StopGradient> = Derivative::Zero;
    const LOWERING: Lowering<StopGradient> = Lowering::Custom(lower_identity);
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
