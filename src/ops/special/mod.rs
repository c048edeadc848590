//! Special functions (`jax.scipy.special`) that are composed of primitives.
//!
//! They include entropies, the normal distribution, integrals and hypergeometric functions.
//! Functions with their own rules, such as `erf`, are primitives.
//!
//! Loops and approximations define their derivatives with `custom_jvp`. Floats of fewer than 32
//! bits are computed in `f32`.

mod confluent;
mod entropy;
mod exponential;
mod faddeeva;
mod gamma;
mod gauss;
mod harmonics;
mod hypergeometric;
mod integrals;
mod loggamma;
mod normal;
mod numbers;
mod operands;
mod owens;
mod powers;
mod series;

pub use confluent::hyp1f1;
pub use entropy::{entr, kl_div, rel_entr, xlog1py, xlogy};
pub use exponential::{exp1, expi, expn};
pub use faddeeva::{dawsn, erfcx, wofz};
pub use gamma::{beta, betaln, comb, factorial, gamma, gammasgn, i0, i1, multigammaln, poch};
pub use gauss::hyp2f1;
pub use harmonics::{bessel_jn, sph_harm_y};
pub use integrals::{fresnel, sici};
#[cfg(feature = "export")]
pub(crate) use loggamma::LANCZOS;
pub use loggamma::loggamma;
pub use normal::{log_ndtr, ndtr, ndtri};
pub use numbers::{bernoulli, spence};
pub use owens::owens_t;
pub use powers::{boxcox, boxcox1p, logit};
