//! Numbers that count.

use crate::core::Array;
use crate::primitives::{eq, floor, full_like, ge, where_};

/// `k` where it is a whole number of 0 and more, 0 elsewhere, and where it is one.
#[track_caller]
pub(super) fn whole(k: &Array) -> (Array, Array) {
    let fine = ge(k, 0.0) & eq(k, floor(k));
    (where_(&fine, k, full_like(k, 0)), fine)
}
