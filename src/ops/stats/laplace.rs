//! The Laplace distribution around `loc`: exponential to both sides with mean distance `scale`.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, abs, add, div, exp, le, log, mul, neg, promote_inexact, sub, where_,
};

/// `-|x - loc| / scale - log(2 scale)`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::laplace::logpdf(&x, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("laplace::logpdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    neg(&add(abs(&z), log(&mul(scale, 2.0))))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    exp(&logpdf(x, loc, scale))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(x: impl ArrayLike, loc: impl ArrayLike, scale: impl ArrayLike) -> Array {
    let [x, loc, scale] = promote_inexact("laplace::cdf", [x.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), scale);
    let tail = mul(exp(&neg(&abs(&z))), 0.5);
    where_(&le(&z, 0.0), &tail, sub(1.0, &tail))
}
