//! Gumbel distributions, the limits of the largest and of the smallest of many values.

use super::super::log1mexp;
use super::distribution::{Parameter, standardize};
use crate::core::Array;
use crate::primitives::{ArrayLike, add, div, exp, expm1, log, log1p, mul, neg, sub};

distribution! {
    /// The Gumbel distribution of largest values.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::GumbelR::default().logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.gumbel_r")]
    GumbelR(;
        loc = 0, with_loc: "the mode",
        scale = 1, with_scale: "the width, `√6 / π` standard deviations"
    )
}

impl GumbelR {
    /// Returns the logarithm of the density: `-z - exp(-z) - log(scale)` for
    /// `z = (x - loc) / scale`.
    #[doc(alias = "jax.scipy.stats.gumbel_r.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("GumbelR::logpdf", x);
        let z = standardize(&x, &loc, &scale);
        sub(sub(neg(&z), exp(neg(&z))), log(&scale))
    }

    /// Returns the logarithm of the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.gumbel_r.logcdf")]
    #[track_caller]
    pub fn logcdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("GumbelR::logcdf", x);
        neg(exp(neg(standardize(&x, &loc, &scale))))
    }

    /// Returns the probability of a value above `x`.
    #[doc(alias = "jax.scipy.stats.gumbel_r.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        neg(expm1(self.logcdf(x)))
    }

    /// Returns the logarithm of [`GumbelR::sf`].
    #[doc(alias = "jax.scipy.stats.gumbel_r.logsf")]
    #[track_caller]
    pub fn logsf(&self, x: impl ArrayLike) -> Array {
        log1mexp(neg(self.logcdf(x)))
    }

    /// Returns the value at which [`GumbelR::cdf`] is `q`.
    #[doc(alias = "jax.scipy.stats.gumbel_r.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("GumbelR::ppf", q);
        sub(loc, mul(log(neg(log(&q))), scale))
    }
}

derived_methods! { GumbelR:
    pdf = exp(logpdf), "jax.scipy.stats.gumbel_r.pdf";
    cdf = exp(logcdf), "jax.scipy.stats.gumbel_r.cdf";
}

distribution! {
    /// The Gumbel distribution of smallest values.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::GumbelL::default().logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.gumbel_l")]
    GumbelL(;
        loc = 0, with_loc: "the mode",
        scale = 1, with_scale: "the width, `√6 / π` standard deviations"
    )
}

impl GumbelL {
    /// Returns the logarithm of the density: `z - exp(z) - log(scale)` for `z = (x - loc) / scale`.
    #[doc(alias = "jax.scipy.stats.gumbel_l.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("GumbelL::logpdf", x);
        let z = div(sub(loc, x), &scale);
        sub(sub(neg(&z), exp(neg(&z))), log(&scale))
    }

    /// Returns the logarithm of the probability of a value above `x`.
    #[doc(alias = "jax.scipy.stats.gumbel_l.logsf")]
    #[track_caller]
    pub fn logsf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("GumbelL::logsf", x);
        neg(exp(neg(div(sub(loc, x), &scale))))
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.gumbel_l.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        neg(expm1(self.logsf(x)))
    }

    /// Returns the logarithm of [`GumbelL::cdf`].
    #[doc(alias = "jax.scipy.stats.gumbel_l.logcdf")]
    #[track_caller]
    pub fn logcdf(&self, x: impl ArrayLike) -> Array {
        log1mexp(neg(self.logsf(x)))
    }

    /// Returns the value at which [`GumbelL::cdf`] is `q`.
    #[doc(alias = "jax.scipy.stats.gumbel_l.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("GumbelL::ppf", q);
        add(mul(log(neg(log1p(neg(&q)))), scale), loc)
    }
}

derived_methods! { GumbelL:
    pdf = exp(logpdf), "jax.scipy.stats.gumbel_l.pdf";
    sf = exp(logsf), "jax.scipy.stats.gumbel_l.sf";
}
