//! Distributions with polynomial tails: Cauchy, Student's t and Pareto.

use super::distribution::{Parameter, standardize};
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, atan2, div, full_like, lgamma, log, log1p, lt, mul, neg, pow, sub, tan, where_,
    zeros_like,
};
use std::f64::consts::PI;

distribution! {
    /// The Cauchy distribution.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Cauchy::default().logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.cauchy")]
    Cauchy(;
        loc = 0, with_loc: "the median",
        scale = 1, with_scale: "half of the width at half maximum"
    )
}

impl Cauchy {
    /// Returns the logarithm of the density: `-log(π scale (1 + z²))` for `z = (x - loc) / scale`.
    #[doc(alias = "jax.scipy.stats.cauchy.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Cauchy::logpdf", x);
        let z = standardize(&x, &loc, &scale);
        neg(add(log(mul(scale, PI)), log1p(mul(&z, &z))))
    }

    /// Returns the probability of a value of at most `x`: `1/2 + atan(z) / π`, without cancellation
    /// in the lower tail.
    #[doc(alias = "jax.scipy.stats.cauchy.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Cauchy::cdf", x);
        let z = standardize(&x, &loc, &scale);
        div(atan2(1.0, neg(&z)), PI)
    }

    /// Returns the probability of a value above `x`, without cancellation in the upper tail.
    #[doc(alias = "jax.scipy.stats.cauchy.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Cauchy::sf", x);
        div(atan2(1.0, standardize(&x, &loc, &scale)), PI)
    }

    /// Returns the value at which [`Cauchy::cdf`] is `q`.
    #[doc(alias = "jax.scipy.stats.cauchy.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("Cauchy::ppf", q);
        add(mul(tan(mul(sub(q, 0.5), PI)), scale), loc)
    }

    /// Returns the value at which [`Cauchy::sf`] is `q`.
    #[doc(alias = "jax.scipy.stats.cauchy.isf")]
    #[track_caller]
    pub fn isf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("Cauchy::isf", q);
        add(mul(tan(mul(sub(0.5, q), PI)), scale), loc)
    }
}

derived_methods! { Cauchy:
    pdf = exp(logpdf), "jax.scipy.stats.cauchy.pdf";
    logcdf = log(cdf), "jax.scipy.stats.cauchy.logcdf";
    logsf = log(sf), "jax.scipy.stats.cauchy.logsf";
}

distribution! {
    /// Student's t distribution.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::StudentT::new(3.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.t")]
    StudentT(
        df: "the degrees of freedom";
        loc = 0, with_loc: "the mode",
        scale = 1, with_scale: "the scale"
    )
}

impl StudentT {
    /// Returns the logarithm of the density: `log Γ((df + 1) / 2) - log Γ(df / 2) - log(π df) / 2 -
    /// log(scale) - (df + 1) / 2 · log(1 + z² / df)` for `z = (x - loc) / scale`.
    #[doc(alias = "jax.scipy.stats.t.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, df, loc, scale] = self.operands("StudentT::logpdf", x);
        let z = standardize(&x, &loc, &scale);
        let exponent = mul(add(&df, 1.0), 0.5);
        let gammas = sub(lgamma(&exponent), lgamma(mul(&df, 0.5)));
        let norm = sub(gammas, add(mul(log(mul(&df, PI)), 0.5), log(&scale)));
        sub(norm, mul(exponent, log1p(div(mul(&z, &z), &df))))
    }
}

derived_methods! { StudentT:
    pdf = exp(logpdf), "jax.scipy.stats.t.pdf";
}

distribution! {
    /// The Pareto distribution above `loc + scale`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Pareto::new(2.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.pareto")]
    Pareto(
        b: "the exponent of the tail";
        loc = 0, with_loc: "the shift",
        scale = 1, with_scale: "the distance of the lower bound from `loc`"
    )
}

/// Returns `(x - loc) / scale`, replaced by 2 below the support, and true where that is.
#[track_caller]
fn standardize_above(x: &Array, loc: &Array, scale: &Array) -> (Array, Array) {
    let z = standardize(x, loc, scale);
    let below = lt(&z, 1.0);
    (where_(&below, full_like(&z, 2), &z), below)
}

impl Pareto {
    /// Returns the logarithm of the density: `log(b / scale) - (b + 1) log(z)` for
    /// `z = (x - loc) / scale` of at least 1.
    #[doc(alias = "jax.scipy.stats.pareto.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, b, loc, scale] = self.operands("Pareto::logpdf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        let inside = sub(log(div(&b, &scale)), mul(add(&b, 1.0), log(&z)));
        where_(&below, full_like(&x, f64::NEG_INFINITY), inside)
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.pareto.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, b, loc, scale] = self.operands("Pareto::cdf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        where_(&below, zeros_like(&x), sub(1.0, pow(z, neg(&b))))
    }

    /// Returns the logarithm of [`Pareto::cdf`].
    #[doc(alias = "jax.scipy.stats.pareto.logcdf")]
    #[track_caller]
    pub fn logcdf(&self, x: impl ArrayLike) -> Array {
        let [x, b, loc, scale] = self.operands("Pareto::logcdf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        where_(&below, full_like(&x, f64::NEG_INFINITY), log1p(neg(pow(z, neg(&b)))))
    }

    /// Returns the logarithm of the probability of a value above `x`.
    #[doc(alias = "jax.scipy.stats.pareto.logsf")]
    #[track_caller]
    pub fn logsf(&self, x: impl ArrayLike) -> Array {
        let [x, b, loc, scale] = self.operands("Pareto::logsf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        where_(&below, zeros_like(&x), mul(neg(&b), log(&z)))
    }

    /// Returns the value at which [`Pareto::cdf`] is `q`.
    #[doc(alias = "jax.scipy.stats.pareto.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, b, loc, scale] = self.operands("Pareto::ppf", q);
        add(mul(pow(sub(1.0, q), div(-1.0, b)), scale), loc)
    }
}

derived_methods! { Pareto:
    pdf = exp(logpdf), "jax.scipy.stats.pareto.pdf";
    sf = exp(logsf), "jax.scipy.stats.pareto.sf";
}
