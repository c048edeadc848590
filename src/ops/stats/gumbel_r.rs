//! The Gumbel distribution of largest values, around `loc`, of width `scale`.

use crate::core::Array;
use crate::primitives::{ArrayLike, div, exp, expm1, log, mul, neg, promote_inexact, sub};

/// `-z - exp(-z) - log(scale)` for `z = (x - loc) / scale`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::gumbel_r::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("gumbel_r::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    sub(sub(neg(&z), exp(&neg(&z))), log(&scale))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("gumbel_r::logcdf", [x.like(), loc.like(), scale.like()]);
    neg(&exp(&neg(&div(sub(x, loc), &scale))))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logcdf(x, loc, scale))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    neg(&expm1(&logcdf(x, loc, scale)))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    super::super::log1mexp(&neg(&logcdf(x, loc, scale)))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("gumbel_r::ppf", [q.like(), loc.like(), scale.like()]);
    sub(loc, mul(log(&neg(&log(&q))), scale))
}
