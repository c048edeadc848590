//! The Cauchy distribution around `loc`, of half width `scale` at half maximum.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, atan2, div, exp, log, log1p, mul, neg, promote_inexact, sub, tan,
};
use std::f64::consts::PI;

/// `-log(π scale (1 + z²))` for `z = (x - loc) / scale`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::cauchy::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("cauchy::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    neg(&add(log(&mul(scale, PI)), log1p(&mul(&z, &z))))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`: `1/2 + atan(z) / π`, without cancellation far below.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("cauchy::cdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), scale);
    div(atan2(1.0, neg(&z)), PI)
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    log(&cdf(x, loc, scale))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("cauchy::sf", [x.like(), loc.like(), scale.like()]);
    div(atan2(1.0, div(sub(x, loc), scale)), PI)
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    log(&sf(x, loc, scale))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("cauchy::ppf", [q.like(), loc.like(), scale.like()]);
    add(mul(tan(&mul(sub(q, 0.5), PI)), scale), loc)
}

/// The number that [`sf`] is `q` at.
#[track_caller]
pub fn isf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("cauchy::isf", [q.like(), loc.like(), scale.like()]);
    add(mul(tan(&mul(sub(0.5, q), PI)), scale), loc)
}
