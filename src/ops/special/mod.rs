//! Special functions that are a few primitives, as `jax.scipy.special` has them: entropies, the normal
//! distribution's tails, transforms of probabilities. What has rules of its own, such as `erf`, is
//! a primitive.

mod entropy;
mod gamma;
mod normal;
mod powers;

pub use entropy::{entr, kl_div, rel_entr, xlog1py, xlogy};
pub use gamma::{beta, betaln, comb, factorial, gamma, gammasgn, i0, i1, multigammaln, poch};
pub use normal::{log_ndtr, ndtr, ndtri};
pub use powers::{boxcox, boxcox1p, logit};
