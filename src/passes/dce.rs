//! Dead code elimination.

use crate::core::{Effects, Program};

/// The program without equations whose results nobody uses and which have no side effect. Inputs
/// stay, used or not.
pub fn dce(program: &Program) -> Program {
    let mut live = vec![false; program.avals().len()];
    for &var in program.outputs() {
        live[var as usize] = true;
    }
    let mut kept = Vec::with_capacity(program.eqns().len());
    for eqn in program.eqns().iter().rev() {
        let used = eqn.results.iter().any(|&var| live[var as usize]);
        if used || eqn.primitive.effects() != Effects::None {
            for &var in &eqn.operands {
                live[var as usize] = true;
            }
            kept.push(eqn.clone());
        }
    }
    kept.reverse();
    Program::new(program.avals(), program.inputs(), kept, program.outputs())
}
