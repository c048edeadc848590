//! [`checkify()`]: checks that every operation of a function makes.

use super::check::check_operation;
use crate::core::options::with_error_checking;
use crate::core::{Array, CheckSet, Loc, OperandCheck, Primitive, Program, trace};
use crate::primitives::{bitwise_not, bitwise_or, ne, reduce_or};
use crate::transforms::staging::{run_stage, trace_function, trace_rules};
use crate::tree::{
    Args, Arguments, FnArgs, Function, TransformedFn, leaves_of, rebuild, transformed,
};
use std::sync::Arc;

/// Returns `f` with checks of the errors in `errors` at every operation.
///
/// | set | an error |
/// |---|---|
/// | [`CheckSet::INDEX`] | a gather, scatter or dynamic slice reaches beyond its array |
/// | [`CheckSet::DIV`] | a division or remainder by zero |
/// | [`CheckSet::NAN`] | an operation produces NaN from operands without NaN |
/// | [`CheckSet::USER`] | a [`check`](super::check()) that the user wrote fails; without it they are left out |
///
/// The checks are operations of the program. They run under `jit`, `grad` and `vmap`, in loops and
/// branches, and on several devices. A call returns the error, as for [`check`](super::check()),
/// with the user's line of the operation, its name and the numbers. If several checks of a run
/// fail, it is one of them.
///
/// Each check is a call of the host, so the program is slower. [`nan_check`](super::nan_check) is
/// faster for NaN: it searches only if a result has one.
///
/// Derivatives of the returned function have the checks of `f`. To check the operations of the
/// derivative, checkify the gradient: `checkify(grad(f), …)`. Two cases need this order too:
/// branches and loops with a condition for each example of a `vmap` cannot call the host, so write
/// `checkify(vmap(f), …)`, which checks the branches that an example does not take. Kernels and the
/// rules of `custom_jvp` and `custom_vjp` are not checked inside.
/// [`config::with_error_checking`](crate::config::with_error_checking) checks all functions in a
/// scope.
///
/// ```
/// use oxidax::debug::{CheckSet, checkify};
/// use oxidax::prelude::*;
/// let row = checkify(|x: &Array, i: &Array| take(x, i, 0) / x.sum(), CheckSet::AUTOMATIC);
/// let f = jit(move |x: Array, i: Array| row(&x, &i));
/// let x = array![1.0, 2.0, 3.0];
/// assert_eq!(f.call(&x, scalar(2))?.item::<f32>()?, 0.5);
/// let error = f.call(&x, scalar(7)).unwrap_err().to_string();
/// let expected = "gather: index out of bounds for f32[3]: along axis 0 the index is 7";
/// assert!(error.contains(expected), "{error}");
/// let error = f.call(&(x * 0.0), scalar(0)).unwrap_err().to_string();
/// assert!(error.contains("div: divides by zero"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn checkify<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    errors: CheckSet,
) -> impl TransformedFn<'f, A, F::Output> {
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| apply(errors, &f, arguments, loc))
}

fn apply<A: Args, M, F: Function<A, M>>(
    errors: CheckSet,
    f: &F,
    arguments: A::Refs<'_>,
    loc: Loc,
) -> F::Output {
    let mut operands = leaves_of(&Arguments::<A>(arguments));
    let call = |leaves: Vec<Array>| f.apply(A::unflatten(arguments, &mut leaves.into_iter()));
    let avals = operands.iter().map(|operand| operand.aval().clone());
    let scope = format!("checkify({})", f.name());
    let traced = loc.scope(|| trace_function(scope, avals, call));
    operands.extend(traced.captures);
    let program = checked_program(&traced.program, errors).unwrap_or(traced.program);
    let outputs = if trace::is_tracing() {
        program.interpret(operands, |eqn, operands| {
            eqn.loc.scope(|| trace::bind_at(&eqn.primitive, operands, eqn.loc))
        })
    } else {
        with_error_checking(CheckSet::NONE, || run_stage(&program, &operands))
    };
    rebuild(&traced.template, outputs)
}

/// Returns the program with checks of the errors in `enabled`. `None` if there is nothing to
/// change.
pub(crate) fn checked_program(program: &Program, enabled: CheckSet) -> Option<Program> {
    let mut changed = false;
    let checked = trace_rules(program.avals_in(), |inputs| {
        program.interpret(inputs.iter().cloned(), |eqn, operands| {
            eqn.loc.scope(|| {
                let (outputs, is_changed) =
                    bind_checked(&eqn.primitive, operands, eqn.loc, enabled);
                changed |= is_changed;
                outputs
            })
        })
    });
    changed.then_some(checked)
}

/// Applies an operation with its checks. Also returns true if there are any.
fn bind_checked(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    loc: Loc,
    enabled: CheckSet,
) -> (Vec<Array>, bool) {
    if primitive.is_user_check() && !enabled.contains(CheckSet::USER) {
        return (Vec::new(), true);
    }
    if let Some((inner, is_changed)) = with_checked_programs(primitive, enabled) {
        return (trace::bind_at(&inner, operands, loc), is_changed);
    }
    let checks = primitive.checks(enabled, operands);
    for check in &checks {
        check_operation(primitive.name(), check, loc);
    }
    let outputs = trace::bind_at(primitive, operands, loc);
    let nan = match enabled.contains(CheckSet::NAN) {
        true => introduces_no_nan(operands, &outputs, &checks),
        false => None,
    };
    if let Some(check) = &nan {
        check_operation(primitive.name(), check, loc);
    }
    (outputs, nan.is_some() || !checks.is_empty())
}

/// Returns a primitive that holds programs with checks in them, and true if there are any. `None`
/// if it is not such a primitive.
fn with_checked_programs(
    primitive: &Arc<dyn Primitive>,
    enabled: CheckSet,
) -> Option<(Arc<dyn Primitive>, bool)> {
    let programs = primitive.as_higher_order()?.programs();
    let checked = programs.iter().map(|(_, program)| checked_program(program, enabled));
    let checked: Vec<Option<Program>> = checked.collect();
    let is_changed = checked.iter().any(Option::is_some);
    let with_originals = checked.into_iter().zip(&programs);
    let all = with_originals
        .map(|(checked, (_, original))| Arc::new(checked.unwrap_or_else(|| (*original).clone())));
    let inner = primitive.as_higher_order()?.with_programs(all.collect())?;
    Some(if is_changed { (inner, true) } else { (primitive.clone(), false) })
}

/// Returns the check that outputs have no NaN, unless an operand has or another check of the
/// operation fails. `None` if none can have one, and for constants, which may be NaN on purpose.
fn introduces_no_nan(
    operands: &[&Array],
    outputs: &[Array],
    others: &[OperandCheck],
) -> Option<OperandCheck> {
    if operands.is_empty() {
        return None;
    }
    let mut condition = bitwise_not(any_nan(outputs.iter())?);
    if let Some(before) = any_nan(operands.iter().copied()) {
        condition = bitwise_or(condition, before);
    }
    for other in others {
        condition = bitwise_or(condition, bitwise_not(&other.condition));
    }
    let message = "made a NaN of operands without one".to_owned();
    Some(OperandCheck { condition, message, fields: Vec::new() })
}

/// Returns true if an element of an array is NaN: `bool[]`.
fn any_nan<'a>(arrays: impl Iterator<Item = &'a Array>) -> Option<Array> {
    let arrays = arrays.filter(|x| x.dtype().is_inexact() && x.size() > 0);
    let each = arrays.map(|x| {
        let axes: Vec<isize> = (0..x.rank() as isize).collect();
        reduce_or(&ne(x, x), &axes)
    });
    each.reduce(|a, b| bitwise_or(a, b))
}
