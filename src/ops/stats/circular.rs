//! Distributions of angles.

use super::distribution::Parameter;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, add, bessel_i0e, cos, full_like, ge, le, log, mul, sub, where_,
};
use std::f64::consts::PI;

distribution! {
    /// The von Mises distribution of angles around 0.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::VonMises::new(2.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.vonmises")]
    VonMises(kappa: "the concentration")
}

impl VonMises {
    /// Returns the logarithm of the density: `kappa cos(x) - log(2π I₀(kappa))`, without overflow.
    #[doc(alias = "jax.scipy.stats.vonmises.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, kappa] = self.operands("VonMises::logpdf", x);
        let exponent = mul(&kappa, sub(cos(&x), 1.0));
        sub(exponent, log(mul(bessel_i0e(&kappa), 2.0 * PI)))
    }
}

derived_methods! { VonMises:
    pdf = exp(logpdf), "jax.scipy.stats.vonmises.pdf";
}

distribution! {
    /// The Cauchy distribution wrapped around a circle, for angles between 0 and 2π.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::WrappedCauchy::new(0.5).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.wrapcauchy")]
    WrappedCauchy(c: "the concentration, between 0 and 1")
}

impl WrappedCauchy {
    /// Returns the logarithm of the density: `log((1 - c²) / (2π (1 + c² - 2c cos x)))` between 0
    /// and 2π.
    #[doc(alias = "jax.scipy.stats.wrapcauchy.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, c] = self.operands("WrappedCauchy::logpdf", x);
        let square = mul(&c, &c);
        let denominator = sub(add(&square, 1.0), mul(mul(&c, 2.0), cos(&x)));
        let inside = sub(log(sub(1.0, &square)), log(mul(denominator, 2.0 * PI)));
        let in_support = ge(&x, 0.0) & le(&x, 2.0 * PI);
        where_(&in_support, inside, full_like(&x, f64::NEG_INFINITY))
    }
}

derived_methods! { WrappedCauchy:
    pdf = exp(logpdf), "jax.scipy.stats.wrapcauchy.pdf";
}
