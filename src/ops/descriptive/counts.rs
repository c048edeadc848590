//! Where values fall among others, and how many of each.

use super::super::{Index, clip, isnan, take};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    ArrayLike, convert_element_type, full_like, ge, gt, lt, ones, promote_arrays, reshape, rev,
    select, sub, where_, zeros,
};

/// On which side of equal elements a value goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before them.
    #[default]
    Left,
    /// Behind them.
    Right,
}

/// Up to this size every element is compared; above, intervals are halved.
const COMPARE_ALL: usize = 32;

/// Where each of `values` goes in the vector `sorted`, before equal elements: `i32` in the shape of
/// `values`, 0 up to the vector's size. NaN is larger than everything. See [`searchsorted_side`].
///
/// ```
/// use oxidax::prelude::*;
/// let (bounds, x) = (Aval::new(DType::F32, [100]), Aval::new(DType::F32, [8, 3]));
/// let at = eval_shape(|bounds: Array, x: Array| searchsorted(&bounds, &x), (bounds, x))?;
/// assert_eq!(at.aval().to_string(), "i32[8,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn searchsorted(sorted: &Array, values: impl ArrayLike) -> Array {
    searchsorted_side(sorted, values, Side::Left)
}

/// Whether an element stays in front of a value.
#[track_caller]
fn before(element: &Array, value: &Array, side: Side) -> Array {
    match side {
        Side::Left => lt(element, value) | (isnan(value) & !isnan(element)),
        Side::Right => !(gt(element, value) | (isnan(element) & !isnan(value))),
    }
}

/// As [`searchsorted`], on either side of equal elements.
///
/// Throws `Op` (shape) if `sorted` is no vector and `Op` (dtype) for complex numbers.
#[track_caller]
pub fn searchsorted_side(sorted: &Array, values: impl ArrayLike, side: Side) -> Array {
    let values = match values.like() {
        crate::primitives::Like::Array(x) => x.clone(),
        crate::primitives::Like::Scalar(value) => crate::primitives::scalar(value),
    };
    let dtype = super::super::result_type([sorted.like(), values.like()]);
    let wrong = match (sorted.rank(), dtype.is_complex()) {
        (1, false) => None,
        (1, true) => Some(RuleError::dtype(format!("complex numbers have no order, got {dtype}"))),
        (rank, _) => Some(RuleError::shape(format!("takes a sorted vector, got rank {rank}"))),
    };
    if let Some(error) = wrong {
        trace::throw_operands("searchsorted", error, &[sorted, &values]);
    }
    let (sorted, values) =
        (convert_element_type(sorted, dtype), convert_element_type(&values, dtype));
    let n = sorted.size();
    if n <= COMPARE_ALL {
        let spread = reshape(&values, values.shape().insert(values.rank(), 1));
        return convert_element_type(&before(&sorted, &spread, side), DType::I32).sum_axes(-1);
    }
    // The answer lies in `low..=high`; each step halves that.
    let mut low = zeros(values.shape(), DType::I32);
    let mut high = full_like(&low, n);
    for _ in 0..usize::BITS - n.leading_zeros() {
        let middle = crate::primitives::shift_right(low.clone() + &high, 1);
        let further = before(&take(&sorted, &clip(&middle, 0, (n - 1) as i32), 0), &values, side);
        // Where nothing is left to halve, the middle is the answer itself.
        let open = lt(&low, &high);
        low = select(&(&further & &open), &(&middle + 1), &low);
        high = select(&(!further & open), &middle, &high);
    }
    low
}

/// The number of the bin that each element of `x` falls into, `i32`: bin `i` lies between `bins[i - 1]`
/// and `bins[i]`, 0 below all, the vector's size above. `bins` increase or decrease.
///
/// `Side::Left` counts a bin's left bound to it, as NumPy does by default, `Side::Right` its right one.
/// Throws `Op` (shape) if `bins` is no vector or empty.
#[track_caller]
pub fn digitize(x: &Array, bins: &Array, closed: Side) -> Array {
    let n = bins.size();
    if bins.rank() != 1 || n == 0 {
        let message = format!("takes a vector of at least one bound, got {}", bins.aval());
        trace::throw_operands("digitize", RuleError::shape(message), &[x, bins]);
    }
    let side = match closed {
        Side::Left => Side::Right,
        Side::Right => Side::Left,
    };
    // In decreasing bounds the other side is met first.
    let increasing = searchsorted_side(bins, x, side);
    let decreasing = sub(n as i32, searchsorted_side(&rev(bins, &[0]), x, side));
    where_(&ge(bins.index([Index::At(-1)]), bins.index([Index::At(0)])), increasing, decreasing)
}

/// How often each of the numbers `0..length` occurs among the integers `x`, flattened: `i32[length]`.
/// Negative numbers count as 0, larger ones not at all. Throws `Op` (dtype) if `x` is not of integers.
#[track_caller]
pub fn bincount(x: &Array, length: usize) -> Array {
    bincount_weighted(x, &ones(x.shape(), DType::I32), length)
}

/// As [`bincount`], each element counting as much as its weight: `[length]` in the weights' dtype.
/// Throws `Op` (shape) if there are not as many weights as elements.
#[track_caller]
pub fn bincount_weighted(x: &Array, weights: &Array, length: usize) -> Array {
    let wrong = match (x.dtype().is_integer(), x.size() == weights.size()) {
        (true, true) => None,
        (false, _) => Some(RuleError::dtype(format!("counts integers, got {}", x.dtype()))),
        _ => {
            Some(RuleError::shape(format!("{} weights for {} elements", weights.size(), x.size())))
        }
    };
    if let Some(error) = wrong {
        trace::throw_operands("bincount", error, &[x, weights]);
    }
    let flat = reshape(x, [x.size()]);
    let flat = match x.dtype().is_signed() {
        true => crate::primitives::maximum(&flat, 0),
        false => flat,
    };
    let [weights] = promote_arrays("bincount", [weights.like()]);
    let weights = reshape(&weights, [weights.size()]);
    zeros([length], weights.dtype()).at([Index::Array(flat)]).add(&weights)
}
