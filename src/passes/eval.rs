//! Evaluation: binds a program's equations again, one by one, under whatever trace is current.

use crate::core::{Array, Program, Var, trace};

/// The program applied to `arguments`: recorded into the current trace, or run operation by
/// operation at the top level.
pub(crate) fn eval(program: &Program, arguments: &[Array]) -> Vec<Array> {
    let mut env: Vec<Option<Array>> = vec![None; program.avals().len()];
    for (&var, array) in program.inputs().iter().zip(arguments) {
        env[var as usize] = Some(array.clone());
    }
    for eqn in program.eqns() {
        let operands: Vec<&Array> = eqn.operands.iter().map(|&var| read(&env, var)).collect();
        let results = trace::at_location(eqn.location, || {
            trace::bind_at(&eqn.primitive, &operands, eqn.location)
        });
        for (&var, result) in eqn.results.iter().zip(results) {
            env[var as usize] = Some(result);
        }
    }
    program.outputs().iter().map(|&var| read(&env, var).clone()).collect()
}

fn read(env: &[Option<Array>], var: Var) -> &Array {
    env[var as usize].as_ref().expect("operands are defined before they are used")
}
