//! Probability distributions, ranks and a density estimate (`jax.scipy.stats`).
//!
//! A distribution is a struct with its parameters, which are arrays or numbers. Its methods are
//! named as in SciPy, and each distribution has those that JAX has:
//!
//! | method | result |
//! |---|---|
//! | `pdf`, `logpdf` | density at `x`, per unit of `x`, and its logarithm |
//! | `pmf`, `logpmf` | probability of the integer `k`, and its logarithm |
//! | `cdf`, `logcdf` | probability of a value of at most `x`, and its logarithm |
//! | `sf`, `logsf` | probability of a value above `x`, and its logarithm |
//! | `ppf`, `isf` | inverse of `cdf` and of `sf` |
//! | `sample` | random values, by [`random`](crate::random) |
//!
//! - The argument and the parameters promote and broadcast together. Integers become floats.
//! - Logarithms are natural.
//! - Outside the support the density is 0 and its logarithm `-inf`.
//! - Every method throws `Op` if the operands do not promote or do not broadcast.
//! - `loc` shifts a distribution and `scale` stretches it. They are 0 and 1 unless set.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax::stats::{Beta, Normal};
//! let log_posterior = |p: Array, x: Array| {
//!     Beta::new(2.0, 3.0).logpdf(&p) + Normal::new(&p, 0.1).logpdf(&x).sum()
//! };
//! let avals = (Aval::new(DType::F32, []), Aval::new(DType::F32, [8]));
//! assert_eq!(eval_shape(log_posterior, avals)?.aval().to_string(), "f32[]");
//! # Ok::<(), oxidax::Error>(())
//! ```

#[macro_use]
mod distribution;

mod beta;
mod binomial;
mod circular;
mod exponential;
mod gamma;
mod geometric;
mod gumbel;
mod heavy_tailed;
mod kde;
mod multivariate_normal;
mod normal;
mod poisson;
mod ranks;
mod uniform;

pub use beta::{Beta, Dirichlet};
pub use binomial::{Bernoulli, BetaBinomial, Binomial, Multinomial};
pub use circular::{VonMises, WrappedCauchy};
pub use distribution::Parameter;
pub use exponential::{Exponential, Laplace, LogisticDistribution};
pub use gamma::{ChiSquared, Gamma};
pub use geometric::{Geometric, NegativeBinomial};
pub use gumbel::{GumbelL, GumbelR};
pub use heavy_tailed::{Cauchy, Pareto, StudentT};
pub use kde::{Bandwidth, GaussianKde};
pub use multivariate_normal::MultivariateNormal;
pub use normal::{GeneralizedNormal, Normal, TruncatedNormal};
pub use poisson::Poisson;
pub use ranks::{RankMethod, mode, rankdata, sem};
pub use uniform::Uniform;
