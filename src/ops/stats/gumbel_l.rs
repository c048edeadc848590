//! The Gumbel distribution of smallest values, around `loc`, of width `scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, exp, expm1, log, log1p, mul, neg, promote_inexact, sub,
};

/// `z - exp(z) - log(scale)` for `z = (x - loc) / scale`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::gumbel_l::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("gumbel_l::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(loc, x), &scale);
    sub(sub(neg(&z), exp(&neg(&z))), log(&scale))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("gumbel_l::logsf", [x.like(), loc.like(), scale.like()]);
    neg(&exp(&neg(&div(sub(loc, x), &scale))))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logsf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    neg(&expm1(&logsf(x, loc, scale)))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    super::super::log1mexp(&neg(&logsf(x, loc, scale)))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("gumbel_l::ppf", [q.like(), loc.like(), scale.like()]);
    add(mul(log(&neg(&log1p(&neg(&q)))), scale), loc)
}
