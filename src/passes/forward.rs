//! Replaces results that a condition or a loop only passes on by the operand that they equal.

use crate::core::{Eqn, Program, Var};

/// Returns the program without uses of such results. Dead code elimination then removes them.
pub(crate) fn forward(program: &Program) -> Program {
    let mut same: Vec<Var> = (0..program.avals().len() as Var).collect();
    let mut eqns: Vec<Eqn> = Vec::with_capacity(program.eqns().len());
    for eqn in program.eqns() {
        let operands = eqn.operands.iter().map(|&var| same[var as usize]).collect();
        let eqn = Eqn { operands, ..eqn.clone() };
        let forwarded = eqn.primitive.as_higher_order().map(|holder| holder.forwarded());
        for (result, operand) in forwarded.unwrap_or_default().into_iter().enumerate() {
            let Some(operand) = operand.map(|operand| eqn.operands[operand]) else { continue };
            let result = eqn.results[result];
            if program.aval(result) == program.aval(operand) {
                same[result as usize] = operand;
            }
        }
        eqns.push(eqn);
    }
    let outputs: Vec<Var> = program.outputs().iter().map(|&var| same[var as usize]).collect();
    Program::new(program.avals(), program.inputs(), eqns, &outputs)
}
