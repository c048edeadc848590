//! Errors of failed assertions, and the switch that turns assertions off.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

static DISABLED: AtomicBool = AtomicBool::new(false);

/// Turns all assertions of the process off. Programs that are already traced keep their checks.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::{assert_rank, disable_asserts, enable_asserts};
/// disable_asserts();
/// assert_rank(&ones([3]), 2);
/// enable_asserts();
/// assert!(catch(|| assert_rank(&ones([3]), 2)).is_err());
/// ```
pub fn disable_asserts() {
    DISABLED.store(true, Ordering::Relaxed);
}

/// Turns the assertions of the process on again.
pub fn enable_asserts() {
    DISABLED.store(false, Ordering::Relaxed);
}

/// Returns true unless assertions are turned off.
pub(super) fn is_enabled() -> bool {
    !DISABLED.load(Ordering::Relaxed)
}

/// Throws an error of kind `shape`.
#[track_caller]
pub(super) fn fail_shape(name: &str, message: String, arrays: &[&Array]) -> ! {
    throw_operands(name, RuleError::shape(message), arrays)
}

/// Throws an error of kind `value`.
#[track_caller]
pub(super) fn fail_value(name: &str, message: String, arrays: &[&Array]) -> ! {
    throw_operands(name, RuleError::value(message), arrays)
}

/// Fails unless `condition`, `bool[]`, is true: at once if it is concrete, else in the program.
#[track_caller]
pub(super) fn expect(
    name: &str,
    condition: &Array,
    operands: &[&Array],
    message: impl FnOnce() -> String,
) {
    if condition.is_traced() {
        // Braces would be placeholders of the message.
        let text = format!("{name}: {}", message()).replace(['{', '}'], "");
        debug::check(condition, &text, ());
        return;
    }
    match condition.item::<bool>() {
        Ok(true) => {}
        Ok(false) => fail_value(name, message(), operands),
        Err(error) => fail_value(name, format!("the values cannot be read: {error}"), operands),
    }
}
