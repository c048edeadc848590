//! Helpers that resolve one axis and slice along it.

use crate::core::{Array, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::slice;

/// Resolves an axis that may be negative. Throws on behalf of `name` if it is out of range.
#[track_caller]
pub(super) fn expect_axis(name: &str, axis: isize, rank: usize, x: &Array) -> usize {
    match resolve_axis(axis, rank) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Returns the elements `start..end` of `x` along `axis`.
#[track_caller]
pub(super) fn slice_axis(x: &Array, axis: usize, start: usize, end: usize) -> Array {
    if start == 0 && end == x.shape()[axis] {
        return x.clone();
    }
    let mut starts = vec![0; x.rank()];
    let mut limits = x.shape().to_vec();
    (starts[axis], limits[axis]) = (start, end);
    slice(x, &starts, &limits, &vec![1; x.rank()])
}
