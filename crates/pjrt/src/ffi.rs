//! Custom calls.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    /// How many handlers are running on this thread.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// Refuses to launch a program from inside a handler: the handler may hold the very thread that the launch needs.
#[inline]
pub(crate) fn refuse_inside_handler(operation: &'static str) -> Result<()> {
    if RUNNING.get() == 0 {
        return Ok(());
    }
    let message = "a custom call's handler may not run programs: it holds a thread that they need";
    Err(Error::invalid(operation, message))
}
