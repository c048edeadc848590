//! The beta distribution of shapes `a` and `b` between `loc` and `loc + scale`.

use super::super::special::{betaln, xlog1py, xlogy};
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, betainc, div, exp, full_like, gt, log, lt, neg, promote_inexact, sub, where_,
    zeros_like,
};

/// Place between the bounds, a half outside of them, and what lies below and above.
#[track_caller]
fn scaled(x: &Array, loc: &Array, scale: &Array) -> (Array, Array, Array) {
    let z = div(sub(x, loc), scale);
    let (below, above) = (lt(&z, 0.0), gt(&z, 1.0));
    (where_(&(&below | &above), full_like(&z, 0.5), &z), below, above)
}

/// `(a - 1) log(z) + (b - 1) log(1 - z) - log B(a, b) - log(scale)` for `z = (x - loc) / scale` between 0
/// and 1.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::beta::logpdf(&x, 2.0, 3.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, b, loc, scale] =
        promote_inexact("beta::logpdf", [x.like(), a.like(), b.like(), loc.like(), scale.like()]);
    let (z, below, above) = scaled(&x, &loc, &scale);
    let shape = add(xlogy(sub(&a, 1.0), &z), xlog1py(sub(&b, 1.0), neg(&z)));
    let inside = sub(sub(shape, betaln(&a, &b)), log(&scale));
    where_(&(below | above), full_like(&x, f64::NEG_INFINITY), inside)
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    exp(&logpdf(x, a, b, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, b, loc, scale] =
        promote_inexact("beta::cdf", [x.like(), a.like(), b.like(), loc.like(), scale.like()]);
    let (z, below, above) = scaled(&x, &loc, &scale);
    let inside = betainc(&a, &b, &z);
    where_(&below, zeros_like(&x), where_(&above, full_like(&x, 1), inside))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    log(&cdf(x, a, b, loc, scale))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, b, loc, scale] =
        promote_inexact("beta::sf", [x.like(), a.like(), b.like(), loc.like(), scale.like()]);
    let (z, below, above) = scaled(&x, &loc, &scale);
    let inside = betainc(&b, &a, sub(1.0, &z));
    where_(&below, full_like(&x, 1), where_(&above, zeros_like(&x), inside))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    log(&sf(x, a, b, loc, scale))
}
