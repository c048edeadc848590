//! The cost of a whole program.

use crate::core::{Cost, Program};

/// The sum of the costs of a program's equations: arithmetic exactly, bytes as if nothing fused.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| &x + &x, Aval::new(DType::F32, [8]))?;
/// assert_eq!(oxidax::passes::cost(&program).flops, 8);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn cost(program: &Program) -> Cost {
    program.eqns().iter().fold(Cost::default(), |total, eqn| {
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        total + eqn.primitive.cost(&operands, &results)
    })
}
