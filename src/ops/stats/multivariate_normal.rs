//! The normal distribution of vectors.

use super::super::linalg::{SolveTriangularOptions, cholesky, solve_triangular_with};
use super::super::{DiagonalOptions, diagonal_with, result_type};
use super::distribution::Parameter;
use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, Like, add, convert_element_type, div, exp, expand_dims, inexact, log, mul,
    promote_arrays, promote_inexact, squeeze, sub,
};
use std::f64::consts::PI;

/// The normal distribution of vectors of `k` numbers.
///
/// A scalar mean makes it the distribution of one number, whose variance is `cov`.
///
/// ```
/// use oxidax::prelude::*;
/// let logpdf = |x: Array, cov: Array| {
///     stats::MultivariateNormal::new(zeros([3]), &cov).logpdf(&x)
/// };
/// let (x, cov) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [3, 3]));
/// assert_eq!(eval_shape(logpdf, (x, cov))?.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "jax.scipy.stats.multivariate_normal")]
pub struct MultivariateNormal {
    /// The mean, `[…, k]` or a scalar.
    pub mean: Parameter,
    /// The covariance matrix, `[…, k, k]`, or a variance shared by all coordinates.
    pub cov: Parameter,
}

/// Converts operands to arrays of their common float dtype, without broadcasting.
#[track_caller]
fn promote_dtypes<const N: usize>(operands: [Like<'_>; N]) -> [Array; N] {
    let dtype = result_type(operands);
    operands.map(|operand| {
        let [x] = promote_arrays("MultivariateNormal::logpdf", [operand]);
        inexact(&convert_element_type(&x, dtype))
    })
}

impl MultivariateNormal {
    /// Creates the distribution from its mean and its covariance.
    pub fn new(mean: impl ArrayLike, cov: impl ArrayLike) -> MultivariateNormal {
        MultivariateNormal { mean: Parameter::new(mean), cov: Parameter::new(cov) }
    }

    /// Returns the logarithm of the density at vectors `x`, `[…, k] → […]`:
    /// `-(yᵀ Σ⁻¹ y + log det Σ + k log 2π) / 2` for `y = x - mean` and `Σ = cov`.
    ///
    /// The batch axes of `x`, `mean` and `cov` broadcast. Both triangles of `cov` are read. The
    /// result is NaN where `cov` is not positive definite.
    ///
    /// Throws `Op` (shape) if the sizes of `x`, `mean` and `cov` differ or do not broadcast.
    #[doc(alias = "jax.scipy.stats.multivariate_normal.logpdf")]
    #[track_caller]
    pub fn logpdf(&self, x: impl ArrayLike) -> Array {
        Loc::caller().scope(|| {
            let operands = [x.like(), self.mean.like(), self.cov.like()];
            let [x, mean, cov] = promote_dtypes(operands);
            let density = |square: &Array, log_norm: &Array| mul(add(square, log_norm), -0.5);
            let log_two_pi = (2.0 * PI).ln();
            if mean.rank() == 0 {
                let operands = [x.like(), mean.like(), cov.like()];
                let [x, mean, cov] = promote_inexact("MultivariateNormal::logpdf", operands);
                let y = sub(x, mean);
                return density(&div(mul(&y, &y), &cov), &add(log(&cov), log_two_pi));
            }
            let k = mean.shape()[mean.rank() - 1];
            let cov_matches =
                cov.rank() == 0 || (cov.rank() >= 2 && cov.shape().ends_with(&[k, k]));
            if !cov_matches || x.rank() == 0 || x.shape()[x.rank() - 1] != k {
                let message = format!(
                    "a mean {} with a covariance {} at {}",
                    mean.aval(),
                    cov.aval(),
                    x.aval()
                );
                let error = RuleError::shape(message);
                trace::throw_operands("MultivariateNormal::logpdf", error, &[&x, &mean, &cov]);
            }
            let y = sub(x, mean);
            if cov.rank() == 0 {
                let square = div(mul(&y, &y).sum_axes(-1), &cov);
                return density(&square, &mul(add(log(&cov), log_two_pi), k as f64));
            }
            let factor = cholesky(&cov);
            let lower = SolveTriangularOptions { lower: true, ..Default::default() };
            let y = squeeze(&solve_triangular_with(&factor, &expand_dims(&y, &[-1]), lower), &[-1]);
            let log_det =
                mul(log(diagonal_with(&factor, DiagonalOptions::LAST_AXES)).sum_axes(-1), 2.0);
            density(&mul(&y, &y).sum_axes(-1), &add(log_det, log_two_pi * k as f64))
        })
    }

    /// Returns the density at vectors `x`, the exponential of [`MultivariateNormal::logpdf`].
    #[doc(alias = "jax.scipy.stats.multivariate_normal.pdf")]
    #[track_caller]
    pub fn pdf(&self, x: impl ArrayLike) -> Array {
        exp(self.logpdf(x))
    }
}
