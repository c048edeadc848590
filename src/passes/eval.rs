//! Evaluation: binds a program's equations one by one under the current trace.

use crate::core::scoped::scoped;
use crate::core::{Array, Eqn, Program, trace};
use std::rc::Rc;

/// Evaluates a program on concrete arrays.
pub(crate) type Evaluate = dyn Fn(&Program, &[Array]) -> Vec<Array>;

scoped!(
    /// Replaces [`eval`] outside of any trace.
    static EVALUATE: Option<Rc<Evaluate>> = None
);

/// Applies an equation to concrete arrays.
pub(crate) type Bind = dyn Fn(&Eqn, &[&Array]) -> Vec<Array>;

scoped!(
    /// Replaces [`bind`] outside of any trace.
    static BIND: Option<Rc<Bind>> = None
);

/// Runs `f` with equations on concrete arrays applied by `bind`, to values in a representation that
/// it knows. `None` restores the usual application.
pub(crate) fn with_bind<R>(bind: Option<Rc<Bind>>, f: impl FnOnce() -> R) -> R {
    BIND.scope(bind, f)
}

/// Returns true inside [`with_bind`]: values are not those of the program itself.
pub(crate) fn is_bind_replaced() -> bool {
    BIND.with(Option::is_some)
}

/// Returns true inside [`with_evaluation`].
pub(crate) fn is_evaluation_replaced() -> bool {
    EVALUATE.with(Option::is_some)
}

/// Runs `f` with programs on concrete arrays evaluated by `evaluate`: those that primitives run
/// when they are interpreted. `None` restores the usual evaluation.
pub(crate) fn with_evaluation<R>(evaluate: Option<Rc<Evaluate>>, f: impl FnOnce() -> R) -> R {
    EVALUATE.scope(evaluate, f)
}

/// Applies the program to `arguments`. Records it in the current trace, or runs it operation by
/// operation outside of any trace.
pub(crate) fn eval(program: &Program, arguments: &[Array]) -> Vec<Array> {
    if let Some(evaluate) = EVALUATE.get()
        && !trace::is_tracing()
    {
        return evaluate(program, arguments);
    }
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
    if let Some(bind) = BIND.get()
        && !trace::is_tracing()
    {
        return bind(eqn, operands);
    }
    eqn.loc.scope(|| trace::bind_at(&eqn.primitive, operands, eqn.loc))
}
