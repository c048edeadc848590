//! Set operations on arrays.

use super::super::{
    SearchsortedOptions, resize, result_type, searchsorted, searchsorted_with, take,
};
use super::nonzero::extract;
use super::unique::{Unique, unique, unique_all};
use crate::core::{Array, DType, Scalar};
use crate::primitives::{
    ArrayLike, argsort, concatenate, convert_element_type, eq, fill_of, gt, iota, lt, minimum,
    reshape, slice, sort, sort_multi, where_,
};

/// Up to this number of comparisons, all pairs of elements are compared; larger operands are
/// sorted.
const COMPARISONS: usize = 1 << 14;

/// Flattens both and converts them to their common dtype.
#[track_caller]
fn flat_pair(x: &Array, y: &Array) -> [Array; 2] {
    let (x, y) = (reshape(x, [x.size()]), reshape(y, [y.size()]));
    let dtype = result_type([x.like(), y.like()]);
    [convert_element_type(&x, dtype), convert_element_type(&y, dtype)]
}

/// Returns true for each element of `x` that equals an element of `y`, in the shape of `x`. NaN
/// equals no element.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::I32, [2, 3]), Aval::new(DType::I32, [7]));
/// let z = eval_shape(|x: Array, y: Array| isin(&x, &y), (x, y))?;
/// assert_eq!(z.aval().to_string(), "bool[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn isin(x: &Array, y: &Array) -> Array {
    let y = reshape(y, [y.size()]);
    if y.size() == 0 || x.size().saturating_mul(y.size()) <= COMPARISONS {
        return eq(reshape(x, x.shape().insert(x.rank(), 1)), &y).any_axes(-1);
    }
    let [flat, y] = flat_pair(x, &y);
    let ordered = sort(&y, 0);
    let last = y.size() as i32 - 1;
    let index = minimum(searchsorted(&ordered, &flat), last);
    reshape(&eq(take(&ordered, &index, 0), &flat), x.shape())
}

/// Options of [`isin_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsinOptions {
    /// Returns true for each element that equals no element instead. The default is false.
    pub invert: bool,
}

/// Returns a mask of the elements of `x` that are in `y`, as [`isin`], or of those that are not.
#[track_caller]
pub fn isin_with(x: &Array, y: &Array, options: IsinOptions) -> Array {
    if options.invert { !isin(x, y) } else { isin(x, y) }
}

/// Returns the distinct values of `x`, padded to its size, and a mask of the valid ones.
#[track_caller]
fn distinct(x: &Array) -> (Array, Array) {
    let Unique { values, counts, .. } = unique_all(x, x.size(), 0);
    (values, gt(counts, 0))
}

/// Returns the sorted values that are in `x` or `y`: `[size]`, padded with `fill_value`.
#[track_caller]
pub fn union1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    unique(&concatenate([&x, &y], 0), size, fill_value)
}

/// Returns the sorted values that are in both `x` and `y`: `[size]`, padded with `fill_value`.
#[track_caller]
pub fn intersect1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let (values, is_valid) = distinct(&x);
    extract(&(is_valid & isin(&values, &y)), &values, size, fill_value)
}

/// Returns the sorted values that are in both `x` and `y`, as [`intersect1d`], and the indices of
/// their first occurrences in the flattened operands, `i32[size]`, padded with their sizes.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (array![5, 1, 3], array![3, 5]);
/// let (values, i, j) = intersect1d_indices(&x, &y, 2, 0);
/// assert_eq!(values.to_vec::<i32>()?, [3, 5]);
/// assert_eq!((i.to_vec::<i32>()?, j.to_vec::<i32>()?), (vec![2, 0], vec![0, 1]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "return_indices")]
#[track_caller]
pub fn intersect1d_indices(
    x: &Array,
    y: &Array,
    size: usize,
    fill_value: impl Into<Scalar>,
) -> (Array, Array, Array) {
    let [x, y] = flat_pair(x, y);
    let (values, is_valid) = distinct(&x);
    let is_common = is_valid & isin(&values, &y);
    let count = convert_element_type(&is_common, DType::I32).sum();
    let common = extract(&is_common, &values, size, fill_value);
    let is_valid = lt(iota(DType::I32, size), count);
    let first = |from: &Array| {
        let order = argsort(from, 0);
        let options = SearchsortedOptions { sorter: Some(&order), ..Default::default() };
        let index = searchsorted_with(from, &common, options);
        where_(&is_valid, take(&order, &index, 0), from.size() as i32)
    };
    let (i, j) = (first(&x), first(&y));
    (common, i, j)
}

/// Returns the sorted values of `x` that are not in `y`: `[size]`, padded with `fill_value`.
#[track_caller]
pub fn setdiff1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let (values, is_valid) = distinct(&x);
    extract(&(is_valid & !isin(&values, &y)), &values, size, fill_value)
}

/// Returns the sorted values that are in exactly one of `x` and `y`: `[size]`, padded with
/// `fill_value`.
#[track_caller]
pub fn setxor1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let ((a, a_valid), (b, b_valid)) = (distinct(&x), distinct(&y));
    let masks = [a_valid & !isin(&a, &y), b_valid & !isin(&b, &x)];
    let (mask, values) = (concatenate(&masks, 0), concatenate([&a, &b], 0));
    let count = convert_element_type(&mask, DType::I32).sum();
    // Selected values are sorted to the front.
    let sorted = sort_multi(&[!mask, values], 0, 2).swap_remove(1);
    let n = sorted.size();
    let padded = resize(&sorted, [size.max(n)]);
    let values = slice(&padded, &[0], &[size], &[1]);
    let is_valid = lt(iota(DType::I32, size), count);
    where_(&is_valid, &values, fill_of(fill_value.into(), values.aval()))
}
