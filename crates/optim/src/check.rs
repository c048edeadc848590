//! Checks of arguments, which throw the errors of the library.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;

/// Throws `Op` (value) with a message unless a condition holds.
#[track_caller]
pub(crate) fn expect_value(holds: bool, function: &str, message: impl FnOnce() -> String) {
    if !holds {
        throw_operands(function, RuleError::value(message()), &[]);
    }
}

/// Returns the size of the last axis. Throws `Op` (shape) for a scalar.
#[track_caller]
pub(crate) fn last_size(function: &str, x: &Array) -> usize {
    match x.shape().last() {
        Some(size) => *size,
        None => {
            let message = format!("needs an axis of classes, got {}", x.aval());
            throw_operands(function, RuleError::shape(message), &[x])
        }
    }
}

/// Throws `Op` (shape) unless the shapes are equal.
#[track_caller]
pub(crate) fn expect_same_shape(function: &str, x: &Array, y: &Array) {
    if x.shape() != y.shape() {
        let (x_type, y_type) = (x.aval(), y.aval());
        let message = format!("operands must have one shape, got {x_type} and {y_type}");
        throw_operands(function, RuleError::shape(message), &[x, y]);
    }
}

/// Returns a value of an optimizer's state. Throws `Op` (value) if the state belongs to another
/// optimizer.
#[track_caller]
pub(crate) fn expect_state<T>(function: &str, part: Option<T>, optimizer: &str) -> T {
    match part {
        Some(part) => part,
        None => {
            let error = RuleError::value(format!("the state is not that of `{optimizer}`"));
            let help = format!("pass the state that `{optimizer}` returned");
            throw_operands(function, error.help(help), &[])
        }
    }
}
