//! The normal distribution with mean `loc` and standard deviation `scale`.

use super::super::special::{log_ndtr, ndtr, ndtri};
use crate::core::Array;
use crate::primitives::{ArrayLike, add, div, exp, log, mul, neg, promote_inexact, sub};

/// `log(2π) / 2`.
pub(super) const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// `-((x - loc) / scale)² / 2 - log(scale √(2π))`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::norm::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("norm::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    sub(sub(mul(mul(&z, &z), -0.5), HALF_LOG_TWO_PI), log(&scale))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("norm::cdf", [x.like(), loc.like(), scale.like()]);
    ndtr(&div(sub(x, loc), scale))
}

/// The logarithm of [`cdf`], also where that rounds to 0.
#[track_caller]
pub fn logcdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("norm::logcdf", [x.like(), loc.like(), scale.like()]);
    log_ndtr(&div(sub(x, loc), scale))
}

/// The probability of a number above `x`, without cancellation.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("norm::sf", [x.like(), loc.like(), scale.like()]);
    ndtr(&neg(&div(sub(x, loc), scale)))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("norm::logsf", [x.like(), loc.like(), scale.like()]);
    log_ndtr(&neg(&div(sub(x, loc), scale)))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("norm::ppf", [q.like(), loc.like(), scale.like()]);
    add(mul(ndtri(&q), scale), loc)
}

/// The number that [`sf`] is `q` at.
#[track_caller]
pub fn isf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("norm::isf", [q.like(), loc.like(), scale.like()]);
    sub(loc, mul(ndtri(&q), scale))
}
