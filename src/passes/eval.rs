//! Evaluation: binds a program's equations again, one by one, under whatever trace is current.

use crate::core::{Array, Eqn, Program, Var, trace};

/// The program applied to `arguments`: recorded into the current trace, or run operation by
/// operation at the top level.
pub(crate) fn eval(program: &Program, arguments: &[Array]) -> Vec<Array> {
    eval_by(program, arguments, &|eqn, operands| bind(eqn, operands))
}

/// The same with the programs of its calls in their place, and those of the calls in them.
pub(crate) fn eval_flat(program: &Program, arguments: &[Array]) -> Vec<Array> {
    eval_by(program, arguments, &|eqn, operands| match inlined(eqn) {
        Some(inner) => {
            let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
            eval_flat(inner, &operands)
        }
        None => bind(eqn, operands),
    })
}

/// The program that an equation stands for, if it is no more than a call.
pub(crate) fn inlined(eqn: &Eqn) -> Option<&Program> {
    eqn.primitive.as_higher_order().and_then(|holder| holder.inlined())
}

/// Binds an equation's primitive again, for the equation's own line.
pub(crate) fn bind(eqn: &Eqn, operands: &[&Array]) -> Vec<Array> {
    trace::at_location(eqn.location, || trace::bind_at(&eqn.primitive, operands, eqn.location))
}

fn eval_by(
    program: &Program,
    arguments: &[Array],
    apply: &dyn Fn(&Eqn, &[&Array]) -> Vec<Array>,
) -> Vec<Array> {
    let mut env: Vec<Option<Array>> = vec![None; program.avals().len()];
    for (&var, array) in program.inputs().iter().zip(arguments) {
        env[var as usize] = Some(array.clone());
    }
    for eqn in program.eqns() {
        let operands: Vec<&Array> = eqn.operands.iter().map(|&var| read(&env, var)).collect();
        let results = apply(eqn, &operands);
        for (&var, result) in eqn.results.iter().zip(results) {
            env[var as usize] = Some(result);
        }
    }
    program.outputs().iter().map(|&var| read(&env, var).clone()).collect()
}

fn read(env: &[Option<Array>], var: Var) -> &Array {
    env[var as usize].as_ref().expect("operands are defined before they are used")
}
