//! Probability distributions, ranks and a density estimate, as `jax.scipy.stats` has them: a module for each distribution
//! with the logarithm of its density `logpdf` (of its mass `logpmf`), the density `pdf`, distribution
//! function `cdf`, its complement `sf`, and quantiles `ppf`, each as far as it is there.
//!
//! Densities are per unit of `x`, logarithms in nats. Operands promote and broadcast; integers become
//! floats. Outside a distribution's support the density is 0 and its logarithm `-inf`.

pub mod bernoulli;
pub mod beta;
pub mod betabinom;
pub mod binom;
pub mod cauchy;
pub mod chi2;
mod counting;
pub mod dirichlet;
pub mod expon;
pub mod gamma;
pub mod gennorm;
pub mod geom;
pub mod gumbel_l;
pub mod gumbel_r;
mod kde;
pub mod laplace;
pub mod logistic;
pub mod multinomial;
pub mod multivariate_normal;
pub mod nbinom;
pub mod norm;
pub mod pareto;
pub mod poisson;
mod ranks;
pub mod t;
pub mod truncnorm;
pub mod uniform;
pub mod vonmises;
pub mod wrapcauchy;

pub use kde::{Bandwidth, GaussianKde};
pub use ranks::{RankMethod, mode, rankdata, sem};
