//! The Bernoulli distribution: 1 with probability `p`, 0 without.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, eq, exp, full_like, ge, le, log, log1p, lt, neg, promote_inexact, sub, where_,
    zeros_like,
};

/// `log(p)` at `loc + 1`, `log(1 - p)` at `loc`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::bernoulli::logpmf(&x, 0.3, 0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(k: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    let [k, p, loc] = promote_inexact("bernoulli::logpmf", [k.like(), p.like(), loc.like()]);
    let k = sub(k, loc);
    let (one, zero) = (eq(&k, 1.0), eq(&k, 0.0));
    let nothing = full_like(&k, f64::NEG_INFINITY);
    where_(&one, log(&p), where_(&zero, log1p(&neg(&p)), nothing))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(k: impl ArrayLike, p: impl ArrayLike, loc: impl ArrayLike) -> Array {
    exp(&logpmf(k, p, loc))
}

/// The probability of a number of at most `k`; NaN if `p` is no probability.
#[track_caller]
pub fn cdf(k: impl ArrayLike, p: impl ArrayLike) -> Array {
    let [k, p] = promote_inexact("bernoulli::cdf", [k.like(), p.like()]);
    let between = where_(&lt(&k, 1.0), sub(1.0, &p), full_like(&k, 1));
    let value = where_(&lt(&k, 0.0), zeros_like(&k), between);
    where_(&(ge(&p, 0.0) & le(&p, 1.0)), value, full_like(&k, f64::NAN))
}

/// The least number that [`cdf`] reaches `q` at; NaN if either is no probability.
#[track_caller]
pub fn ppf(q: impl ArrayLike, p: impl ArrayLike) -> Array {
    let [q, p] = promote_inexact("bernoulli::ppf", [q.like(), p.like()]);
    let value = where_(&le(&q, sub(1.0, &p)), zeros_like(&q), full_like(&q, 1));
    let fine = ge(&p, 0.0) & le(&p, 1.0) & ge(&q, 0.0) & le(&q, 1.0);
    where_(&fine, value, full_like(&q, f64::NAN))
}
