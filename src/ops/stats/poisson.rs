//! The Poisson distribution of mean `mu`, moved by `loc`.

use super::super::special::xlogy;
use super::counting::whole;
use crate::core::{Array, DType};
use crate::primitives::{
    ArrayLike, add, div, eq, exp, expand_dims, floor, full_like, gt, igammac, iota, lgamma, log,
    lt, mul, promote_inexact, sub, where_, zeros_like,
};
use std::f64::consts::{E, PI};

/// From this mean on the entropy is taken from its asymptotic series.
const LARGE: f64 = 100.0;

/// How many numbers have a probability that counts, below that mean.
const COUNTED: usize = 250;

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

/// The entropy in nats, which `loc` does not change: 0 for a mean of 0, NaN below.
///
/// # Reference
/// Evans and Boersma, "The entropy of a Poisson distribution", 1988, for means of 100 and more.
#[track_caller]
pub fn entropy(mu: impl ArrayLike, loc: impl ArrayLike) -> Array {
    let [mu, _] = promote_inexact("poisson::entropy", [mu.like(), loc.like()]);
    let (large, none) = (!lt(&mu, LARGE), eq(&mu, 0.0));
    let inside = gt(&mu, 0.0) & !&large;
    let small = expand_dims(&where_(&inside, &mu, full_like(&mu, 1)), &[-1]);
    let counts = iota(DType::I32, COUNTED);
    let logarithm = logpmf(counts, small, 0);
    let sum = mul(mul(exp(&logarithm), logarithm).sum_axes(-1), -1.0);
    let far = where_(&large, &mu, full_like(&mu, LARGE));
    // ½ log(2πeµ) - 1/12µ - 1/24µ² - 19/360µ³ - 9/80µ⁴.
    let inverse = div(1.0, &far);
    let mut series = full_like(&mu, 0.0);
    for coefficient in [9.0 / 80.0, 19.0 / 360.0, 1.0 / 24.0, 1.0 / 12.0] {
        series = mul(add(series, coefficient), &inverse);
    }
    let asymptotic = sub(mul(log(&mul(&far, 2.0 * PI * E)), 0.5), series);
    let value = where_(&large, asymptotic, sum);
    let value = where_(&none, zeros_like(&mu), value);
    let unknown = lt(&mu, 0.0) | super::super::isnan(&mu);
    where_(&unknown, full_like(&mu, f64::NAN), value)
}
