//! [`bind`]: applies a primitive. Every operation goes through it.

use super::checked::checked_program;
use super::rebinding;
use super::tracing::{Mode, escaped_error_at, is_escaped, jit_disabled, with_stack};
use crate::core::array::array::Array;
use crate::core::array::backend::backend;
use crate::core::error::loc::Loc;
use crate::core::error::throw::{throw, throw_rule};
use crate::core::error::{RuleError, RuleResult};
use crate::core::options::{ERROR_CHECKING, with_error_checking};
use crate::core::program::marks::{Known, Marks};
use crate::core::program::primitive::{Half, Primitive, SplitEqn, SplitOperand};
use crate::core::program::program::{Eqn, Program};
use crate::core::types::aval::Aval;
use crate::core::types::check_set::CheckSet;
use smallvec::SmallVec;
use std::sync::Arc;

/// The outcome of [`decide`].
enum Action {
    /// The equation was recorded and has these results.
    Record(Vec<Array>),
    /// No trace takes the equation: evaluate it.
    Apply,
    /// Split the equation at the trace of this depth by these known operands.
    Split(usize, Marks<Known>),
    /// The operand at this position belongs to a trace that has ended.
    Escaped(usize),
}

/// Decides, while the stack is borrowed, what happens to an equation. `whole` keeps a primitive
/// that holds programs in one piece. No rule runs under the borrow.
fn decide(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    results: &[Aval],
    loc: Loc,
    whole: bool,
) -> Action {
    with_stack(|stack| {
        let chosen = stack.iter().rposition(|builder| {
            builder.mode == Mode::All || operands.iter().any(|array| builder.own(array).is_some())
        });
        let live = chosen.map_or(0, |depth| depth + 1);
        let escaped = operands.iter().position(|array| is_escaped(&stack[..live], array));
        if let Some(position) = escaped {
            return Action::Escaped(position);
        }
        let Some(depth) = chosen else { return Action::Apply };
        let builder = &mut stack[depth];
        if builder.mode == Mode::Lazy && !whole && primitive.as_higher_order().is_some() {
            let known = operands.iter().map(|array| builder.own(array).is_none()).collect();
            return Action::Split(depth, known);
        }
        Action::Record(builder.record(primitive, operands, results.to_vec(), loc))
    })
}

/// Applies a primitive: records it in the trace that takes it, or evaluates it at once.
///
/// Throws if the operands do not fit.
pub(crate) fn bind_at(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    caller: Loc,
) -> Vec<Array> {
    match rebinding::rebind(operands) {
        Some(rebound) => bind_rebound(primitive, &rebound.iter().collect::<Vec<_>>(), caller),
        None => bind_rebound(primitive, operands, caller),
    }
}

fn bind_rebound(primitive: &Arc<dyn Primitive>, operands: &[&Array], caller: Loc) -> Vec<Array> {
    match match_varying(&**primitive, operands, caller) {
        Some(varying) => bind_in(primitive, &varying.iter().collect::<Vec<_>>(), caller, false),
        None => bind_in(primitive, operands, caller, false),
    }
}

fn bind_in(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    caller: Loc,
    whole: bool,
) -> Vec<Array> {
    let loc = Loc::scoped().or(caller);
    let avals: SmallVec<[Aval; 4]> = operands.iter().map(|array| array.aval().clone()).collect();
    let results = match result_avals(&**primitive, &avals) {
        Ok(results) => results,
        Err(error) => throw_rule(primitive.name(), error, &avals, loc),
    };
    match decide(primitive, operands, &results, loc, whole) {
        Action::Record(outputs) => outputs,
        Action::Apply => {
            if let Some(outputs) = apply_checked(primitive, operands, &avals, &results, loc) {
                return outputs;
            }
            let outputs = match primitive.as_higher_order() {
                Some(holder) if jit_disabled() => {
                    let operands: Vec<Array> = operands.iter().copied().cloned().collect();
                    loc.scope(|| holder.interpret(&operands))
                }
                _ => backend().apply(primitive, operands, results, loc),
            };
            outputs.unwrap_or_else(|error| throw(error))
        }
        Action::Escaped(position) => throw(escaped_error_at(operands[position], loc)),
        Action::Split(depth, known) => {
            let split = primitive.as_higher_order().and_then(|holder| holder.split(&known));
            match split {
                Some(split) => bind_split(depth, split, operands, loc),
                None => bind_in(primitive, operands, loc, true),
            }
        }
    }
}

/// Evaluates an operation with the checks in force. Returns `None` if it has none.
fn apply_checked(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    avals: &[Aval],
    results: &[Aval],
    loc: Loc,
) -> Option<Vec<Array>> {
    if ERROR_CHECKING.get().is_empty() {
        return None;
    }
    let program = Program::of_operation(primitive.clone(), avals.to_vec(), results.to_vec(), loc);
    let program = checked_program(&program)?;
    let operands = operands.iter().map(|&operand| operand.clone());
    let evaluate = |eqn: &Eqn, operands: &[&Array]| bind_at(&eqn.primitive, operands, eqn.loc);
    Some(with_error_checking(CheckSet::NONE, || program.interpret(operands, evaluate)))
}

fn bind_split(depth: usize, split: SplitEqn, operands: &[&Array], loc: Loc) -> Vec<Array> {
    let known_operands: Vec<&Array> =
        split.known_operands.iter().map(|&index| operands[index]).collect();
    let known = bind_at(&split.known, &known_operands, loc);
    let unknown_operands: Vec<&Array> = split
        .unknown_operands
        .iter()
        .map(|source| match *source {
            SplitOperand::Operand(position) => operands[position],
            SplitOperand::Known(position) => &known[position],
        })
        .collect();
    let avals: Vec<Aval> = unknown_operands.iter().map(|array| array.aval().clone()).collect();
    let results = match result_avals(&*split.unknown, &avals) {
        Ok(results) => results,
        Err(error) => throw_rule(split.unknown.name(), error, &avals, loc),
    };
    // Recorded, not bound: binding would split it again.
    let unknown =
        with_stack(|stack| stack[depth].record(&split.unknown, &unknown_operands, results, loc));
    let output = |half: &Half| match *half {
        Half::Known(position) => known[position].clone(),
        Half::Unknown(position) => unknown[position].clone(),
    };
    split.outputs.iter().map(output).collect()
}

/// Returns the types of an operation's results: those of [`Primitive::abstract_eval`], with the
/// mesh axes that they vary over, their memory and their sharding filled in.
///
/// # Errors
/// Errors of `abstract_eval`, `Shape` for arrays that no compiler can address, `Value` for operands
/// in different memories, and `Sharding` for contradictory shardings.
pub(crate) fn result_avals(primitive: &dyn Primitive, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
    for operand in operands {
        operand.check_size("the operand")?;
    }
    let mut results = primitive.abstract_eval(operands)?;
    for result in &results {
        result.check_size("the result")?;
    }
    primitive.set_result_varying(operands, &mut results);
    primitive.set_result_memory(operands, &mut results)?;
    primitive.set_result_shardings(operands, &mut results)?;
    Ok(results)
}

/// Makes each operand vary over the mesh axes that the primitive requires. Returns `None` if no
/// operand changes, as is always the case outside of `shard_map`.
fn match_varying(
    primitive: &dyn Primitive,
    operands: &[&Array],
    caller: Loc,
) -> Option<SmallVec<[Array; 4]>> {
    if operands.iter().all(|operand| operand.aval().varying.is_none()) {
        return None;
    }
    let avals: SmallVec<[Aval; 4]> = operands.iter().map(|x| x.aval().clone()).collect();
    let required = primitive.operand_varying(&avals);
    let mut pairs = avals.iter().zip(&required);
    if pairs.all(|(aval, required)| aval.varying.covers(required)) {
        return None;
    }
    let vary = || {
        let pairs = operands.iter().zip(&required);
        pairs.map(|(&x, required)| crate::vary(x, required)).collect()
    };
    Some(Loc::scoped().or(caller).scope(vary))
}

/// Applies a primitive to its operands on behalf of the caller.
#[track_caller]
pub fn bind(primitive: impl Primitive, operands: &[&Array]) -> Vec<Array> {
    let primitive: Arc<dyn Primitive> = Arc::new(primitive);
    bind_at(&primitive, operands, Loc::caller())
}

/// Applies a shared primitive to its operands on behalf of the caller.
#[track_caller]
pub(crate) fn bind_shared(primitive: &Arc<dyn Primitive>, operands: &[&Array]) -> Vec<Array> {
    bind_at(primitive, operands, Loc::caller())
}

/// Applies a primitive with one result.
#[track_caller]
pub fn bind1<const N: usize>(primitive: impl Primitive, operands: [&Array; N]) -> Array {
    let mut results = bind(primitive, &operands);
    debug_assert_eq!(results.len(), 1, "bind1 is for primitives with one result");
    results.swap_remove(0)
}

/// Throws the error of a function built from operations. Adds the operands, the caller's location
/// and the transforms that are tracing. `name` is the function's name.
///
/// ```
/// use oxidax::core::{Array, RuleError, throw_operands};
///
/// #[track_caller]
/// fn norm_squared(x: &Array) -> Array {
///     if x.rank() != 1 {
///         let error = RuleError::shape(format!("needs a vector, got {} axes", x.rank()));
///         throw_operands("norm_squared", error, &[x]);
///     }
///     oxidax::primitives::reduce_sum(&(x * x), &[0])
/// }
/// ```
#[track_caller]
pub fn throw_operands(name: &str, error: RuleError, operands: &[&Array]) -> ! {
    let avals: Vec<Aval> = operands.iter().map(|array| array.aval().clone()).collect();
    throw_rule(name, error, &avals, Loc::caller())
}
