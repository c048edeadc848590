//! The Pareto distribution of exponent `b` above `loc + scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, exp, full_like, log, log1p, lt, mul, neg, pow, promote_inexact, sub,
    where_, zeros_like,
};

/// Distance from `loc` in scales, 2 outside the support, and where that is.
#[track_caller]
fn scaled(x: &Array, loc: &Array, scale: &Array) -> (Array, Array) {
    let z = div(sub(x, loc), scale);
    let below = lt(&z, 1.0);
    (where_(&below, full_like(&z, 2), &z), below)
}

/// `log(b / scale) - (b + 1) log(z)` for `z = (x - loc) / scale` of at least 1.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::pareto::logpdf(&x, 2.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, b, loc, scale] =
        promote_inexact("pareto::logpdf", [x.like(), b.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    let inside = sub(log(&div(&b, &scale)), mul(add(&b, 1.0), log(&z)));
    where_(&below, full_like(&x, f64::NEG_INFINITY), inside)
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    exp(&logpdf(x, b, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, b, loc, scale] =
        promote_inexact("pareto::cdf", [x.like(), b.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    where_(&below, zeros_like(&x), sub(1.0, pow(z, neg(&b))))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, b, loc, scale] =
        promote_inexact("pareto::logcdf", [x.like(), b.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    where_(&below, full_like(&x, f64::NEG_INFINITY), log1p(&neg(&pow(z, neg(&b)))))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    exp(&logsf(x, b, loc, scale))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(
    x: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, b, loc, scale] =
        promote_inexact("pareto::logsf", [x.like(), b.like(), loc.like(), scale.like()]);
    let (z, below) = scaled(&x, &loc, &scale);
    where_(&below, zeros_like(&x), mul(neg(&b), log(&z)))
}

/// The number that [`cdf`] is `q` at.
#[track_caller]
pub fn ppf(
    q: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [q, b, loc, scale] =
        promote_inexact("pareto::ppf", [q.like(), b.like(), loc.like(), scale.like()]);
    add(mul(pow(sub(1.0, q), div(-1.0, b)), scale), loc)
}
