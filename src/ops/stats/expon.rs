//! The exponential distribution above `loc` with mean `loc + scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, exp, expm1, full_like, log, log1p, lt, mul, neg, promote_inexact, sub, where_,
    zeros_like,
};

/// `-(x - loc) / scale - log(scale)` above `loc`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::expon::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("expon::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(&x, &loc), &scale);
    let inside = sub(neg(&z), log(&scale));
    where_(&lt(&x, &loc), full_like(&x, f64::NEG_INFINITY), inside)
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("expon::cdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(&x, &loc), &scale);
    where_(&lt(&x, &loc), zeros_like(&x), neg(&expm1(&neg(&z))))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("expon::logcdf", [x.like(), loc.like(), scale.like()]);
    let below = lt(&x, &loc);
    // Below, any number stands for the distance, so that the derivative is finite.
    let z = where_(&below, full_like(&x, 1), div(sub(&x, &loc), &scale));
    where_(&below, full_like(&x, f64::NEG_INFINITY), super::super::log1mexp(&z))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logsf(x, loc, scale))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("expon::logsf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(&x, &loc), &scale);
    where_(&lt(&x, &loc), zeros_like(&x), neg(&z))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("expon::ppf", [q.like(), loc.like(), scale.like()]);
    sub(loc, mul(log1p(&neg(&q)), scale))
}
