//! Errors about bytes and dictionaries.

use oxidax::Error;
use oxidax::core::{Loc, OpError, OpErrorKind};

/// Returns the error `error[value]: FUNCTION: PROBLEM` at the line that called the function.
#[track_caller]
pub(super) fn value_error(function: &str, problem: impl Into<String>) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: function.to_owned(),
        message: problem.into(),
        operands: Vec::new(),
        note: None,
        loc: Loc::caller(),
        path: Vec::new(),
        help: None,
    }))
}
