//! Samplers of multivariate normal vectors and orthogonal matrices.

use super::key::Key;
use super::normal::{raw_any_normal, raw_normal};
use super::parameters::{SampleShape, batch_shape, expect_castable};
use super::sampler::{cast, draw, expect_float};
use crate::core::{Array, Aval, DType, IntoAval, Loc, RuleError, Shape, throw_operands};
use crate::ops::{DiagonalOptions, diagonal_with, einsum, linalg, result_type};
use crate::primitives::{ArrayLike, add, inexact, mul, sign, sqrt};

/// Method by which [`multivariate_normal_with`] factorizes a covariance matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CovarianceRoot {
    /// The Cholesky factor: the fastest method, NaN for a singular matrix.
    #[default]
    Cholesky,
    /// Eigenvectors scaled by the roots of eigenvalues. Works for singular matrices.
    Eigh,
    /// Singular vectors scaled by the roots of singular values. Works for singular matrices.
    Svd,
}

/// Options of [`multivariate_normal_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultivariateNormalOptions {
    /// The factorization of the covariance. Different methods return different numbers of the same
    /// distribution.
    pub method: CovarianceRoot,
}

/// Returns normal vectors with mean `mean` and covariance `cov`.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. `mean` is `[…, n]`, `cov` is `[…, n,
/// n]`, symmetric and positive definite. The result is `[shape…, n]`: the leading axes of `mean`
/// and `cov` broadcast to `shape`, or determine it if that is `..`. It is differentiable with
/// respect to both. Linear algebra is done in `f32` or `f64`, the dtype that `mean` and `cov`
/// promote to.
///
/// Throws `Op` for other dtypes, for shapes that do not fit, and if `mean` or `cov` has a wider
/// dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let mean = Array::from_slice(&[1.0f32, -1.0], [2])?;
/// let cov = Array::from_slice(&[2.0f32, 0.5, 0.5, 1.0], [2, 2])?;
/// let x = random::multivariate_normal(random::key(0), [1000], &mean, &cov);
/// assert_eq!(x.shape().dims(), [1000, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn multivariate_normal(key: Key, shape: impl SampleShape, mean: &Array, cov: &Array) -> Array {
    let options = MultivariateNormalOptions::default();
    multivariate_normal_with(key, shape, mean, cov, options)
}

/// Returns normal vectors, as [`multivariate_normal`], with options.
#[track_caller]
pub fn multivariate_normal_with(
    key: Key,
    shape: impl SampleShape,
    mean: &Array,
    cov: &Array,
    options: MultivariateNormalOptions,
) -> Array {
    Loc::caller().scope(|| {
        let (shape, dtype) = shape.shape_and_dtype(DType::F32);
        const NAME: &str = "multivariate_normal";
        expect_float(NAME, dtype);
        let n = mean.shape().last().copied().unwrap_or(0);
        if mean.rank() == 0 || cov.rank() < 2 || cov.shape()[cov.rank() - 2..] != [n, n] {
            let message = format!(
                "needs a mean […, n] and a covariance […, n, n], got {} and {}",
                mean.aval(),
                cov.aval()
            );
            throw_operands(NAME, RuleError::shape(message), &[mean, cov]);
        }
        expect_castable(NAME, dtype, &[mean.clone(), cov.clone()]);
        let batches = [
            Shape::new(&mean.shape()[..mean.rank() - 1]),
            Shape::new(&cov.shape()[..cov.rank() - 2]),
        ];
        let shape = batch_shape(NAME, shape, &batches, &[mean, cov]);
        let (shape, words) = (shape.insert(shape.rank(), n), key.words(NAME));
        draw(|| {
            let joint = result_type([mean.like(), cov.like()]);
            let [mean, cov] = [mean, cov].map(|x| inexact(&cast(x, joint)));
            let factor = match options.method {
                CovarianceRoot::Cholesky => linalg::cholesky(&cov),
                CovarianceRoot::Eigh => {
                    let eigh = linalg::eigh(&cov);
                    mul(eigh.eigenvectors, sqrt(&eigh.eigenvalues).expand_dims(-2))
                }
                CovarianceRoot::Svd => {
                    let svd = linalg::svd(&cov);
                    mul(svd.u, sqrt(&svd.s).expand_dims(-2))
                }
            };
            let normal = raw_normal(&words, &shape, dtype);
            add(mean, einsum("...ij,...j->...i", [&factor, &normal]))
        })
    })
}

/// Options of [`orthogonal_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrthogonalOptions {
    /// The number of columns; `n` if `None`.
    pub m: Option<usize>,
}

/// Returns uniformly distributed orthogonal matrices: `[shape…, n, n]`.
///
/// The dtype is `f32` (the default), `f64`, `c64` or `c128`; complex matrices are unitary. Throws
/// `Op` (dtype) for other dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let q = random::orthogonal(random::key(0), [5], 3);
/// assert_eq!(q.shape().dims(), [5, 3, 3]);
/// ```
///
/// # Reference
/// Mezzadri: How to generate random matrices from the classical compact groups (2007).
#[track_caller]
pub fn orthogonal(key: Key, shape: impl IntoAval, n: usize) -> Array {
    orthogonal_with(key, shape, n, OrthogonalOptions::default())
}

/// Returns uniformly distributed matrices `[shape…, n, m]` with orthonormal columns, or with
/// orthonormal rows if `n` is below `m`. The dtypes are those of [`orthogonal`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let wide = random::OrthogonalOptions { m: Some(3) };
/// let q = random::orthogonal_with(random::key(0), [], 2, wide);
/// let identity = q.matmul(&q.swapaxes(0, 1));
/// ```
#[track_caller]
pub fn orthogonal_with(
    key: Key,
    shape: impl IntoAval,
    n: usize,
    options: OrthogonalOptions,
) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let m = options.m.unwrap_or(n);
    if !matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        let error = RuleError::dtype(format!("draws f32, f64, c64 or c128, not {dtype}"));
        throw_operands("orthogonal", error, &[]);
    }
    let (mut dims, words) = (shape.to_vec(), key.words("orthogonal"));
    dims.extend([n.max(m), n.min(m)]);
    draw(|| {
        let linalg::QrResult { q, r } =
            linalg::qr(&raw_any_normal(&words, &Shape::new(&dims), dtype));
        // The signs of the diagonal are arbitrary; removing them makes the distribution uniform.
        let tall = mul(q, sign(diagonal_with(&r, DiagonalOptions::LAST_AXES)).expand_dims(-2));
        if n < m { tall.swapaxes(-1, -2) } else { tall }
    })
}
