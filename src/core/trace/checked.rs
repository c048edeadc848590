//! Programs with the checks that are in force; see
//! [`with_error_checking`](crate::config::with_error_checking).

use crate::core::options::{ERROR_CHECKING, with_error_checking};
use crate::core::program::program::Program;
use crate::core::types::check_set::CheckSet;

/// Returns the program with the checks in force on this thread; `None` if there are none.
pub(crate) fn checked_program(program: &Program) -> Option<Program> {
    let errors = ERROR_CHECKING.get();
    if errors.is_empty() {
        return None;
    }
    with_error_checking(CheckSet::NONE, || crate::checked_program(program, errors | CheckSet::USER))
}
