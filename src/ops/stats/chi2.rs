//! The χ² distribution of `df` degrees of freedom above `loc`, of width `scale`: the gamma distribution of
//! shape `df / 2` and width `2 scale`.

use super::gamma;
use crate::core::Array;
use crate::primitives::{ArrayLike, div, mul};

/// The logarithm of the density.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| stats::chi2::logpdf(&x, 3.0, 0.0, 1.0), Aval::new(DType::F32, [3]))?;
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
    gamma::logpdf(x, div(df, 2.0), loc, mul(scale, 2.0))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    gamma::pdf(x, div(df, 2.0), loc, mul(scale, 2.0))
}

/// The probability of a number of at most `x`.
#[track_caller]
pub fn cdf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    gamma::cdf(x, div(df, 2.0), loc, mul(scale, 2.0))
}

/// The logarithm of [`cdf`].
#[track_caller]
pub fn logcdf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    gamma::logcdf(x, div(df, 2.0), loc, mul(scale, 2.0))
}

/// The probability of a number above `x`.
#[track_caller]
pub fn sf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    gamma::sf(x, div(df, 2.0), loc, mul(scale, 2.0))
}

/// The logarithm of [`sf`].
#[track_caller]
pub fn logsf(
    x: impl ArrayLike,
    df: impl ArrayLike,
    loc: impl ArrayLike,
    scale: impl ArrayLike,
) -> Array {
    gamma::logsf(x, div(df, 2.0), loc, mul(scale, 2.0))
}
