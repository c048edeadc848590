//! Transforms of probabilities and of positive data.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, eq, expm1, full_like, inexact, log, log1p, mul, promote_inexact, sub, where_,
    zeros_like,
};

/// `log(p / (1 - p))`, the inverse of [`sigmoid`](super::super::sigmoid); integers become floats.
#[track_caller]
pub fn logit(p: &Array) -> Array {
    let p = inexact(p);
    sub(log(&p), log1p(&crate::primitives::neg(&p)))
}

/// `(exp(power * logarithm) - 1) / power`, the logarithm itself for power 0.
#[track_caller]
fn transformed(logarithm: &Array, power: &Array) -> Array {
    let flat = eq(power, zeros_like(power));
    let safe = where_(&flat, full_like(power, 1), power);
    where_(&flat, logarithm, div(expm1(&mul(logarithm, &safe)), &safe))
}

/// Box and Cox's transform `(x^λ - 1) / λ`, `log(x)` for λ = 0, with promotion and broadcasting.
///
/// # Reference
/// Box and Cox, "An analysis of transformations", 1964, equation 1.
#[track_caller]
pub fn boxcox(x: impl ArrayLike, lambda: impl ArrayLike) -> Array {
    let [x, lambda] = promote_inexact("boxcox", [x.like(), lambda.like()]);
    transformed(&log(&x), &lambda)
}

/// [`boxcox`] of `1 + x`, exact for small `x`.
#[track_caller]
pub fn boxcox1p(x: impl ArrayLike, lambda: impl ArrayLike) -> Array {
    let [x, lambda] = promote_inexact("boxcox1p", [x.like(), lambda.like()]);
    transformed(&log1p(&x), &lambda)
}
