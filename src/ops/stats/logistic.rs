//! The logistic distribution around `loc`, of width `scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, exp, log, logaddexp, logistic, mul, neg, promote_inexact, sub,
};

/// `-z - 2 log(1 + exp(-z)) - log(scale)` for `z = (x - loc) / scale`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::logistic::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("logistic::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    sub(sub(neg(&z), mul(logaddexp(neg(&z), 0.0), 2.0)), log(&scale))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("logistic::cdf", [x.like(), loc.like(), scale.like()]);
    logistic(&div(sub(x, loc), scale))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("logistic::sf", [x.like(), loc.like(), scale.like()]);
    logistic(&neg(&div(sub(x, loc), scale)))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("logistic::ppf", [q.like(), loc.like(), scale.like()]);
    add(mul(super::super::special::logit(&q), scale), loc)
}

/// The number that [`sf`] is `q` at.
#[track_caller]
pub fn isf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("logistic::isf", [q.like(), loc.like(), scale.like()]);
    sub(loc, mul(super::super::special::logit(&q), scale))
}
