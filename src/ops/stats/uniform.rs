//! The uniform distribution.

use super::distribution::{Parameter, standardize};
use crate::core::Array;
use crate::primitives::{ArrayLike, add, full_like, ge, gt, le, log, lt, mul, neg, where_};

distribution! {
    /// The uniform distribution between `loc` and `loc + scale`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Uniform::new(-1.0, 2.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.uniform")]
    Uniform(;
        loc = 0, with_loc: "the lower bound",
        scale = 1, with_scale: "the width of the interval"
    )
}

impl Uniform {
    /// Returns the logarithm of the density: `-log(scale)` between the bounds.
    #[doc(alias = "jax.scipy.stats.uniform.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Uniform::logpdf", x);
        let inside = ge(&x, &loc) & le(&x, add(&loc, &scale));
        where_(&inside, neg(log(&scale)), full_like(&x, f64::NEG_INFINITY))
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.uniform.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, loc, scale] = self.operands("Uniform::cdf", x);
        let z = standardize(&x, &loc, &scale);
        let (below, above) = (lt(&x, &loc), gt(&x, add(&loc, &scale)));
        where_(&below, full_like(&x, 0), where_(&above, full_like(&x, 1), z))
    }

    /// Returns the value at which [`Uniform::cdf`] is `q`; NaN if `q` is not between 0 and 1.
    #[doc(alias = "jax.scipy.stats.uniform.ppf")]
    #[track_caller]
    pub fn ppf(&self, q: impl ArrayLike) -> Array {
        let [q, loc, scale] = self.operands("Uniform::ppf", q);
        let is_probability = ge(&q, 0.0) & le(&q, 1.0);
        where_(&is_probability, add(mul(&q, scale), loc), full_like(&q, f64::NAN))
    }
}

derived_methods! { Uniform:
    pdf = exp(logpdf), "jax.scipy.stats.uniform.pdf";
}
