//! Rebinding: replaces captured arrays while a closure runs after their trace has ended.
//!
//! A rule passed to `custom_jvp` or `custom_vjp` may capture arrays. It runs when a program that
//! holds it is transformed, after the trace of those that are traced has ended. They are operands
//! of the equation, so their current values are known and replace them while the rule runs.
//! Concrete arrays are operands too, because a program that is derived from another one uses its
//! inputs alone.

use super::tracing::same_value;
use crate::core::array::array::Array;
use crate::core::scoped::scoped;

scoped!(
    /// Captured arrays with their current values, innermost last.
    static REBOUND: Vec<(Array, Array)> = Vec::new()
);

/// Runs `f` with each first array of `pairs` replaced by the second wherever it is an operand or an
/// output.
pub(crate) fn with_rebound<R>(
    pairs: impl IntoIterator<Item = (Array, Array)>,
    f: impl FnOnce() -> R,
) -> R {
    REBOUND.update(|all| all.extend(pairs), f)
}

/// Returns the current value of `array` if it is rebound.
fn current_value(pairs: &[(Array, Array)], array: &Array) -> Option<Array> {
    let pair = pairs.iter().rev().find(|(captured, _)| same_value(captured, array));
    pair.map(|(_, current)| current.clone())
}

/// Replaces rebound arrays by their current values. Returns `None` if there is nothing to replace.
pub(super) fn rebind(arrays: &[&Array]) -> Option<Vec<Array>> {
    REBOUND.with(|pairs| {
        if pairs.is_empty() || !arrays.iter().any(|array| current_value(pairs, array).is_some()) {
            return None;
        }
        let rebound = arrays.iter().map(|array| match current_value(pairs, array) {
            Some(current) => current,
            None => (*array).clone(),
        });
        Some(rebound.collect())
    })
}

/// Returns every rebound array with its current value.
pub(crate) fn rebound_pairs() -> Vec<(Array, Array)> {
    REBOUND.get()
}
