//! The beta distribution, and the Dirichlet distribution of several proportions.

use super::super::special::{betaln, xlog1py, xlogy};
use super::distribution::{Parameter, standardize};
use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, abs, add, betainc, exp, full_like, ge, gt, inexact, le, lgamma, log, lt, neg, sub,
    where_, zeros_like,
};

distribution! {
    /// The beta distribution between `loc` and `loc + scale`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpdf = |x: Array| stats::Beta::new(2.0, 3.0).logpdf(&x);
    /// assert_eq!(eval_shape(logpdf, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.beta")]
    Beta(
        a: "the first shape", b: "the second shape";
        loc = 0, with_loc: "the lower bound",
        scale = 1, with_scale: "the width of the interval"
    )
}

/// `(x - loc) / scale`, replaced by 1/2 outside of the support, and the positions outside.
struct Standardized {
    z: Array,
    below: Array,
    above: Array,
}

impl Standardized {
    #[track_caller]
    fn new(x: &Array, loc: &Array, scale: &Array) -> Standardized {
        let z = standardize(x, loc, scale);
        let (below, above) = (lt(&z, 0.0), gt(&z, 1.0));
        Standardized { z: where_(&(&below | &above), full_like(&z, 0.5), &z), below, above }
    }
}

impl Beta {
    /// Returns the logarithm of the density: `(a - 1) log(z) + (b - 1) log(1 - z) - log B(a, b) -
    /// log(scale)` for `z = (x - loc) / scale` between 0 and 1.
    #[doc(alias = "jax.scipy.stats.beta.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        let [x, a, b, loc, scale] = self.operands("Beta::logpdf", x);
        let Standardized { z, below, above } = Standardized::new(&x, &loc, &scale);
        let powers = add(xlogy(sub(&a, 1.0), &z), xlog1py(sub(&b, 1.0), neg(&z)));
        let inside = sub(sub(powers, betaln(&a, &b)), log(&scale));
        where_(&(below | above), full_like(&x, f64::NEG_INFINITY), inside)
    }

    /// Returns the probability of a value of at most `x`.
    #[doc(alias = "jax.scipy.stats.beta.cdf")]
    #[track_caller]
    pub fn cdf(&self, x: impl ArrayLike) -> Array {
        let [x, a, b, loc, scale] = self.operands("Beta::cdf", x);
        let Standardized { z, below, above } = Standardized::new(&x, &loc, &scale);
        let inside = betainc(&a, &b, &z);
        where_(&below, zeros_like(&x), where_(&above, full_like(&x, 1), inside))
    }

    /// Returns the probability of a value above `x`.
    #[doc(alias = "jax.scipy.stats.beta.sf")]
    #[track_caller]
    pub fn sf(&self, x: impl ArrayLike) -> Array {
        let [x, a, b, loc, scale] = self.operands("Beta::sf", x);
        let Standardized { z, below, above } = Standardized::new(&x, &loc, &scale);
        let inside = betainc(&b, &a, sub(1.0, &z));
        where_(&below, full_like(&x, 1), where_(&above, zeros_like(&x), inside))
    }
}

derived_methods! { Beta:
    pdf = exp(logpdf), "jax.scipy.stats.beta.pdf";
    logcdf = log(cdf), "jax.scipy.stats.beta.logcdf";
    logsf = log(sf), "jax.scipy.stats.beta.logsf";
}

/// The Dirichlet distribution of `k` proportions that sum to 1.
///
/// ```
/// use oxidax::prelude::*;
/// let logpdf = |x: Array, alpha: Array| stats::Dirichlet::new(&alpha).logpdf(&x);
/// let (x, alpha) = (Aval::new(DType::F32, [3, 8]), Aval::new(DType::F32, [3]));
/// assert_eq!(eval_shape(logpdf, (x, alpha))?.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "jax.scipy.stats.dirichlet")]
pub struct Dirichlet {
    /// The concentrations, `[k]`.
    pub alpha: Array,
}

impl Dirichlet {
    /// Creates the distribution from its concentrations, `[k]`.
    pub fn new(alpha: &Array) -> Dirichlet {
        Dirichlet { alpha: alpha.clone() }
    }

    /// Returns the logarithm of the density at proportions along axis 0, `[k, …] → […]`:
    /// `Σ (αᵢ - 1) log(xᵢ) + log Γ(Σ αᵢ) - Σ log Γ(αᵢ)`.
    ///
    /// It is `-inf` if a proportion is negative or their sum is not 1.
    ///
    /// Throws `Op` (shape) unless `alpha` is a vector of the size of that axis.
    #[doc(alias = "jax.scipy.stats.dirichlet.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: &Array) -> Array {
        Loc::caller().scope(|| {
            let (x, alpha) = (inexact(x), inexact(&self.alpha));
            if alpha.rank() != 1 || x.shape().first() != Some(&alpha.size()) {
                let message =
                    format!("concentrations {} for proportions {}", alpha.shape(), x.shape());
                trace::throw_operands(
                    "Dirichlet::logpdf",
                    RuleError::shape(message),
                    &[&x, &alpha],
                );
            }
            let mut column = vec![alpha.size()];
            column.resize(x.rank(), 1);
            let exponents = sub(alpha.reshape(column), 1.0);
            let norm = sub(lgamma(alpha.sum()), lgamma(&alpha).sum());
            let inside = xlogy(exponents, &x).sum_axes(0) + norm;
            let sums_to_one = le(abs(sub(x.sum_axes(0), 1.0)), 1e-5);
            let in_support = sums_to_one & ge(&x, 0.0).all_axes(0) & !lt(&x, 0.0).any_axes(0);
            where_(&in_support, &inside, full_like(&inside, f64::NEG_INFINITY))
        })
    }

    /// Returns the density, the exponential of [`Dirichlet::logpdf`].
    #[doc(alias = "jax.scipy.stats.dirichlet.pdf")]
    #[track_caller]
    pub fn pdf(&self, x: &Array) -> Array {
        exp(self.logpdf(x))
    }
}
