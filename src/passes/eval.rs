//! Evaluation: binds a program's equations again, one by one, under whatever trace is current.

use crate::core::{Array, Eqn, Program, trace};

/// The program applied to `arguments`: recorded into the current trace, or run operation by
/// operation at the top level.
pub(crate) fn eval(program: &Program, arguments: &[Array]) -> Vec<Array> {
    program.interpret(arguments.iter().cloned(), bind)
}

/// The same with the programs of its calls in their place, and those of the calls in them.
pub(crate) fn eval_flat(program: &Program, arguments: &[Array]) -> Vec<Array> {
    program.interpret(arguments.iter().cloned(), |eqn, operands| match inlined(eqn) {
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
    eqn.loc.scope(|| trace::bind_at(&eqn.primitive, operands, eqn.loc))
}
