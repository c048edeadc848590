//! Errors of the interpreter.

use crate::core::{Error, Loc, OpErrorKind, trace};

/// Creates the errors of one kernel.
#[derive(Clone)]
pub(super) struct Report {
    /// The name of the kernel.
    pub(super) name: String,
}

impl Report {
    /// Creates an error at a line, with its remedy.
    pub(super) fn error(
        &self,
        kind: OpErrorKind,
        message: impl Into<String>,
        help: &str,
        loc: Loc,
    ) -> Error {
        let name = format!("kernel `{}`", self.name);
        // A location in scope would replace that of the operation.
        loc.scope(|| trace::op_error(kind, &name, message, loc)).with_help(help)
    }

    /// Creates an error about a value.
    pub(super) fn value(&self, message: impl Into<String>, help: &str, loc: Loc) -> Error {
        self.error(OpErrorKind::Value, message, help, loc)
    }
}
