//! The uniform distribution between `loc` and `loc + scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, div, exp, full_like, ge, gt, le, log, lt, mul, neg, promote_inexact, sub,
    where_,
};

/// `-log(scale)` between the bounds.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::uniform::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("uniform::logpdf", [x.like(), loc.like(), scale.like()]);
    let inside = ge(&x, &loc) & le(&x, add(&loc, &scale));
    where_(&inside, neg(&log(&scale)), full_like(&x, f64::NEG_INFINITY))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("uniform::cdf", [x.like(), loc.like(), scale.like()]);
    let share = div(sub(&x, &loc), &scale);
    let (below, above) = (lt(&x, &loc), gt(&x, add(&loc, &scale)));
    where_(&below, full_like(&x, 0), where_(&above, full_like(&x, 1), share))
}

/// The number that [`cdf`] is `q` at; NaN if `q` is no probability.
#[track_caller]
pub fn ppf(q: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [q, loc, scale] = promote_inexact("uniform::ppf", [q.like(), loc.like(), scale.like()]);
    let fine = ge(&q, 0.0) & le(&q, 1.0);
    where_(&fine, add(mul(&q, scale), loc), full_like(&q, f64::NAN))
}
