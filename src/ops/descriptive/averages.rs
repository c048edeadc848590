//! Weighted means and ranges.

use super::super::axes::Axes;
use crate::core::{Array, RuleError, trace};
use crate::primitives::ArrayLike;
use crate::primitives::{broadcast_in_dim, div, mul, promote_inexact, sub};

/// Returns the weighted mean of `x` along `axes`, `Σ w x / Σ w`. Integers become floats. Without
/// weights, use [`Array::mean_axes`].
///
/// `weights` have the shape of `x`, or are a vector along a single axis. The result is NaN or
/// infinite where the weights sum to 0. Throws `Op` (shape) for other weights.
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
    average_returned(x, weights, axes).0
}

/// Returns the weighted mean of `x` along `axes`, as [`average`], and the sum of the weights in its
/// shape.
#[doc(alias = "returned")]
#[track_caller]
pub fn average_returned(x: &Array, weights: &Array, axes: impl Into<Axes>) -> (Array, Array) {
    let axes = axes.into();
    let resolved = axes.resolve("average", x);
    let weights = match (weights.shape() == x.shape(), resolved.as_slice()) {
        (true, _) => weights.clone(),
        (false, &[axis]) if weights.rank() == 1 && weights.size() == x.shape()[axis] => {
            broadcast_in_dim(weights, x.shape(), &[axis])
        }
        _ => {
            let message = format!(
                "weights {} must have the shape {} or be a vector along one axis of {resolved:?}",
                weights.shape(),
                x.shape()
            );
            trace::throw_operands("average", RuleError::shape(message), &[x, weights])
        }
    };
    let [x, weights] = promote_inexact("average", [x.like(), weights.like()]);
    let total = weights.sum_axes(axes.clone());
    (div(mul(&x, &weights).sum_axes(axes), &total), total)
}

/// Returns the largest minus the smallest element along `axes`. Throws `Op` (shape) over an empty
/// axis.
#[track_caller]
pub fn ptp(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into();
    sub(x.max_axes(axes.clone()), x.min_axes(axes))
}
