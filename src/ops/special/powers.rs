//! The logit and Box-Cox transforms.

use crate::core::Array;
use crate::primitives::{
    ArrayLike, div, eq, expm1, full_like, inexact, log, log1p, mul, promote_inexact, sub, where_,
    zeros_like,
};

/// Returns `log(p / (1 - p))`, the inverse of [`sigmoid`](super::super::sigmoid). Integers become
/// floats.
#[track_caller]
pub fn logit(p: &Array) -> Array {
    let p = inexact(p);
    sub(log(&p), log1p(crate::primitives::neg(&p)))
}

/// Returns `(exp(power * logarithm) - 1) / power`, or the logarithm for power 0.
#[track_caller]
fn power_transform(logarithm: &Array, power: &Array) -> Array {
    let is_zero = eq(power, zeros_like(power));
    let safe = where_(&is_zero, full_like(power, 1), power);
    where_(&is_zero, logarithm, div(expm1(mul(logarithm, &safe)), &safe))
}

/// Returns the Box-Cox transform `(x^λ - 1) / λ`, or `log(x)` for λ = 0, with promotion and
/// broadcasting.
///
/// # Reference
/// Box and Cox, "An analysis of transformations", 1964, equation 1.
#[track_caller]
pub fn boxcox(x: impl ArrayLike, lambda: impl ArrayLike) -> Array {
    let [x, lambda] = promote_inexact("boxcox", [x.like(), lambda.like()]);
    power_transform(&log(&x), &lambda)
}

/// Returns [`boxcox`] of `1 + x`, accurate for small `x`.
#[track_caller]
pub fn boxcox1p(x: impl ArrayLike, lambda: impl ArrayLike) -> Array {
    let [x, lambda] = promote_inexact("boxcox1p", [x.like(), lambda.like()]);
    power_transform(&log1p(&x), &lambda)
}
