//! Evaluation: binds a program's equations one by one under the current trace.

use crate::core::{Array, Eqn, Program, trace};

/// Applies the program to `arguments`. Records it in the current trace, or runs it operation by
/// operation outside of any trace.
pub(crate) fn eval(program: &Program, arguments: &[Array]) -> Vec<Array> {
    program.interpret(arguments.iter().cloned(), bind)
}

/// Applies the program with all calls inlined recursively.
pub(crate) fn eval_flat(program: &Program, arguments: &[Array]) -> Vec<Array> {
    program.interpret(arguments.iter().cloned(), |eqn, operands| match inlined(eqn) {
        Some(inner) => {
            let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
            eval_flat(inner, &operands)
        }
        None => bind(eqn, operands),
    })
}

/// Returns the program of an equation that only calls it.
pub(crate) fn inlined(eqn: &Eqn) -> Option<&Program> {
    eqn.primitive.as_higher_order().and_then(|holder| holder.inlined())
}

/// Binds an equation's primitive at the location of the equation.
pub(crate) fn bind(eqn: &Eqn, operands: &[&Array]) -> Vec<Array> {
    eqn.loc.scope(|| trace::bind_at(&eqn.primitive, operands, eqn.loc))
}
