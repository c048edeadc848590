//! Arrays as sets.

use super::super::{result_type, searchsorted, take};
use super::nonzero::extract;
use super::unique::{Unique, unique, unique_all};
use crate::core::{Array, DType, Scalar};
use crate::primitives::{
    ArrayLike, concatenate, convert_element_type, eq, fill_of, gt, iota, lt, minimum, reshape,
    slice, sort, sort_multi, where_,
};

/// Up to this many comparisons every element is compared with every other.
const COMPARISONS: usize = 1 << 14;

/// Both flattened, in the dtype that they promote to.
#[track_caller]
fn flat_pair(x: &Array, y: &Array) -> [Array; 2] {
    let (x, y) = (reshape(x, [x.size()]), reshape(y, [y.size()]));
    let dtype = result_type([x.like(), y.like()]);
    [convert_element_type(&x, dtype), convert_element_type(&y, dtype)]
}

/// Whether each element of `x` is among the elements of `y`, as `bool` in the shape of `x`. NaN is
/// among nothing.
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
    let at = minimum(searchsorted(&ordered, &flat), last);
    reshape(&eq(take(&ordered, &at, 0), &flat), x.shape())
}

/// The values of `x` once each, and which of them are there.
#[track_caller]
fn distinct(x: &Array) -> (Array, Array) {
    let Unique { values, counts, .. } = unique_all(x, x.size(), 0);
    (values, gt(counts, 0))
}

/// The values that are in `x`, in `y` or in both, smallest first: `[size]`, the rest `fill_value`.
#[track_caller]
pub fn union1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    unique(&concatenate(&[&x, &y], 0), size, fill_value)
}

/// The values that are in both `x` and `y`, smallest first: `[size]`, the rest `fill_value`.
#[track_caller]
pub fn intersect1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let (values, there) = distinct(&x);
    extract(&(there & isin(&values, &y)), &values, size, fill_value)
}

/// The values of `x` that are not in `y`, smallest first: `[size]`, the rest `fill_value`.
#[track_caller]
pub fn setdiff1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let (values, there) = distinct(&x);
    extract(&(there & !isin(&values, &y)), &values, size, fill_value)
}

/// The values that are in one of `x` and `y` and not in the other, smallest first: `[size]`, the rest
/// `fill_value`.
#[track_caller]
pub fn setxor1d(x: &Array, y: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    let [x, y] = flat_pair(x, y);
    let ((a, a_there), (b, b_there)) = (distinct(&x), distinct(&y));
    let wanted = [a_there & !isin(&a, &y), b_there & !isin(&b, &x)];
    let (mask, values) = (concatenate(&wanted, 0), concatenate(&[&a, &b], 0));
    let count = convert_element_type(&mask, DType::I32).sum();
    // What is wanted comes first, in order.
    let sorted = sort_multi(&[!mask, values], 0, 2).swap_remove(1);
    let n = sorted.size();
    let enough = super::super::resize(&sorted, [size.max(n)]);
    let chosen = slice(&enough, &[0], &[size], &[1]);
    let there = lt(iota(DType::I32, size), count);
    where_(&there, &chosen, fill_of(fill_value.into(), chosen.aval()))
}
