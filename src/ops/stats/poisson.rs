//! The Poisson distribution.

use super::super::isnan;
use super::super::special::xlogy;
use super::distribution::{Parameter, nonnegative_integer};
use crate::core::{Array, DType};
use crate::primitives::{
    ArrayLike, add, div, eq, exp, expand_dims, floor, full_like, gt, igammac, iota, lgamma, log,
    lt, mul, promote_inexact, sub, where_, zeros_like,
};
use std::f64::consts::{E, PI};

/// Means from this one on have their entropy computed by the asymptotic series.
const ASYMPTOTIC_MEAN: f64 = 100.0;

/// Number of terms of the entropy's sum for smaller means. The remaining terms are negligible.
const ENTROPY_TERMS: usize = 250;

distribution! {
    /// The Poisson distribution.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpmf = |k: Array| stats::Poisson::new(3.0).logpmf(&k);
    /// assert_eq!(eval_shape(logpmf, Aval::new(DType::I32, [3]))?.shape().dims(), [3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.poisson")]
    Poisson(
        mu: "the mean, without `loc`";
        loc = 0, with_loc: "the shift"
    )
}

impl Poisson {
    /// Returns the logarithm of the probability of `k`: `k log(mu) - log(k!) - mu` for an integer
    /// `k - loc` of at least 0.
    #[doc(alias = "jax.scipy.stats.poisson.logpmf")]
    #[track_caller]
    pub fn logpmf(&self, k: impl ArrayLike) -> Array {
        let [k, mu, loc] = self.operands("Poisson::logpmf", k);
        let (k, in_support) = nonnegative_integer(&sub(k, loc));
        let inside = sub(sub(xlogy(&k, &mu), lgamma(add(&k, 1.0))), &mu);
        where_(&in_support, inside, full_like(&k, f64::NEG_INFINITY))
    }

    /// Returns the probability of a value of at most `k`.
    #[doc(alias = "jax.scipy.stats.poisson.cdf")]
    #[track_caller]
    pub fn cdf(&self, k: impl ArrayLike) -> Array {
        let [k, mu, loc] = self.operands("Poisson::cdf", k);
        let k = sub(k, loc);
        let below = lt(&k, 0.0);
        let next = where_(&below, full_like(&k, 1), add(floor(&k), 1.0));
        where_(&below, zeros_like(&k), igammac(next, &mu))
    }

    /// Returns the entropy in nats: 0 for a mean of 0, NaN for a negative one. `loc` does not
    /// change it.
    ///
    /// # Reference
    /// Evans and Boersma, "The entropy of a Poisson distribution", 1988, for means of 100 and more.
    #[doc(alias = "jax.scipy.stats.poisson.entropy")]
    #[track_caller]
    pub fn entropy(&self) -> Array {
        let [mu, _] = promote_inexact("Poisson::entropy", [self.mu.like(), self.loc.like()]);
        let (is_large, is_zero) = (!lt(&mu, ASYMPTOTIC_MEAN), eq(&mu, 0.0));
        let is_small = gt(&mu, 0.0) & !&is_large;
        let small = expand_dims(&where_(&is_small, &mu, full_like(&mu, 1)), &[-1]);
        let logpmf = Poisson::new(small).logpmf(iota(DType::I32, ENTROPY_TERMS));
        let sum = mul(mul(exp(&logpmf), logpmf).sum_axes(-1), -1.0);
        let large = where_(&is_large, &mu, full_like(&mu, ASYMPTOTIC_MEAN));
        // ½ log(2πeµ) - 1/12µ - 1/24µ² - 19/360µ³ - 9/80µ⁴.
        let inverse = div(1.0, &large);
        let mut series = full_like(&mu, 0.0);
        for coefficient in [9.0 / 80.0, 19.0 / 360.0, 1.0 / 24.0, 1.0 / 12.0] {
            series = mul(add(series, coefficient), &inverse);
        }
        let asymptotic = sub(mul(log(mul(&large, 2.0 * PI * E)), 0.5), series);
        let value = where_(&is_large, asymptotic, sum);
        let value = where_(&is_zero, zeros_like(&mu), value);
        let is_invalid = lt(&mu, 0.0) | isnan(&mu);
        where_(&is_invalid, full_like(&mu, f64::NAN), value)
    }
}

derived_methods! { Poisson:
    pmf = exp(logpmf), "jax.scipy.stats.poisson.pmf";
}
