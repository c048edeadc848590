//! Throwing errors inside traced closures and catching them at boundaries.

use super::error::{Error, OpError, OpErrorKind, RuleError, TracerError};
use super::loc::{Loc, path};
use crate::core::scoped::scoped;
use crate::core::types::aval::Aval;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

scoped!(
    /// The number of enclosing boundaries, which turn thrown errors into `Err`.
    pub(in crate::core) static BOUNDARIES: u32 = 0
);

/// The payload of an unwinding error.
struct Thrown(Error);

/// Unwinds with an error to the nearest boundary. Panics with its text if there is no boundary.
///
/// For functions built from operations, which report errors as operations do.
#[track_caller]
pub fn throw(error: Error) -> ! {
    if BOUNDARIES.get() > 0 && cfg!(panic = "unwind") {
        resume_unwind(Box::new(Thrown(error)));
    }
    panic!("{error}")
}

/// Runs `f` and returns the error that an operation in it throws.
///
/// Foreign panics pass through. With `panic = "abort"` a thrown error aborts with its text.
///
/// # Errors
/// The thrown error.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2]);
/// let outcome = oxidax::catch(|| eval_shape(|x: Array| x.reshape([5]), x));
/// assert!(outcome.and_then(|inner| inner).is_err());
/// ```
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Error> {
    let outcome = BOUNDARIES.scope(BOUNDARIES.get() + 1, || catch_unwind(AssertUnwindSafe(f)));
    outcome.map_err(|payload| match payload.downcast::<Thrown>() {
        Ok(thrown) => thrown.0,
        Err(foreign) => resume_unwind(foreign),
    })
}

fn operand_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["operand".into()],
        2 => vec!["lhs".into(), "rhs".into()],
        _ => (0..count).map(|position| format!("operand {position}")).collect(),
    }
}

/// Throws a rule's error with name, operands, location and scope path added.
pub(crate) fn throw_rule(name: &str, error: RuleError, operands: &[Aval], caller: Loc) -> ! {
    let names = operand_names(operands.len());
    throw(Error::Op(Box::new(OpError {
        kind: error.kind,
        primitive: name.to_string(),
        message: error.message,
        operands: names.into_iter().zip(operands.iter().cloned()).collect(),
        note: error.note,
        loc: Loc::scoped().or(caller),
        path: path(),
        help: error.help,
    })))
}

/// Creates an operation error without operands.
pub(crate) fn op_error(
    kind: OpErrorKind,
    name: &str,
    message: impl Into<String>,
    caller: Loc,
) -> Error {
    Error::Op(Box::new(OpError {
        kind,
        primitive: name.to_string(),
        message: message.into(),
        operands: Vec::new(),
        note: None,
        loc: Loc::scoped().or(caller),
        path: path(),
        help: None,
    }))
}

/// Converts a rule's error to an error of the operation `name` without operands.
pub(crate) fn rule_error(name: &str, error: RuleError, caller: Loc) -> Error {
    let op_error = op_error(error.kind, name, error.message, caller);
    match &error.help {
        Some(help) => op_error.with_help(help),
        None => op_error,
    }
}

/// Throws an operation error without operands.
pub(crate) fn throw_op(kind: OpErrorKind, name: &str, message: String, caller: Loc) -> ! {
    throw(op_error(kind, name, message, caller))
}

/// Throws the error of reading elements of a traced array.
pub(crate) fn throw_needs_value(aval: &Aval, requested: &str, caller: Loc) -> ! {
    throw(Error::Tracer(Box::new(TracerError {
        message: format!("asked for {requested} of a traced array, which has none while tracing"),
        aval: aval.clone(),
        loc: caller,
        path: path(),
        help: "choose with `where_` or `cond`, pass the value as a static argument, or return the \
               array and read it outside"
            .into(),
    })))
}
