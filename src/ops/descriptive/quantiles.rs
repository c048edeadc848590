//! Quantiles.

use super::super::axes::Axes;
use super::super::{isnan, result_type, take, take_along_axis};
use crate::core::{Array, DType, Loc, RuleError, Shape, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{
    ArrayLike, Like, add, bitwise_or, broadcast_in_dim, broadcast_to, ceil, clamp,
    convert_element_type, cumsum, div, eq, expand_dims, fill_of, floor, full_like, le, lt, maximum,
    minimum, mul, reshape, slice_in_dim, sort, sort_key_val, sub, where_,
};

/// Value of a quantile between two elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantileMethod {
    /// Linear interpolation.
    #[default]
    Linear,
    /// The lower element.
    Lower,
    /// The higher element.
    Higher,
    /// The mean of both elements.
    Midpoint,
    /// The nearer element, or the lower one if both are equally near.
    Nearest,
    /// The first element at which the sum of the weights so far reaches `q` times their total.
    /// Without weights, each element has weight 1.
    InvertedCdf,
}

/// Options of [`quantile_with`], [`percentile_with`] and their variants without NaN.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, counts) = (array![1.0, 2.0, 3.0], array![1.0, 1.0, 5.0]);
/// let method = QuantileMethod::InvertedCdf;
/// let options = QuantileOptions { method, weights: Some(&counts) };
/// assert_eq!(quantile_with(&x, 0.5, 0, options).item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct QuantileOptions<'a> {
    /// The value of a quantile between two elements. The default is linear interpolation.
    pub method: QuantileMethod,
    /// The weight of each element: an array of the operand's shape, or of the sizes of the reduced
    /// axes. Only [`QuantileMethod::InvertedCdf`] takes weights. A quantile of weights of which one
    /// is negative or NaN is NaN. Weights have no derivative.
    pub weights: Option<&'a Array>,
}

/// Returns the quantiles `q`, between 0 and 1, along `axes`: element `q * (n - 1)` of the sorted
/// elements, interpolated linearly. NaN if there is a NaN.
///
/// `q` is a number, or a vector `[k]`, which adds an axis of size `k` in front. Integers become
/// floats. Throws `Op` (shape) over an empty axis and for `q` of higher rank, and `Op` (dtype) for
/// complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, q) = (Aval::new(DType::F32, [5, 8]), Aval::new(DType::F32, [3]));
/// let y = eval_shape(|x: Array, q: Array| quantile(&x, &q, -1), (x, q))?;
/// assert_eq!(y.aval().to_string(), "f32[3,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn quantile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    quantile_with(x, q, axes, QuantileOptions::default())
}

/// Returns quantiles, as [`quantile`], by another method.
#[track_caller]
pub fn quantile_with(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    options: QuantileOptions<'_>,
) -> Array {
    compute("quantile", x, q.like(), axes.into(), options, Nan::Propagate)
}

/// Returns quantiles, as [`quantile`], of the elements that are not NaN; NaN where all are.
#[track_caller]
pub fn nanquantile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    nanquantile_with(x, q, axes, QuantileOptions::default())
}

/// Returns quantiles without NaN, as [`nanquantile`], by another method.
#[track_caller]
pub fn nanquantile_with(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    options: QuantileOptions<'_>,
) -> Array {
    compute("nanquantile", x, q.like(), axes.into(), options, Nan::Ignore)
}

/// Returns [`quantile`] for `q` in percent.
#[track_caller]
pub fn percentile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    percentile_with(x, q, axes, QuantileOptions::default())
}

/// Returns [`quantile_with`] for `q` in percent.
#[track_caller]
pub fn percentile_with(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    options: QuantileOptions<'_>,
) -> Array {
    quantile_with(x, div(q, 100.0), axes, options)
}

/// Returns [`nanquantile`] for `q` in percent.
#[track_caller]
pub fn nanpercentile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    nanpercentile_with(x, q, axes, QuantileOptions::default())
}

/// Returns [`nanquantile_with`] for `q` in percent.
#[track_caller]
pub fn nanpercentile_with(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    options: QuantileOptions<'_>,
) -> Array {
    nanquantile_with(x, div(q, 100.0), axes, options)
}

/// Returns the middle element along `axes`, or the mean of the two middle ones; NaN if there is a
/// NaN. Integers become floats. Throws `Op` (shape) over an empty axis.
#[track_caller]
pub fn median(x: &Array, axes: impl Into<Axes>) -> Array {
    quantile(x, 0.5, axes)
}

/// Returns the [`median`] of the elements that are not NaN; NaN where all are.
#[track_caller]
pub fn nanmedian(x: &Array, axes: impl Into<Axes>) -> Array {
    nanquantile(x, 0.5, axes)
}

/// Treatment of NaN by [`compute`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nan {
    Propagate,
    Ignore,
}

/// Widens a dtype to at least 32 bits, since `bf16` does not represent all indices above 256.
fn index_dtype(dtype: DType) -> DType {
    if dtype.bits() < 32 { DType::F32 } else { dtype }
}

#[track_caller]
fn compute(
    name: &str,
    x: &Array,
    q: Like<'_>,
    axes: Axes,
    options: QuantileOptions<'_>,
    nan: Nan,
) -> Array {
    let QuantileOptions { method, weights } = options;
    let joint = match weights {
        Some(weights) => result_type([Like::Array(x), q, Like::Array(weights)]),
        None => result_type([Like::Array(x), q]),
    };
    let dtype = if joint.is_inexact() { joint } else { DType::F32 };
    let q = match q {
        Like::Array(q) => convert_element_type(q, index_dtype(dtype)),
        Like::Scalar(value) => {
            fill_of(value, &crate::core::Aval::new(index_dtype(dtype), Shape::scalar()))
        }
    };
    let x = convert_element_type(x, dtype);
    let rows = axes.flattened_last(name, &x);
    let last = rows.rank() - 1;
    let n = rows.shape()[last];
    let error = match (dtype.is_complex(), n, q.rank()) {
        (true, ..) => Some(RuleError::dtype(format!("complex numbers have no order, got {dtype}"))),
        (_, 0, _) => Some(RuleError::shape("the axes are empty, and no elements have no quantile")),
        (.., 0 | 1) => None,
        (.., rank) => {
            let message = format!("takes a number or a vector of quantiles, got rank {rank}");
            Some(RuleError::shape(message))
        }
    };
    if let Some(error) = error {
        trace::throw_operands(name, error, &[&x, &q]);
    }
    let list = reshape(&q, [q.size()]);
    let weights = weights_of_rows(name, &x, &axes, options);
    let sorted = match &weights {
        Some(_) => rows.clone(),
        None => sort(&rows, -1),
    };
    let values = match (&weights, nan) {
        (Some(weights), _) => by_weights(&rows, weights, &list, nan),
        (None, Nan::Ignore) => {
            let count = convert_element_type(&!isnan(&rows), list.dtype());
            let highest = sub(count.sum_axes(super::super::axes(-1).keepdims()), 1.0);
            let index = mul(&highest, &list);
            between(&sorted, &index, method)
        }
        (None, Nan::Propagate) => {
            let index = mul(&list, (n - 1) as f64);
            let value = between(&sorted, &index, method);
            // NaN is sorted to the end.
            let has_nan = isnan(super::super::axis_slice::slice_axis(&sorted, last, n - 1, n));
            where_(&has_nan, full_like(&value, f64::NAN), &value)
        }
    };
    let kept = axes.result_shape(name, &x);
    match q.rank() {
        0 => reshape(&values, kept),
        _ => reshape(&move_axis(&values, last, 0), kept.insert(0, q.size())),
    }
}

/// Returns the weights of the elements, reduced axes last as in the rows of `x`, in at least 32
/// bits; `None` for methods that interpolate.
#[track_caller]
fn weights_of_rows(
    name: &str,
    x: &Array,
    axes: &Axes,
    options: QuantileOptions<'_>,
) -> Option<Array> {
    let dtype = index_dtype(x.dtype());
    if options.method != QuantileMethod::InvertedCdf {
        let weights = options.weights?;
        let message = format!("the method {:?} takes no weights", options.method);
        let error = RuleError::unsupported(message).help("use QuantileMethod::InvertedCdf");
        trace::throw_operands(name, error, &[x, weights]);
    }
    let Some(weights) = options.weights else {
        let ones = full_like(&convert_element_type(x, dtype), 1.0);
        return Some(axes.flattened_last(name, &ones));
    };
    let reduced = axes.resolve(name, x);
    let sizes: Vec<usize> = reduced.iter().map(|&axis| x.shape()[axis]).collect();
    let error = if weights.dtype().is_complex() {
        Some(RuleError::dtype(format!("weights cannot be complex, got {}", weights.dtype())))
    } else if weights.shape() != x.shape() && weights.shape().dims() != sizes {
        Some(RuleError::shape(format!(
            "weights must have the shape of the operand, {}, or of the reduced axes, {sizes:?}, \
             got {}",
            x.shape(),
            weights.shape()
        )))
    } else {
        None
    };
    if let Some(error) = error {
        trace::throw_operands(name, error, &[x, weights]);
    }
    let weights = convert_element_type(weights, dtype);
    let full = match weights.shape() == x.shape() {
        true => weights,
        false => broadcast_in_dim(&weights, x.shape().clone(), &reduced),
    };
    Some(axes.flattened_last(name, &full))
}

/// Returns the quantiles of weighted rows: the first element in order at which the cumulative
/// weight reaches the fraction `list` of the total.
#[track_caller]
fn by_weights(rows: &Array, weights: &Array, list: &Array, nan: Nan) -> Array {
    let n = rows.shape()[rows.rank() - 1];
    Loc::caller().scope(|| {
        let (sorted, weights) = sort_key_val(rows, weights, -1);
        let is_nan = isnan(&sorted);
        let bad = bitwise_or(lt(&weights, 0.0), isnan(&weights));
        let weights = where_(bitwise_or(&bad, &is_nan), 0.0, &weights);
        let reached = cumsum(&weights, -1);
        let total = slice_in_dim(&reached, n as isize - 1, n as isize, 1, -1);
        let wanted = mul(&total, convert_element_type(list, weights.dtype()));
        let before = lt(expand_dims(&reached, &[-2]), expand_dims(&wanted, &[-1]));
        let index = convert_element_type(&before, DType::I32).sum_axes(-1);
        let keep = || super::super::axes(-1).keepdims();
        let count = convert_element_type(&!&is_nan, DType::I32).sum_axes(keep());
        let last = match nan {
            Nan::Ignore => sub(&count, 1),
            Nan::Propagate => full_like(&count, n as f64 - 1.0),
        };
        let index = maximum(minimum(&index, last), 0);
        let value = take_along_axis(&sorted, &index, -1);
        let undefined = match nan {
            Nan::Ignore => eq(&count, 0),
            Nan::Propagate => is_nan.any_axes(keep()),
        };
        where_(bitwise_or(&undefined, bad.any_axes(keep())), full_like(&value, f64::NAN), &value)
    })
}

/// Returns the values at fractional indices along the last axis of sorted rows. The indices are
/// shared by all rows, or given for each row.
#[track_caller]
fn between(sorted: &Array, index: &Array, method: QuantileMethod) -> Array {
    let highest = (sorted.shape()[sorted.rank() - 1] - 1) as f64;
    let (low, high) = (floor(index), ceil(index));
    let value = |index: &Array| {
        let index = convert_element_type(&clamp(0.0, index, highest), DType::I32);
        if index.rank() == sorted.rank() {
            take_along_axis(sorted, &index, -1)
        } else {
            take(sorted, &index, -1)
        }
    };
    Loc::caller().scope(|| match method {
        QuantileMethod::Lower => value(&low),
        QuantileMethod::Higher => value(&high),
        QuantileMethod::Midpoint => mul(add(value(&low), value(&high)), 0.5),
        QuantileMethod::Nearest => {
            let low_is_near = le(sub(index, &low), 0.5);
            where_(&low_is_near, value(&low), value(&high))
        }
        QuantileMethod::Linear => {
            let (below, above) = (value(&low), value(&high));
            let weight = broadcast_to(&sub(index, &low), below.shape());
            let weight = convert_element_type(&weight, below.dtype());
            let mixed = add(mul(&below, sub(1.0, &weight)), mul(&above, &weight));
            // An infinity times zero would be NaN.
            where_(eq(&weight, 0.0), below, mixed)
        }
        QuantileMethod::InvertedCdf => unreachable!("`by_weights` computes it"),
    })
}
