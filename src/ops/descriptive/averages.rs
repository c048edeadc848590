//! Weighted means and ranges.

use super::super::axes::Axes;
use crate::core::{Array, RuleError, trace};
use crate::primitives::ArrayLike;
use crate::primitives::{broadcast_in_dim, div, mul, promote_inexact, sub};

/// The mean of `x` along `axes`, each element counting as much as its weight: `Σ w x / Σ w`. Integers
/// become floats. [`Array::mean_axes`] is the one without weights.
///
/// `weights` have the shape of `x`, or, with one axis, are a vector along it. NaN or infinite where the
/// weights sum to 0. Throws `Op` (shape) for other weights.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, w) = (Aval::new(DType::F32, [4, 3]), Aval::new(DType::F32, [3]));
/// let y = eval_shape(|x: Array, w: Array| average(&x, &w, -1), (x, w))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn average(x: &Array, weights: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    let over = axes.resolve("average", x);
    let weights = match (weights.shape() == x.shape(), over.as_slice()) {
        (true, _) => weights.clone(),
        (false, &[axis]) if weights.rank() == 1 && weights.size() == x.shape()[axis] => {
            broadcast_in_dim(weights, x.shape(), &[axis])
        }
        _ => {
            let message = format!(
                "weights {} are neither of the shape {} nor a vector along one axis of {over:?}",
                weights.shape(),
                x.shape()
            );
            trace::throw_operands("average", RuleError::shape(message), &[x, weights])
        }
    };
    let [x, weights] = promote_inexact("average", [x.like(), weights.like()]);
    div(mul(&x, &weights).sum_axes(axes.clone()), weights.sum_axes(axes))
}

/// Largest minus smallest element along `axes`. Throws `Op` (shape) over an empty axis.
#[track_caller]
pub fn ptp(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    sub(x.max_axes(axes.clone()), x.min_axes(axes))
}
