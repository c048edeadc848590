//! Extrema that leave NaN out.

use super::super::axes::Axes;
use super::super::isnan;
use super::nan_sums::filled;
use crate::core::Array;
use crate::primitives::{full_like, where_};

/// NaN where all of `x` along `axes` is NaN, else what was found.
#[track_caller]
fn unless_all_nan(found: &Array, x: &Array, axes: Axes) -> Array {
    match x.dtype().is_inexact() {
        true => where_(&isnan(x).all_axes(axes), full_like(found, f64::NAN), found),
        false => found.clone(),
    }
}

/// Largest element along `axes` that is no NaN; NaN where nothing else is. Throws `Op` (shape) over an
/// empty axis.
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
    let found = filled(x, f64::NEG_INFINITY).max_axes(axes.clone());
    unless_all_nan(&found, x, axes)
}

/// Smallest element along `axes` that is no NaN; NaN where nothing else is. Throws `Op` (shape) over an
/// empty axis.
#[track_caller]
pub fn nanmin(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    let found = filled(x, f64::INFINITY).min_axes(axes.clone());
    unless_all_nan(&found, x, axes)
}

/// -1 where all of `x` along `axis` is NaN, else what was found.
#[track_caller]
fn unless_none(found: &Array, x: &Array, axis: isize) -> Array {
    match x.dtype().is_inexact() {
        true => where_(&isnan(x).all_axes(axis), -1, found),
        false => found.clone(),
    }
}

/// Index along `axis` of the largest element that is no NaN, `i32`; -1 where nothing else is. For the
/// flattened array flatten first. Throws `Op` (shape) over an empty axis.
#[track_caller]
pub fn nanargmax(x: &Array, axis: isize) -> Array {
    unless_none(&filled(x, f64::NEG_INFINITY).argmax_axis(axis), x, axis)
}

/// Index along `axis` of the smallest element that is no NaN, `i32`; -1 where nothing else is. For the
/// flattened array flatten first. Throws `Op` (shape) over an empty axis.
#[track_caller]
pub fn nanargmin(x: &Array, axis: isize) -> Array {
    unless_none(&filled(x, f64::INFINITY).argmin_axis(axis), x, axis)
}
