//! Distributions of the number of trials until a number of successes.

use super::super::special::{xlog1py, xlogy};
use super::distribution::{Parameter, nonnegative_integer};
use crate::core::Array;
use crate::primitives::{ArrayLike, add, eq, floor, full_like, gt, lgamma, log, neg, sub, where_};

distribution! {
    /// The geometric distribution: the number of trials up to and including the first success.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpmf = |k: Array| stats::Geometric::new(0.3).logpmf(&k);
    /// assert_eq!(eval_shape(logpmf, Aval::new(DType::I32, [3]))?.shape().dims(), [3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.geom")]
    Geometric(
        p: "the probability of success";
        loc = 0, with_loc: "the shift"
    )
}

impl Geometric {
    /// Returns the logarithm of the probability of `k`: `(k - 1) log(1 - p) + log(p)` for an
    /// integer `k - loc` of at least 1.
    #[doc(alias = "jax.scipy.stats.geom.logpmf")]
    #[track_caller]
    pub fn logpmf(&self, k: impl ArrayLike) -> Array {
        let [k, p, loc] = self.operands("Geometric::logpmf", k);
        let k = sub(k, loc);
        let in_support = gt(&k, 0.0) & eq(&k, floor(&k));
        let failures = where_(&in_support, sub(&k, 1.0), full_like(&k, 1));
        let inside = add(xlog1py(failures, neg(&p)), log(&p));
        where_(&in_support, inside, full_like(&k, f64::NEG_INFINITY))
    }
}

derived_methods! { Geometric:
    pmf = exp(logpmf), "jax.scipy.stats.geom.pmf";
}

distribution! {
    /// The negative binomial distribution: the number of failures before the `n`-th success.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let logpmf = |k: Array| stats::NegativeBinomial::new(4, 0.3).logpmf(&k);
    /// assert_eq!(eval_shape(logpmf, Aval::new(DType::I32, [3]))?.shape().dims(), [3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "jax.scipy.stats.nbinom")]
    NegativeBinomial(
        n: "the number of successes", p: "the probability of success";
        loc = 0, with_loc: "the shift"
    )
}

impl NegativeBinomial {
    /// Returns the logarithm of the probability of `k`: `log C(n + k - 1, k) + n log(p) +
    /// k log(1 - p)` for an integer `k - loc` of at least 0.
    #[doc(alias = "jax.scipy.stats.nbinom.logpmf")]
    #[track_caller]
    pub fn logpmf(&self, k: impl ArrayLike) -> Array {
        let [k, n, p, loc] = self.operands("NegativeBinomial::logpmf", k);
        let (k, in_support) = nonnegative_integer(&sub(k, loc));
        let log_choices = sub(sub(lgamma(add(&k, &n)), lgamma(&n)), lgamma(add(&k, 1.0)));
        let inside = add(add(log_choices, xlogy(&n, &p)), xlog1py(&k, neg(&p)));
        where_(&in_support, inside, full_like(&k, f64::NEG_INFINITY))
    }
}

derived_methods! { NegativeBinomial:
    pmf = exp(logpmf), "jax.scipy.stats.nbinom.pmf";
}
