//! The Poisson distribution of mean `mu`, moved by `loc`.

use super::super::special::xlogy;
use super::counting::whole;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, exp, floor, full_like, igammac, lgamma, lt, promote_inexact, sub, where_,
    zeros_like,
};

/// `k log(mu) - log(k!) - mu` for whole `k - loc` of 0 and more.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::poisson::logpmf(&x, 3.0, 0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpmf(k: impl ArrayLike, mu: impl ArrayLike, loc: impl ArrayLike) -> Array {
    let [k, mu, loc] = promote_inexact("poisson::logpmf", [k.like(), mu.like(), loc.like()]);
    let (k, fine) = whole(&sub(k, loc));
    let inside = sub(sub(xlogy(&k, &mu), lgamma(&add(&k, 1.0))), &mu);
    where_(&fine, inside, full_like(&k, f64::NEG_INFINITY))
}

/// The mass: the exponential of [`logpmf`].
#[track_caller]
pub fn pmf(k: impl ArrayLike, mu: impl ArrayLike, loc: impl ArrayLike) -> Array {
    exp(&logpmf(k, mu, loc))
}

/// The probability of a number of at most `k`.
#[track_caller]
pub fn cdf(k: impl ArrayLike, mu: impl ArrayLike, loc: impl ArrayLike) -> Array {
    let [k, mu, loc] = promote_inexact("poisson::cdf", [k.like(), mu.like(), loc.like()]);
    let k = sub(k, loc);
    let below = lt(&k, 0.0);
    let next = where_(&below, full_like(&k, 1), add(floor(&k), 1.0));
    where_(&below, zeros_like(&k), igammac(next, &mu))
}
