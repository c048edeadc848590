//! Binary search in sorted vectors, bins, and counts of integers.

use super::super::{Index, clip, isnan, take};
use crate::core::{Array, DType, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, Like, convert_element_type, full_like, ge, gt, lt, maximum, ones, promote_arrays,
    reshape, rev, scalar, select, shift_right, sub, where_, zeros,
};

/// Side of equal elements at which a value is inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before equal elements.
    #[default]
    Left,
    /// After equal elements.
    Right,
}

/// Vectors up to this size are compared element by element; larger ones are bisected.
const COMPARE_ALL: usize = 32;

/// Options of [`searchsorted_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchsortedOptions<'a> {
    /// The side of equal elements. The default is [`Side::Left`].
    pub side: Side,
    /// Indices that sort the vector, as `argsort` returns them. By default the vector is sorted.
    pub sorter: Option<&'a Array>,
}

/// Returns the indices at which `values` are inserted into the vector `sorted`, before equal
/// elements: `i32` in the shape of `values`, between 0 and the size of the vector. NaN is larger
/// than all other values.
///
/// Throws `Op` (shape) unless `sorted` is a vector, and `Op` (dtype) for complex numbers.
///
/// ```
/// use oxidax::prelude::*;
/// let (bounds, x) = (Aval::new(DType::F32, [100]), Aval::new(DType::F32, [8, 3]));
/// let indices = eval_shape(|bounds: Array, x: Array| searchsorted(&bounds, &x), (bounds, x))?;
/// assert_eq!(indices.aval().to_string(), "i32[8,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn searchsorted(sorted: &Array, values: impl ArrayLike) -> Array {
    searchsorted_with(sorted, values, SearchsortedOptions::default())
}

/// Returns true where an element comes before the inserted value.
#[track_caller]
fn before(element: &Array, value: &Array, side: Side) -> Array {
    match side {
        Side::Left => lt(element, value) | (isnan(value) & !isnan(element)),
        Side::Right => !(gt(element, value) | (isnan(element) & !isnan(value))),
    }
}

/// Returns insertion indices, as [`searchsorted`], on either side of equal elements, or into a
/// vector that is sorted by indices.
#[track_caller]
pub fn searchsorted_with(
    sorted: &Array,
    values: impl ArrayLike,
    options: SearchsortedOptions<'_>,
) -> Array {
    let side = options.side;
    let sorted = &match options.sorter {
        Some(sorter) => take(sorted, sorter, 0),
        None => sorted.clone(),
    };
    let values = match values.like() {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => scalar(value),
    };
    let dtype = super::super::result_type([sorted.like(), values.like()]);
    let error = match (sorted.rank(), dtype.is_complex()) {
        (1, false) => None,
        (1, true) => Some(RuleError::dtype(format!("complex numbers have no order, got {dtype}"))),
        (rank, _) => Some(RuleError::shape(format!("takes a sorted vector, got rank {rank}"))),
    };
    if let Some(error) = error {
        trace::throw_operands("searchsorted", error, &[sorted, &values]);
    }
    let (sorted, values) =
        (convert_element_type(sorted, dtype), convert_element_type(&values, dtype));
    let n = sorted.size();
    if n <= COMPARE_ALL {
        let spread = reshape(&values, values.shape().insert(values.rank(), 1));
        return convert_element_type(&before(&sorted, &spread, side), DType::I32).sum_axes(-1);
    }
    // The index is in `low..=high`. Each step halves that range.
    let mut low = zeros((values.shape(), DType::I32));
    let mut high = full_like(&low, n);
    for _ in 0..usize::BITS - n.leading_zeros() {
        let middle = shift_right(low.clone() + &high, 1);
        let further = before(&take(&sorted, &clip(&middle, 0, (n - 1) as i32), 0), &values, side);
        // An empty range stays: its middle is the index.
        let open = lt(&low, &high);
        low = select(&(&further & &open), &(&middle + 1), &low);
        high = select(&(!further & open), &middle, &high);
    }
    low
}

/// Options of [`digitize_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigitizeOptions {
    /// Includes the right edge of a bin instead of the left one. The default is false.
    pub right: bool,
}

/// Returns the index, `i32`, of the bin of each element of `x`: bin `i` is between `bins[i - 1]`,
/// included, and `bins[i]`. Elements below all edges give 0, elements above give the number of
/// edges. The edges `bins` increase or decrease.
///
/// Throws `Op` (shape) unless `bins` is a vector with at least one edge.
#[track_caller]
pub fn digitize(x: &Array, bins: &Array) -> Array {
    digitize_with(x, bins, DigitizeOptions::default())
}

/// Returns the bins of elements, as [`digitize`], with options.
#[track_caller]
pub fn digitize_with(x: &Array, bins: &Array, options: DigitizeOptions) -> Array {
    Loc::caller().scope(|| {
        let n = bins.size();
        if bins.rank() != 1 || n == 0 {
            let message = format!("takes a vector of at least one edge, got {}", bins.aval());
            trace::throw_operands("digitize", RuleError::shape(message), &[x, bins]);
        }
        let side = if options.right { Side::Left } else { Side::Right };
        let side = SearchsortedOptions { side, sorter: None };
        let increasing = searchsorted_with(bins, x, side);
        let decreasing = sub(n as i32, searchsorted_with(&rev(bins, &[0]), x, side));
        where_(ge(bins.index([Index::At(-1)]), bins.index([Index::At(0)])), increasing, decreasing)
    })
}

/// Options of [`bincount_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct BincountOptions<'a> {
    /// Weights of the elements. They determine the dtype of the result. All are 1, `i32`, if
    /// `None`.
    pub weights: Option<&'a Array>,
}

/// Counts the occurrences of each of `0..length` among the integers of the flattened `x`:
/// `i32[length]`. Negative numbers count as 0, numbers of `length` and above are ignored. Throws
/// `Op` (dtype) unless `x` is an integer array.
#[track_caller]
pub fn bincount(x: &Array, length: usize) -> Array {
    bincount_with(x, length, BincountOptions::default())
}

/// Sums the weights of the occurrences of each of `0..length`, as [`bincount`]. Throws `Op` (shape)
/// if the number of weights differs from the number of elements.
#[track_caller]
pub fn bincount_with(x: &Array, length: usize, options: BincountOptions<'_>) -> Array {
    let weights = match options.weights {
        Some(weights) => weights.clone(),
        None => ones((x.shape(), DType::I32)),
    };
    let error = match (x.dtype().is_integer(), x.size() == weights.size()) {
        (true, true) => None,
        (false, _) => Some(RuleError::dtype(format!("counts integers, got {}", x.dtype()))),
        _ => {
            Some(RuleError::shape(format!("{} weights for {} elements", weights.size(), x.size())))
        }
    };
    if let Some(error) = error {
        trace::throw_operands("bincount", error, &[x, &weights]);
    }
    let flat = reshape(x, [x.size()]);
    let flat = if x.dtype().is_signed() { maximum(&flat, 0) } else { flat };
    let [weights] = promote_arrays("bincount", [weights.like()]);
    let weights = reshape(&weights, [weights.size()]);
    zeros(([length], weights.dtype())).at([Index::Array(flat)]).add(&weights)
}
