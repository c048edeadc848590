//! Checks inside compiled programs.

use super::fields::Fields;
use super::format::Format;
use super::host::{CallbackOptions, HostCall, run_or_bind};
use crate::core::{Array, DType, HostFunction, Loc, OpErrorKind, RuleError, throw_operands, trace};
use crate::primitives::{ArrayLike, CallbackFailure};

/// Fails the program with `message` if an element of `condition` is false. Placeholders in the
/// message stand for `fields`, as in [`print`](super::print()); `()` stands for none.
///
/// The call that runs the program waits for the device and returns the error, with the line of this
/// check. In `shard_map` and `pmap` each device checks its shards. That call's
/// outputs and donated arguments are lost: pass arguments by reference if they must survive.
///
/// Throws `Op` if `condition` is not boolean or the message does not match the arrays.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let root = jit(|x: Array| {
///     debug::check(ge(&x, 0.0), "cannot take the root of {}", [&x]);
///     sqrt(&x)
/// });
/// let error = root.call(&full([], -4.0f32)).unwrap_err();
/// assert!(error.to_string().contains("cannot take the root of -4."));
/// ```
#[doc(alias = "checkify")]
#[track_caller]
pub fn check<F>(condition: impl ArrayLike, message: &str, fields: impl Fields<F>) {
    let (names, arrays): (Vec<String>, Vec<Array>) = fields.into_fields().into_iter().unzip();
    let arrays: Vec<&Array> = arrays.iter().collect();
    check_all(&condition.to_array(), message, &names, &arrays);
}

#[track_caller]
fn check_all(condition: &Array, message: &str, names: &[String], arrays: &[&Array]) {
    let loc = Loc::caller();
    if condition.dtype() != DType::Bool {
        let error = RuleError::dtype(format!("needs a bool condition, got {}", condition.aval()));
        throw_operands("check", error, &[condition]);
    }
    let parsed = match Format::parse(message, names) {
        Ok(parsed) => parsed,
        Err(message) => throw_operands("check", RuleError::value(message), arrays),
    };
    // Two checks are equal if their messages and lines are.
    let key = format!("{message}\n{loc}");
    let function = HostFunction::of_type::<Check>(key, move |operands| {
        let (condition, arrays) = operands.split_at(1);
        if condition[0].as_bytes().iter().all(|&holds| holds != 0) {
            return Ok(Vec::new());
        }
        let message = parsed.apply(arrays);
        Err(trace::op_error(OpErrorKind::Value, "check", message, loc))
    });
    let mut operands = vec![condition];
    operands.extend_from_slice(arrays);
    let call = HostCall {
        failure: CallbackFailure::AtCall,
        ..HostCall::with_effects("check", function, CallbackOptions::default())
    };
    run_or_bind(call, &operands);
}

/// The type that identifies checking closures.
struct Check;
