//! Assertions about shapes.

use super::failure::{fail_shape, is_enabled};
use oxidax::prelude::*;

/// An axis in the pattern of [`assert_shape`]. Numbers convert to it: -1 is [`Any`](Self::Any).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedDim {
    /// An axis of this size.
    Size(usize),
    /// An axis of any size.
    Any,
    /// Any number of axes.
    Rest,
}

impl From<i32> for ExpectedDim {
    fn from(size: i32) -> ExpectedDim {
        usize::try_from(size).map_or(ExpectedDim::Any, ExpectedDim::Size)
    }
}

impl From<usize> for ExpectedDim {
    fn from(size: usize) -> ExpectedDim {
        ExpectedDim::Size(size)
    }
}

impl From<Option<usize>> for ExpectedDim {
    fn from(size: Option<usize>) -> ExpectedDim {
        size.map_or(ExpectedDim::Any, ExpectedDim::Size)
    }
}

/// Throws `Op` (shape) unless `x` has this shape. -1 or [`ExpectedDim::Any`] stand for any size,
/// and [`ExpectedDim::Rest`] for any number of axes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::{ExpectedDim, assert_shape};
/// let x = ones([2, 3, 4]);
/// assert_shape(&x, [2, 3, 4]);
/// assert_shape(&x, [-1, 3, 4]);
/// assert_shape(&x, [ExpectedDim::Size(2), ExpectedDim::Rest]);
/// let error = catch(|| assert_shape(&x, [2, 3])).unwrap_err();
/// assert!(error.to_string().contains("assert_shape"));
/// ```
#[track_caller]
pub fn assert_shape<D: Into<ExpectedDim>>(x: &Array, expected: impl IntoIterator<Item = D>) {
    let pattern: Vec<ExpectedDim> = expected.into_iter().map(Into::into).collect();
    if is_enabled() && !matches(x.shape().dims(), &pattern) {
        let message = format!("{} does not have the shape {}", x.aval(), text(&pattern));
        fail_shape("assert_shape", message, &[x]);
    }
}

fn matches(dims: &[usize], pattern: &[ExpectedDim]) -> bool {
    match (dims, pattern) {
        ([], []) => true,
        (_, [ExpectedDim::Rest, rest @ ..]) => {
            (0..=dims.len()).any(|skipped| matches(&dims[skipped..], rest))
        }
        ([_, dims @ ..], [ExpectedDim::Any, rest @ ..]) => matches(dims, rest),
        ([dim, dims @ ..], [ExpectedDim::Size(size), rest @ ..]) => {
            dim == size && matches(dims, rest)
        }
        _ => false,
    }
}

fn text(pattern: &[ExpectedDim]) -> String {
    let dim = |dim: &ExpectedDim| match dim {
        ExpectedDim::Size(size) => size.to_string(),
        ExpectedDim::Any => "any".to_owned(),
        ExpectedDim::Rest => "…".to_owned(),
    };
    format!("[{}]", pattern.iter().map(dim).collect::<Vec<_>>().join(","))
}

/// Throws `Op` (shape) unless the first axes of `x` have these sizes.
#[track_caller]
pub fn assert_shape_prefix(x: &Array, prefix: &[usize]) {
    if is_enabled() && !x.shape().dims().starts_with(prefix) {
        let message = format!("the shape of {} does not begin with {prefix:?}", x.aval());
        fail_shape("assert_shape_prefix", message, &[x]);
    }
}

/// Throws `Op` (shape) unless the last axes of `x` have these sizes.
#[track_caller]
pub fn assert_shape_suffix(x: &Array, suffix: &[usize]) {
    if is_enabled() && !x.shape().dims().ends_with(suffix) {
        let message = format!("the shape of {} does not end with {suffix:?}", x.aval());
        fail_shape("assert_shape_suffix", message, &[x]);
    }
}

/// Throws `Op` (shape) unless `x` has this number of axes.
#[track_caller]
pub fn assert_rank(x: &Array, rank: usize) {
    if is_enabled() && x.rank() != rank {
        fail_shape("assert_rank", format!("{} does not have rank {rank}", x.aval()), &[x]);
    }
}

/// Throws `Op` (shape) unless the number of axes of `x` is one of these.
#[track_caller]
pub fn assert_rank_in(x: &Array, ranks: &[usize]) {
    if is_enabled() && !ranks.contains(&x.rank()) {
        let message = format!("the rank of {} is not one of {ranks:?}", x.aval());
        fail_shape("assert_rank_in", message, &[x]);
    }
}

/// Throws `Op` (shape) unless `x` has this number of elements.
#[track_caller]
pub fn assert_size(x: &Array, size: usize) {
    if is_enabled() && x.size() != size {
        let message = format!("{} has {} elements, not {size}", x.aval(), x.size());
        fail_shape("assert_size", message, &[x]);
    }
}

/// Throws `Op` (shape) unless all arrays have one shape.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_equal_shape;
/// let (a, b) = (ones([2, 3]), zeros([2, 3]));
/// assert_equal_shape([&a, &b]);
/// assert!(catch(|| assert_equal_shape([&a, &ones([3])])).is_err());
/// ```
#[track_caller]
pub fn assert_equal_shape<'a>(arrays: impl IntoIterator<Item = &'a Array>) {
    expect_equal("assert_equal_shape", arrays, |x| x.shape().dims().to_vec());
}

/// Throws `Op` (shape) unless the first `n` axes of all arrays have equal sizes.
#[track_caller]
pub fn assert_equal_shape_prefix<'a>(arrays: impl IntoIterator<Item = &'a Array>, n: usize) {
    let prefix = |x: &Array| x.shape().dims().get(..n).map(<[usize]>::to_vec);
    expect_equal("assert_equal_shape_prefix", arrays, prefix);
}

/// Throws `Op` (shape) unless the last `n` axes of all arrays have equal sizes.
#[track_caller]
pub fn assert_equal_shape_suffix<'a>(arrays: impl IntoIterator<Item = &'a Array>, n: usize) {
    let suffix = |x: &Array| {
        let first = x.rank().checked_sub(n)?;
        Some(x.shape().dims()[first..].to_vec())
    };
    expect_equal("assert_equal_shape_suffix", arrays, suffix);
}

/// Throws `Op` (shape) unless all arrays have one number of axes.
#[track_caller]
pub fn assert_equal_rank<'a>(arrays: impl IntoIterator<Item = &'a Array>) {
    expect_equal("assert_equal_rank", arrays, Array::rank);
}

/// Throws `Op` (shape) unless all arrays have one number of elements.
#[track_caller]
pub fn assert_equal_size<'a>(arrays: impl IntoIterator<Item = &'a Array>) {
    expect_equal("assert_equal_size", arrays, Array::size);
}

#[track_caller]
fn expect_equal<'a, K: PartialEq>(
    name: &str,
    arrays: impl IntoIterator<Item = &'a Array>,
    key: impl Fn(&Array) -> K,
) {
    if !is_enabled() {
        return;
    }
    let arrays: Vec<&Array> = arrays.into_iter().collect();
    if arrays.windows(2).any(|pair| key(pair[0]) != key(pair[1])) {
        let avals: Vec<String> = arrays.iter().map(|x| x.aval().to_string()).collect();
        fail_shape(name, format!("the arrays differ: {}", avals.join(", ")), &arrays);
    }
}

/// Throws `Op` (shape) unless an axis of `x` has this size. Negative axes count from the end.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::{assert_axis_dimension, assert_axis_dimension_gt};
/// let x = ones([2, 3]);
/// assert_axis_dimension(&x, -1, 3);
/// assert!(catch(|| assert_axis_dimension_gt(&x, 0, 2)).is_err());
/// ```
#[track_caller]
pub fn assert_axis_dimension(x: &Array, axis: isize, size: usize) {
    expect_axis("assert_axis_dimension", x, axis, "equal to", size, |dim| dim == size);
}

/// Throws `Op` (shape) unless an axis of `x` is larger than `size`.
#[track_caller]
pub fn assert_axis_dimension_gt(x: &Array, axis: isize, size: usize) {
    expect_axis("assert_axis_dimension_gt", x, axis, "greater than", size, |dim| dim > size);
}

/// Throws `Op` (shape) unless an axis of `x` has at least this size.
#[track_caller]
pub fn assert_axis_dimension_gteq(x: &Array, axis: isize, size: usize) {
    expect_axis("assert_axis_dimension_gteq", x, axis, "at least", size, |dim| dim >= size);
}

/// Throws `Op` (shape) unless an axis of `x` is smaller than `size`.
#[track_caller]
pub fn assert_axis_dimension_lt(x: &Array, axis: isize, size: usize) {
    expect_axis("assert_axis_dimension_lt", x, axis, "less than", size, |dim| dim < size);
}

/// Throws `Op` (shape) unless an axis of `x` has at most this size.
#[track_caller]
pub fn assert_axis_dimension_lteq(x: &Array, axis: isize, size: usize) {
    expect_axis("assert_axis_dimension_lteq", x, axis, "at most", size, |dim| dim <= size);
}

/// Throws `Op` (shape) unless `holds` returns true for the size of an axis of `x` and `size`.
/// `description` completes the error: "axis 0 is 3, not …".
#[track_caller]
pub fn assert_axis_dimension_comparator(
    x: &Array,
    axis: isize,
    size: usize,
    holds: impl FnOnce(usize, usize) -> bool,
    description: &str,
) {
    let name = "assert_axis_dimension_comparator";
    expect_axis(name, x, axis, description, size, |dim| holds(dim, size));
}

#[track_caller]
fn expect_axis(
    name: &str,
    x: &Array,
    axis: isize,
    relation: &str,
    size: usize,
    holds: impl FnOnce(usize) -> bool,
) {
    if !is_enabled() {
        return;
    }
    let position = if axis < 0 { axis + x.rank() as isize } else { axis };
    let dim = usize::try_from(position).ok().and_then(|axis| x.shape().get(axis).copied());
    match dim {
        None => fail_shape(name, format!("{} does not have an axis {axis}", x.aval()), &[x]),
        Some(dim) if !holds(dim) => {
            let message = format!("axis {axis} of {} is {dim}, not {relation} {size}", x.aval());
            fail_shape(name, message, &[x])
        }
        Some(_) => {}
    }
}

/// Throws `Op` (shape) unless `shape` broadcasts to `target`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_is_broadcastable;
/// assert_is_broadcastable(&[3, 1], &[2, 3, 4]);
/// assert!(catch(|| assert_is_broadcastable(&[3, 1], &[2, 4])).is_err());
/// ```
#[track_caller]
pub fn assert_is_broadcastable(shape: &[usize], target: &[usize]) {
    let fits = shape.len() <= target.len()
        && shape.iter().rev().zip(target.iter().rev()).all(|(&a, &b)| a == b || a == 1);
    if is_enabled() && !fits {
        let message = format!("{shape:?} does not broadcast to {target:?}");
        fail_shape("assert_is_broadcastable", message, &[]);
    }
}

/// Throws `Op` (shape) unless `divisor` divides `numerator`.
#[track_caller]
pub fn assert_is_divisible(numerator: usize, divisor: usize) {
    if is_enabled() && !numerator.is_multiple_of(divisor) {
        let message = format!("{numerator} is not divisible by {divisor}");
        fail_shape("assert_is_divisible", message, &[]);
    }
}
