//! The generalized normal distribution of exponent `p` around 0: 2 gives a normal, 1 a Laplace distribution.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, abs, add, div, exp, igamma, lgamma, log, mul, pow, promote_inexact, sign, sub,
};

/// `log(p / 2) - log Γ(1 / p) - |x|ᵖ`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::gennorm::logpdf(&x, 1.5), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, p: impl ArrayLike) -> Array {
    let [x, p] = promote_inexact("gennorm::logpdf", [x.like(), p.like()]);
    let norm = sub(log(&mul(&p, 0.5)), lgamma(&div(1.0, &p)));
    sub(norm, pow(abs(&x), p))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, p: impl ArrayLike) -> Array {
    exp(&logpdf(x, p))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, p: impl ArrayLike) -> Array {
    let [x, p] = promote_inexact("gennorm::cdf", [x.like(), p.like()]);
    let share = igamma(div(1.0, &p), pow(abs(&x), &p));
    mul(add(mul(sign(&x), share), 1.0), 0.5)
}
