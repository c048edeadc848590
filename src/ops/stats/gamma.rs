//! The gamma distribution of shape `a` above `loc`, of width `scale`.

use super::super::special::xlogy;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, exp, full_like, igamma, igammac, lgamma, log, lt, promote_inexact, sub, where_,
    zeros_like,
};

/// Distance from `loc` in scales, 1 below it, and where that is.
#[track_caller]
fn scaled(x: &Array, loc: &Array, scale: &Array) -> (Array, Array) {
    let z = div(sub(x, loc), scale);
    let below = lt(&z, 0.0);
    (where_(&below, full_like(&z, 1), &z), below)
}

/// `(a - 1) log(z) - z - log Γ(a) - log(scale)` for `z = (x - loc) / scale` above 0.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::gamma::logpdf(&x, 2.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, loc, scale] =
        promote_inexact("gamma::logpdf", [x.like(), a.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    let power = sub(xlogy(sub(&a, 1.0), &z), &z);
    let inside = sub(sub(power, lgamma(&a)), log(&scale));
    where_(&below, full_like(&x, f64::NEG_INFINITY), inside)
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    exp(&logpdf(x, a, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, loc, scale] =
        promote_inexact("gamma::cdf", [x.like(), a.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    where_(&below, zeros_like(&x), igamma(&a, &z))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    log(&cdf(x, a, loc, scale))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, loc, scale] =
        promote_inexact("gamma::sf", [x.like(), a.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    where_(&below, full_like(&x, 1), igammac(&a, &z))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    log(&sf(x, a, loc, scale))
}
