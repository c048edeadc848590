//! Maxima and minima that ignore NaN.

use super::super::axes::Axes;
use super::super::isnan;
use super::nan_sums::replace_nan;
use crate::core::Array;
use crate::primitives::{full_like, where_};

/// Replaces `extremum` by NaN where all elements of `x` along `axes` are NaN.
#[track_caller]
fn nan_if_all_nan(extremum: &Array, x: &Array, axes: Axes) -> Array {
    if !x.dtype().is_inexact() {
        return extremum.clone();
    }
    where_(isnan(x).all_axes(axes), full_like(extremum, f64::NAN), extremum)
}

/// Returns the largest element along `axes` without NaN; NaN where all elements are NaN. Throws
/// `Op` (shape) over an empty axis.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| nanmax(&x, [0, 1]), Aval::new(DType::F32, [4, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn nanmax(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    let extremum = replace_nan(x, f64::NEG_INFINITY).max_axes(axes.clone());
    nan_if_all_nan(&extremum, x, axes)
}

/// Returns the smallest element along `axes` without NaN; NaN where all elements are NaN. Throws
/// `Op` (shape) over an empty axis.
#[track_caller]
pub fn nanmin(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    let extremum = replace_nan(x, f64::INFINITY).min_axes(axes.clone());
    nan_if_all_nan(&extremum, x, axes)
}

/// Replaces `index` by -1 where all elements of `x` along `axis` are NaN.
#[track_caller]
fn negative_if_all_nan(index: &Array, x: &Array, axis: Axes) -> Array {
    if !x.dtype().is_inexact() {
        return index.clone();
    }
    where_(isnan(x).all_axes(axis), -1, index)
}

/// Returns the index along `axis` of the largest element that is not NaN, `i32`; -1 where all
/// elements are NaN. JAX's default is `Axes::all()`, the flattened array. See
/// [`Array::argmax_axis`] for axes and errors.
#[track_caller]
pub fn nanargmax(x: &Array, axis: impl Into<Axes>) -> Array {
    let axis = axis.into();
    let index = replace_nan(x, f64::NEG_INFINITY).argmax_axis(axis.clone());
    negative_if_all_nan(&index, x, axis)
}

/// Returns the index along `axis` of the smallest element that is not NaN, `i32`; -1 where all
/// elements are NaN. JAX's default is `Axes::all()`, the flattened array. See
/// [`Array::argmax_axis`] for axes and errors.
#[track_caller]
pub fn nanargmin(x: &Array, axis: impl Into<Axes>) -> Array {
    let axis = axis.into();
    let index = replace_nan(x, f64::INFINITY).argmin_axis(axis.clone());
    negative_if_all_nan(&index, x, axis)
}
