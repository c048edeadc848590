//! Quantiles, by sorting.

use super::super::axes::Axes;
use super::super::{isnan, result_type, take, take_along_axis};
use crate::core::{Array, DType, RuleError, Shape, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{
    ArrayLike, Like, add, broadcast_to, ceil, clamp, convert_element_type, div, eq, fill_of, floor,
    full_like, le, mul, reshape, sort, sub, where_,
};

/// What stands for a quantile that lies between two elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantileMethod {
    /// The point on the straight line between them.
    #[default]
    Linear,
    /// The lower element.
    Lower,
    /// The higher element.
    Higher,
    /// Their mean.
    Midpoint,
    /// The nearer element, the lower one if both are equally near.
    Nearest,
}

/// The quantiles `q`, between 0 and 1, along `axes`: element `q * (n - 1)` of the sorted elements,
/// interpolated linearly. NaN if there is a NaN. See [`quantile_by`].
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
    of("quantile", x, q.like(), axes.into(), QuantileMethod::Linear, false)
}

/// As [`quantile`] with another way to deal with places between two elements.
///
/// `q` is a number, for a result of the reduced shape, or a vector `[k]`, for one with an axis of `k`
/// in front. Integers become floats. Derivatives go to the elements that the result is made of.
/// Throws `Op` (shape) over an empty axis and for `q` of higher rank, `Op` (dtype) for complex operands.
#[track_caller]
pub fn quantile_by(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    method: QuantileMethod,
) -> Array {
    of("quantile", x, q.like(), axes.into(), method, false)
}

/// As [`quantile`], without the elements that are NaN; NaN where no other is left.
#[track_caller]
pub fn nanquantile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    of("nanquantile", x, q.like(), axes.into(), QuantileMethod::Linear, true)
}

/// As [`quantile_by`], without the elements that are NaN; NaN where no other is left.
#[track_caller]
pub fn nanquantile_by(
    x: &Array,
    q: impl ArrayLike,
    axes: impl Into<Axes>,
    method: QuantileMethod,
) -> Array {
    of("nanquantile", x, q.like(), axes.into(), method, true)
}

/// As [`quantile`] with `q` in percent.
#[track_caller]
pub fn percentile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    quantile(x, div(q, 100.0), axes)
}

/// As [`nanquantile`] with `q` in percent.
#[track_caller]
pub fn nanpercentile(x: &Array, q: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    nanquantile(x, div(q, 100.0), axes)
}

/// The middle element along `axes`, the mean of the two middle ones of an even number; NaN if there is
/// a NaN. Integers become floats. Throws `Op` (shape) over an empty axis.
#[track_caller]
pub fn median(x: &Array, axes: impl Into<Axes>) -> Array {
    quantile(x, 0.5, axes)
}

/// As [`median`], without the elements that are NaN; NaN where no other is left.
#[track_caller]
pub fn nanmedian(x: &Array, axes: impl Into<Axes>) -> Array {
    nanquantile(x, 0.5, axes)
}

/// At least 32 bits: positions above 256 are no `bf16`.
fn fine(dtype: DType) -> DType {
    if dtype.bits() < 32 { DType::F32 } else { dtype }
}

#[track_caller]
fn of(
    name: &str,
    x: &Array,
    q: Like<'_>,
    axes: Axes,
    method: QuantileMethod,
    skip_nan: bool,
) -> Array {
    let joint = result_type([Like::Array(x), q]);
    let dtype = if joint.is_inexact() { joint } else { DType::F32 };
    let q = match q {
        Like::Array(q) => convert_element_type(q, fine(dtype)),
        Like::Scalar(value) => {
            fill_of(value, &crate::core::Aval::new(fine(dtype), Shape::scalar()))
        }
    };
    let x = convert_element_type(x, dtype);
    let rows = axes.flattened_last(name, &x);
    let last = rows.rank() - 1;
    let n = rows.shape()[last];
    let wrong = match (dtype.is_complex(), n, q.rank()) {
        (true, ..) => Some(RuleError::dtype(format!("complex numbers have no order, got {dtype}"))),
        (_, 0, _) => Some(RuleError::shape("the axes are empty: no elements have no quantile")),
        (.., 0 | 1) => None,
        (.., rank) => {
            let message = format!("takes a number or a vector of quantiles, got rank {rank}");
            Some(RuleError::shape(message))
        }
    };
    if let Some(error) = wrong {
        trace::throw_operands(name, error, &[&x, &q]);
    }
    let sorted = sort(&rows, -1);
    let list = reshape(&q, [q.size()]);
    let picked = match skip_nan {
        true => {
            let there = convert_element_type(&!isnan(&rows), list.dtype());
            let highest = sub(there.sum_axes(super::super::axes(-1).keepdims()), 1.0);
            let place = mul(&highest, &list);
            between(&sorted, &place, method)
        }
        false => {
            let place = mul(&list, (n - 1) as f64);
            let value = between(&sorted, &place, method);
            // NaN is sorted to the end.
            let spoilt = isnan(&super::super::axis_slice::slice_axis(&sorted, last, n - 1, n));
            where_(&spoilt, full_like(&value, f64::NAN), &value)
        }
    };
    let kept = axes.result_shape(name, &x);
    match q.rank() {
        0 => reshape(&picked, kept),
        _ => reshape(&move_axis(&picked, last, 0), kept.insert(0, q.size())),
    }
}

/// The values at fractional places along the last axis of sorted rows: of all rows, or places of each.
#[track_caller]
fn between(sorted: &Array, place: &Array, method: QuantileMethod) -> Array {
    let highest = (sorted.shape()[sorted.rank() - 1] - 1) as f64;
    let (low, high) = (floor(place), ceil(place));
    let value = |at: &Array| {
        let at = convert_element_type(&clamp(0.0, at, highest), DType::I32);
        match at.rank() == sorted.rank() {
            true => take_along_axis(sorted, &at, -1),
            false => take(sorted, &at, -1),
        }
    };
    trace::from_caller(|| match method {
        QuantileMethod::Lower => value(&low),
        QuantileMethod::Higher => value(&high),
        QuantileMethod::Midpoint => mul(add(value(&low), value(&high)), 0.5),
        QuantileMethod::Nearest => {
            let low_is_near = le(sub(place, &low), 0.5);
            where_(&low_is_near, value(&low), value(&high))
        }
        QuantileMethod::Linear => {
            let (below, above) = (value(&low), value(&high));
            let weight = broadcast_to(&sub(place, &low), below.shape());
            let weight = convert_element_type(&weight, below.dtype());
            let mixed = add(mul(&below, sub(1.0, &weight)), mul(&above, &weight));
            // An infinity times zero would be NaN.
            where_(&eq(&weight, 0.0), below, mixed)
        }
    })
}
