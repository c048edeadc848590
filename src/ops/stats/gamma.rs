//! The gamma and the χ² distribution.

use super::super::special::xlogy;
use super::distribution::{Parameter, standardize};
use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, full_like, igamma, igammac, lgamma, log, lt, mul, sub, where_, zeros_like,
};

distribution! {
    /// The gamma distribution above `loc`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Gamma::new(2.0).with_scale(0.5).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.gamma")]
    Gamma(
        a: "the shape";
        loc = 0, with_loc: "the lower bound",
        scale = 1, with_scale: "the scale, the inverse of the rate"
    )
}

/// Returns `(x - loc) / scale`, replaced by 1 below `loc`, and true where that is.
#[track_caller]
fn standardize_above(x: &Array, loc: &Array, scale: &Array) -> (Array, Array) {
    let z = standardize(x, loc, scale);
    let below = lt(&z, 0.0);
    (where_(&below, full_like(&z, 1), &z), below)
}

impl Gamma {
    /// Returns the logarithm of the density: `(a - 1) log(z) - z - log Γ(a) - log(scale)` for
    /// `z = (x - loc) / scale` above 0.
    #[doc(alias = "jax.scipy.stats.gamma.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, a, loc, scale] = self.operands("Gamma::logpdf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        let power = sub(xlogy(sub(&a, 1.0), &z), &z);
        let inside = sub(sub(power, lgamma(&a)), log(&scale));
        where_(&below, full_like(&x, f64::NEG_INFINITY), inside)
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.gamma.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, a, loc, scale] = self.operands("Gamma::cdf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        where_(&below, zeros_like(&x), igamma(&a, &z))
    }

    /// Returns the probability of a value above `x`, without cancellation.
    #[doc(alias = "jax.scipy.stats.gamma.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        let [x, a, loc, scale] = self.operands("Gamma::sf", x);
        let (z, below) = standardize_above(&x, &loc, &scale);
        where_(&below, full_like(&x, 1), igammac(&a, &z))
    }
}

derived_methods! { Gamma:
    pdf = exp(logpdf), "jax.scipy.stats.gamma.pdf";
    logcdf = log(cdf), "jax.scipy.stats.gamma.logcdf";
    logsf = log(sf), "jax.scipy.stats.gamma.logsf";
}

distribution! {
    /// The χ² distribution above `loc`.
    ///
    /// It is the gamma distribution of shape `df / 2` and scale `2 scale`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::ChiSquared::new(3.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.chi2")]
    ChiSquared(
        df: "the degrees of freedom";
        loc = 0, with_loc: "the lower bound",
        scale = 1, with_scale: "the scale"
    )
}

impl ChiSquared {
    /// Returns the gamma distribution that this is.
    #[track_caller]
    fn gamma(&self) -> Gamma {
        Gamma::new(div(&self.df, 2.0)).with_loc(&self.loc).with_scale(mul(&self.scale, 2.0))
    }

    /// Returns the logarithm of the density.
    #[doc(alias = "jax.scipy.stats.chi2.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        self.gamma().logpdf(x)
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.chi2.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        self.gamma().cdf(x)
    }

    /// Returns the probability of a value above `x`, without cancellation.
    #[doc(alias = "jax.scipy.stats.chi2.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        self.gamma().sf(x)
    }
}

derived_methods! { ChiSquared:
    pdf = exp(logpdf), "jax.scipy.stats.chi2.pdf";
    logcdf = log(cdf), "jax.scipy.stats.chi2.logcdf";
    logsf = log(sf), "jax.scipy.stats.chi2.logsf";
}
