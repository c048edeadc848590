//! Normal distributions of one variable.

use super::super::log1mexp;
use super::super::special::{log_ndtr, ndtr, ndtri};
use super::distribution::{Parameter, standardize};
use crate::core::Array;
use crate::primitives::{
    ArrayLike, abs, add, div, full_like, gt, igamma, lgamma, log, lt, mul, neg, pow, sign, sub,
    where_, zeros_like,
};

/// `log(2π) / 2`.
const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

distribution! {
    /// The normal distribution.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Normal::default().logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.norm")]
    Normal(;
        loc = 0, with_loc: "the mean",
        scale = 1, with_scale: "the standard deviation"
    )
}

/// Returns the logarithm of the normal density of promoted operands.
#[track_caller]
fn log_density(x: &Array, loc: &Array, scale: &Array) -> Array {
    let z = standardize(x, loc, scale);
    sub(sub(mul(mul(&z, &z), -0.5), HALF_LOG_TWO_PI), log(scale))
}

impl Normal {
    /// Returns the logarithm of the density: `-((x - loc) / scale)² / 2 - log(scale √(2π))`.
    #[doc(alias = "jax.scipy.stats.norm.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Normal::logpdf", x);
        log_density(&x, &loc, &scale)
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.norm.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Normal::cdf", x);
        ndtr(standardize(&x, &loc, &scale))
    }

    /// Returns the logarithm of [`Normal::cdf`], finite also where that rounds to 0.
    #[doc(alias = "jax.scipy.stats.norm.logcdf")]
    #[track_caller]
    pub fn logcdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Normal::logcdf", x);
        log_ndtr(standardize(&x, &loc, &scale))
    }

    /// Returns the probability of a value above `x`, without cancellation.
    #[doc(alias = "jax.scipy.stats.norm.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Normal::sf", x);
        ndtr(neg(standardize(&x, &loc, &scale)))
    }

    /// Returns the logarithm of [`Normal::sf`], finite also where that rounds to 0.
    #[doc(alias = "jax.scipy.stats.norm.logsf")]
    #[track_caller]
    pub fn logsf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Normal::logsf", x);
        log_ndtr(neg(standardize(&x, &loc, &scale)))
    }

    /// Returns the value at which [`Normal::cdf`] is `q`.
    #[doc(alias = "jax.scipy.stats.norm.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("Normal::ppf", q);
        add(mul(ndtri(&q), scale), loc)
    }

    /// Returns the value at which [`Normal::sf`] is `q`.
    #[doc(alias = "jax.scipy.stats.norm.isf")]
    #[track_caller]
    pub fn isf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("Normal::isf", q);
        sub(loc, mul(ndtri(&q), scale))
    }
}

derived_methods! { Normal:
    pdf = exp(logpdf), "jax.scipy.stats.norm.pdf";
}

distribution! {
    /// The normal distribution of mean `loc` and standard deviation `scale`, truncated to an
    /// interval.
    ///
    /// The bounds are in standard deviations from the mean: values are between `loc + a * scale`
    /// and `loc + b * scale`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::TruncatedNormal::new(-1.0, 2.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.truncnorm")]
    TruncatedNormal(
        a: "the lower bound, in standard deviations from the mean",
        b: "the upper bound, in standard deviations from the mean";
        loc = 0, with_loc: "the mean before truncation",
        scale = 1, with_scale: "the standard deviation before truncation"
    )
}

/// Returns the logarithm of the standard normal probability of `a..b`, computed in the tail in
/// which both bounds have small probabilities.
#[track_caller]
fn log_interval(a: &Array, b: &Array) -> Array {
    let mirrored = gt(a, 0.0);
    let (low, high) = (where_(&mirrored, neg(b), a), where_(&mirrored, neg(a), b));
    let (low, high) = (log_ndtr(&low), log_ndtr(&high));
    add(&high, log1mexp(sub(&high, &low)))
}

/// Returns the logarithm of the truncated normal distribution function of promoted operands.
#[track_caller]
fn log_cumulative([x, a, b, loc, scale]: [Array; 5]) -> Array {
    let z = standardize(&x, &loc, &scale);
    let (below, above) = (!gt(&z, &a), !lt(&z, &b));
    // Outside the bounds, `b` replaces `z`, so that derivatives are finite.
    let inner = where_(&(&below | &above), &b, &z);
    let inside = sub(log_interval(&a, &inner), log_interval(&a, &b));
    let above_or_inside = where_(&above, zeros_like(&z), inside);
    where_(&below, full_like(&z, f64::NEG_INFINITY), above_or_inside)
}

impl TruncatedNormal {
    /// Returns the logarithm of the density: that of the normal distribution minus the logarithm of
    /// the normal probability of the interval.
    #[doc(alias = "jax.scipy.stats.truncnorm.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, a, b, loc, scale] = self.operands("TruncatedNormal::logpdf", x);
        let (z, interval) = (standardize(&x, &loc, &scale), log_interval(&a, &b));
        let inside = sub(log_density(&x, &loc, &scale), interval);
        where_(&(lt(&z, &a) | gt(&z, &b)), full_like(&z, f64::NEG_INFINITY), inside)
    }

    /// Returns the logarithm of the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.truncnorm.logcdf")]
    #[track_caller]
    pub fn logcdf(&self, x: impl ArrayLike) -> Array {
        log_cumulative(self.operands("TruncatedNormal::logcdf", x))
    }

    /// Returns the logarithm of the probability of a value above `x`.
    #[doc(alias = "jax.scipy.stats.truncnorm.logsf")]
    #[track_caller]
    pub fn logsf(&self, x: impl ArrayLike) -> Array {
        let [x, a, b, loc, scale] = self.operands("TruncatedNormal::logsf", x);
        log_cumulative([neg(&x), neg(&b), neg(&a), neg(&loc), scale])
    }
}

derived_methods! { TruncatedNormal:
    pdf = exp(logpdf), "jax.scipy.stats.truncnorm.pdf";
    cdf = exp(logcdf), "jax.scipy.stats.truncnorm.cdf";
    sf = exp(logsf), "jax.scipy.stats.truncnorm.sf";
}

distribution! {
    /// The generalized normal distribution around 0.
    ///
    /// The exponent 2 gives a normal distribution, 1 a Laplace distribution.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::GeneralizedNormal::new(1.5).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.gennorm")]
    GeneralizedNormal(p: "the exponent")
}

impl GeneralizedNormal {
    /// Returns the logarithm of the density: `log(p / 2) - log Γ(1 / p) - |x|ᵖ`.
    #[doc(alias = "jax.scipy.stats.gennorm.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, p] = self.operands("GeneralizedNormal::logpdf", x);
        let norm = sub(log(mul(&p, 0.5)), lgamma(div(1.0, &p)));
        sub(norm, pow(abs(&x), p))
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.gennorm.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, p] = self.operands("GeneralizedNormal::cdf", x);
        let ratio = igamma(div(1.0, &p), pow(abs(&x), &p));
        mul(add(mul(sign(&x), ratio), 1.0), 0.5)
    }
}

derived_methods! { GeneralizedNormal:
    pdf = exp(logpdf), "jax.scipy.stats.gennorm.pdf";
}
