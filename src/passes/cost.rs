//! [`cost`]: the cost of a program.

use crate::core::{Cost, Program};

/// Returns the sum of the costs of a program's equations. Arithmetic is exact. Bytes assume that
/// the compiler fuses nothing.
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
