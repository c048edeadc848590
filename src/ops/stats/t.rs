//! Student's t distribution of `df` degrees of freedom around `loc`, of width `scale`.

use crate::core::Array;
use crate::primitives::{ArrayLike, add, div, exp, lgamma, log, log1p, mul, promote_inexact, sub};
use std::f64::consts::PI;

/// `log Γ((df + 1) / 2) - log Γ(df / 2) - log(π df) / 2 - log(scale) - (df + 1) / 2 · log(1 + z² / df)` for `z =
/// (x - loc) / scale`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::t::logpdf(&x, 3.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    let [x, df, loc, scale] =
        promote_inexact("t::logpdf", [x.like(), df.like(), loc.like(), scale.like()]);
    let z = div(sub(x, loc), &scale);
    let half = mul(add(&df, 1.0), 0.5);
    let norm = sub(lgamma(&half), lgamma(&mul(&df, 0.5)));
    let width = add(mul(log(&mul(&df, PI)), 0.5), log(&scale));
    sub(sub(norm, width), mul(half, log1p(&div(mul(&z, &z), &df))))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    exp(&logpdf(x, df, loc, scale))
}
