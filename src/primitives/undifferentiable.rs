//! The identity whose derivative is an error.

use crate::core::{Array, DType, Exemplar, JvpResult, RuleError, Sample, Tangent};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule, lower_identity,
};
use serde::{Deserialize, Serialize};

/// Returns its operand, which derivatives refuse: an argument of a function whose derivative is not
/// known.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | `x` |
/// | lowering   | none: the value itself |
/// | derivative | an error |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Undifferentiable {
    /// The function.
    pub function: String,
    /// The remedy, for the error.
    pub help: String,
}

impl Undifferentiable {
    fn jvp(&self, _: &[Array], _: &[Tangent]) -> JvpResult {
        let message = format!("`{}` has no derivative", self.function);
        Err(RuleError::unsupported(message).help(self.help.clone()))
    }
}

impl Elementwise for Undifferentiable {
    const NAME: &'static str = "undifferentiable";
    const TYPE: TypeRule<Undifferentiable> = TypeRule::unary(Dtypes::Any);
    const DERIVATIVE: Derivative<Undifferentiable> = Derivative::Custom(Undifferentiable::jvp);
    const LOWERING: Lowering<Undifferentiable> = Lowering::Custom(lower_identity);
    const COST: CostRule<Undifferentiable> = CostRule::Movement;
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |sample| {
            let (function, help) = ("predict".to_owned(), "export its derivative".to_owned());
            Exemplar::new(Undifferentiable { function, help }, [sample])
        };
        vec![
            // By design it has no derivative.
            exemplar(Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)).without_derivative(),
            exemplar(Sample::uniform(DType::I32, [0], 0.0, 1.0)).without_derivative(),
        ]
    }
}

/// Returns `x`, which derivatives refuse. See [`Undifferentiable`] for its rules.
#[cfg(feature = "import")]
#[track_caller]
pub(crate) fn undifferentiable(x: &Array, function: &str, help: &str) -> Array {
    let (function, help) = (function.to_owned(), help.to_owned());
    crate::core::bind1(Undifferentiable { function, help }, [x])
}
