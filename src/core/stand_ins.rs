//! Stand-ins: arrays that take the place of others while a user's closure runs later than it was made.
//!
//! A rule given to `custom_jvp` or `custom_vjp` may capture traced arrays. It runs when a program
//! that holds it is transformed, and by then the trace of those arrays has ended. They are operands of
//! the equation, so their present values are known: while the rule runs, those stand in.

use super::array::{Array, Kind};
use super::trace::same_variable;
use std::cell::RefCell;

thread_local! {
    static STAND_INS: RefCell<Vec<(Array, Array)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with each first array of `pairs`, all traced, replaced by the second wherever it is an
/// operand or an output.
pub(crate) fn with_stand_ins<R>(
    pairs: impl IntoIterator<Item = (Array, Array)>,
    f: impl FnOnce() -> R,
) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            STAND_INS.with_borrow_mut(|stack| stack.truncate(self.0));
        }
    }
    let _restore = STAND_INS.with_borrow_mut(|stack| {
        let depth = stack.len();
        stack.extend(pairs);
        Restore(depth)
    });
    f()
}

/// What stands in for `array` now, if anything does.
fn resolve(stack: &[(Array, Array)], array: &Array) -> Option<Array> {
    if matches!(array.kind, Kind::Concrete(_)) {
        return None;
    }
    stack
        .iter()
        .rev()
        .find(|(original, _)| same_variable(original, array))
        .map(|(_, now)| now.clone())
}

/// The arrays with stand-ins put in; `None` if there is nothing to replace.
pub(super) fn resolve_all(arrays: &[&Array]) -> Option<Vec<Array>> {
    STAND_INS.with_borrow(|stack| {
        if stack.is_empty() || !arrays.iter().any(|array| resolve(stack, array).is_some()) {
            return None;
        }
        let each = arrays.iter().map(|array| resolve(stack, array).unwrap_or((*array).clone()));
        Some(each.collect())
    })
}

/// Every array that has a stand-in now, with it.
pub(crate) fn current() -> Vec<(Array, Array)> {
    STAND_INS.with_borrow(Clone::clone)
}
