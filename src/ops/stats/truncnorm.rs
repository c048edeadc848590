//! The normal distribution with mean `loc` and standard deviation `scale`, cut off at `a` and `b`: both in
//! standard deviations from the mean.

use super::super::special::log_ndtr;
use super::norm;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, exp, full_like, gt, lt, neg, promote_inexact, sub, where_, zeros_like,
};

/// The logarithm of the standard normal mass between `a` and `b`, from the side where both are small.
#[track_caller]
fn log_mass(a: &Array, b: &Array) -> Array {
    let mirrored = gt(a, 0.0);
    let (low, high) = (where_(&mirrored, neg(b), a), where_(&mirrored, neg(a), b));
    let (low, high) = (log_ndtr(&low), log_ndtr(&high));
    crate::primitives::add(&high, super::super::log1mexp(&sub(&high, &low)))
}

/// The normal distribution's logarithm less that of the mass between `a` and `b`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::truncnorm::logpdf(&x, -1.0, 2.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
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
    let [x, a, b, loc, scale] = promote_inexact(
        "truncnorm::logpdf",
        [x.like(), a.like(), b.like(), loc.like(), scale.like()],
    );
    let (z, mass) = (div(sub(&x, &loc), &scale), log_mass(&a, &b));
    let inside = sub(norm::logpdf(&x, &loc, &scale), mass);
    where_(&(lt(&z, &a) | gt(&z, &b)), full_like(&z, f64::NEG_INFINITY), inside)
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

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(
    x: impl ArrayLike,
    a: impl ArrayLike,
    b: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, a, b, loc, scale] = promote_inexact(
        "truncnorm::logcdf",
        [x.like(), a.like(), b.like(), loc.like(), scale.like()],
    );
    let z = div(sub(x, loc), scale);
    let (below, above) = (!gt(&z, &a), !lt(&z, &b));
    // Outside, the upper bound stands for the number, so that derivatives are finite.
    let inner = where_(&(&below | &above), &b, &z);
    let inside = sub(log_mass(&a, &inner), log_mass(&a, &b));
    let above_or_inside = where_(&above, zeros_like(&z), inside);
    where_(&below, full_like(&z, f64::NEG_INFINITY), above_or_inside)
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
    exp(&logcdf(x, a, b, loc, scale))
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
    let [x, a, b, loc, scale] = promote_inexact(
        "truncnorm::logsf",
        [x.like(), a.like(), b.like(), loc.like(), scale.like()],
    );
    logcdf(neg(&x), neg(&b), neg(&a), neg(&loc), scale)
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
    exp(&logsf(x, a, b, loc, scale))
}
