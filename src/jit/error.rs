//! [`CallError`]: the error of a call, with its arguments.

use crate::core::Error;
use std::fmt;

/// A call that failed, with the arguments that were passed by value and not consumed.
///
/// `?` turns it into [`Error`]. `args` is a tuple with one `Option` per argument: `None` for those
/// passed by reference, and for those whose buffers a failed execution had already taken.
pub struct CallError<R> {
    /// The error.
    pub error: Error,
    /// The arguments passed by value.
    pub args: Box<R>,
}

impl<R> fmt::Debug for CallError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<R> fmt::Display for CallError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<R> std::error::Error for CallError<R> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<R> From<CallError<R>> for Error {
    fn from(failed: CallError<R>) -> Error {
        failed.error
    }
}
