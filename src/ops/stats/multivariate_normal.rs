//! The normal distribution of vectors, with a mean and a covariance matrix.

use super::super::linalg::{cholesky, solve_triangular};
use super::super::{DiagonalOptions, diagonal_with, result_type};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    ArrayLike, Like, add, convert_element_type, div, exp, expand_dims, inexact, log, mul,
    promote_arrays, promote_inexact, squeeze, sub,
};
use std::f64::consts::PI;

/// The operand as a float array of a dtype that all share.
#[track_caller]
fn shared<const N: usize>(operands: [Like<'_>; N]) -> [Array; N] {
    let dtype = result_type(operands);
    operands.map(|operand| {
        let [x] = promote_arrays("multivariate_normal::logpdf", [operand]);
        inexact(&convert_element_type(&x, dtype))
    })
}

/// `-(yᵀ Σ⁻¹ y + log det Σ + k log 2π)/2` for `y = x - mean`: `x` is `[…, k]`, `mean` too, and `cov`, which is `Σ`,
/// either `[…, k, k]` or a variance that all coordinates share; all batches broadcast. A scalar mean makes it the
/// distribution of one number, with the variance `cov`.
///
/// Of `cov` both triangles are read, and NaN comes out where it is not positive definite. Throws `Op` (shape) if `cov` does
/// not fit the mean, and for shapes that do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, cov) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [3, 3]));
/// let f = |x: Array, cov: Array| stats::multivariate_normal::logpdf(&x, zeros([3], DType::F32), &cov);
/// assert_eq!(eval_shape(f, (x, cov))?.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logpdf(x: impl ArrayLike, mean: impl ArrayLike, cov: impl ArrayLike) -> Array {
    let [x, mean, cov] = shared([x.like(), mean.like(), cov.like()]);
    let halved = |square: &Array, logarithm: &Array| mul(add(square, logarithm), -0.5);
    let constant = (2.0 * PI).ln();
    if mean.rank() == 0 {
        let operands = [x.like(), mean.like(), cov.like()];
        let [x, mean, cov] = promote_inexact("multivariate_normal::logpdf", operands);
        let y = sub(x, mean);
        return halved(&div(mul(&y, &y), &cov), &add(log(&cov), constant));
    }
    let k = mean.shape()[mean.rank() - 1];
    let fits = cov.rank() == 0 || (cov.rank() >= 2 && cov.shape().ends_with(&[k, k]));
    if !fits || x.rank() == 0 || x.shape()[x.rank() - 1] != k {
        let message =
            format!("a mean {} with a covariance {} at {}", mean.aval(), cov.aval(), x.aval());
        let error = RuleError::shape(message);
        trace::throw_operands("multivariate_normal::logpdf", error, &[&x, &mean, &cov]);
    }
    let y = sub(x, mean);
    if cov.rank() == 0 {
        let square = div(mul(&y, &y).sum_axes(-1), &cov);
        return halved(&square, &mul(add(log(&cov), constant), k as f64));
    }
    let factor = cholesky(&cov);
    let y = squeeze(&solve_triangular(&factor, &expand_dims(&y, &[-1]), true), &[-1]);
    let logarithm = mul(log(&diagonal_with(&factor, DiagonalOptions::LAST_AXES)).sum_axes(-1), 2.0);
    halved(&mul(&y, &y).sum_axes(-1), &add(logarithm, constant * k as f64))
}

/// The density: the exponential of [`logpdf`].
#[track_caller]
pub fn pdf(x: impl ArrayLike, mean: impl ArrayLike, cov: impl ArrayLike) -> Array {
    exp(&logpdf(x, mean, cov))
}
