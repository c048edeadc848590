//! The cost of a whole program.

use crate::core::{Aval, Cost, Program};

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
        let avals = |vars: &[u32]| -> Vec<Aval> {
            vars.iter().map(|&var| program.aval(var).clone()).collect()
        };
        total + eqn.primitive.cost(&avals(&eqn.operands), &avals(&eqn.results))
    })
}
