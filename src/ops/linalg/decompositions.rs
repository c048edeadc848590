//! Decompositions of matrices.

use super::{adjoint, expect_square};
use crate::core::{Array, DType, bind1};
use crate::ops::tril;
use crate::primitives::{self, QrOptions, SvdOptions, inexact, slice_in_dim, where_};

/// Returns `(a + aᴴ) / 2`. Gradients through it are symmetric.
#[track_caller]
fn symmetrized(a: &Array) -> Array {
    (a + adjoint(a)) * 0.5
}

/// Returns the lower triangular `l` with `l · lᴴ = a`, for Hermitian positive definite `a`, `[…, n,
/// n]`; NaN where `a` is not positive definite. `a` is symmetrized first.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[4.0f32, 2.0, 2.0, 2.0], [2, 2])?;
/// assert_eq!(linalg::cholesky(&a).to_vec::<f32>()?, [2.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cholesky(a: &Array) -> Array {
    expect_square("cholesky", a);
    primitives::cholesky(&symmetrized(&inexact(a)))
}

/// Factors of `a[permutation] = l · u`. SciPy returns a permutation matrix instead.
#[derive(Clone, Debug)]
pub struct LuResult {
    /// The row of `a` in each row: `i32[…, m]`.
    pub permutation: Array,
    /// Lower triangular with ones on the diagonal: `[…, m, k]`.
    pub l: Array,
    /// Upper triangular: `[…, k, n]`.
    pub u: Array,
}

/// Returns the LU decomposition with partial pivoting of `a`, `[…, m, n]`, with `k = min(m, n)`.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[1.0f32, 2.0, 4.0, 4.0], [2, 2])?;
/// let lu = linalg::lu(&a);
/// assert_eq!(lu.permutation.to_vec::<i32>()?, [1, 0]);
/// assert_eq!(lu.u.to_vec::<f32>()?, [4.0, 4.0, 0.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn lu(a: &Array) -> LuResult {
    let a = inexact(a);
    let (packed, _, permutation) = primitives::lu(&a);
    let k = a.shape()[a.rank() - 2].min(a.shape()[a.rank() - 1]) as isize;
    let l = tril(&slice_in_dim(&packed, 0, k, 1, -1), -1);
    let ones = crate::ops::tri(([l.shape()[l.rank() - 2], k as usize], DType::Bool), 0);
    let strict = crate::ops::tri(([l.shape()[l.rank() - 2], k as usize], DType::Bool), -1);
    let diagonal = primitives::ne(ones, strict);
    let l = where_(&diagonal, 1, l);
    let u = crate::ops::triu(&slice_in_dim(&packed, 0, k, 1, -2), 0);
    LuResult { permutation, l, u }
}

/// Factors of `a = q · r`.
#[derive(Clone, Debug)]
#[doc(alias = "QRResult")]
pub struct QrResult {
    /// Orthonormal columns: `[…, m, k]`.
    pub q: Array,
    /// Upper triangular: `[…, k, n]`.
    pub r: Array,
}

/// Returns the QR decomposition of `a`, `[…, m, n]`, with `k = min(m, n)`. For a square `q` use
/// [`primitives::qr`](crate::primitives::qr()).
///
/// ```
/// use oxidax::prelude::*;
/// let r = eval_shape(|a: Array| linalg::qr(&a).r, Aval::new(DType::F32, [5, 3]))?;
/// assert_eq!(r.shape().dims(), [3, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn qr(a: &Array) -> QrResult {
    let (q, r) = primitives::qr_with(&inexact(a), QrOptions { full_matrices: false });
    QrResult { q, r }
}

/// Eigenvalues `w` and eigenvectors `v` with `a · v = v · diag(w)`.
#[derive(Clone, Debug)]
pub struct EigResult {
    /// Eigenvalues, in no particular order: `[…, n]`, complex.
    pub eigenvalues: Array,
    /// Eigenvectors as columns of length 1, with a real largest element: `[…, n, n]`, complex.
    pub eigenvectors: Array,
}

/// Returns eigenvalues and eigenvectors of square `a`, `[…, n, n]`. They are complex, even if `a`
/// is real, and NaN where `a` is not finite.
///
/// Values and vectors have derivatives where all eigenvalues differ. In JAX, derivatives of vectors
/// require `enable_eigvec_derivs`.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[2.0f32, 1.0, 0.0, 3.0], [2, 2])?;
/// let w = linalg::eig(&a).eigenvalues;
/// assert_eq!(sort(&real(&w), 0).to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eig(a: &Array) -> EigResult {
    expect_square("eig", a);
    let (eigenvalues, eigenvectors) = primitives::eig(&inexact(a));
    EigResult { eigenvalues, eigenvectors }
}

/// Returns the eigenvalues of square `a`, complex, in no particular order. Faster than [`eig`].
#[track_caller]
pub fn eigvals(a: &Array) -> Array {
    expect_square("eigvals", a);
    bind1(primitives::Eig { eigenvectors: false }, [&inexact(a)])
}

/// Eigenvalues `w` and eigenvectors `v` with `a · v = v · diag(w)` for Hermitian `a`.
#[derive(Clone, Debug)]
pub struct EighResult {
    /// Eigenvalues, increasing: `[…, n]`, real.
    pub eigenvalues: Array,
    /// Eigenvectors as columns: `[…, n, n]`.
    pub eigenvectors: Array,
}

/// Returns eigenvalues and eigenvectors of Hermitian `a`, `[…, n, n]`, which is symmetrized first.
///
/// Eigenvectors are determined up to a factor of modulus 1, which may differ from JAX's.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[2.0f32, 0.0, 0.0, -1.0], [2, 2])?;
/// assert_eq!(linalg::eigh(&a).eigenvalues.to_vec::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eigh(a: &Array) -> EighResult {
    expect_square("eigh", a);
    let (eigenvectors, eigenvalues) = primitives::eigh(&symmetrized(&inexact(a)));
    EighResult { eigenvalues, eigenvectors }
}

/// Returns the eigenvalues of Hermitian `a`, increasing. See [`eigh`].
#[track_caller]
pub fn eigvalsh(a: &Array) -> Array {
    expect_square("eigvalsh", a);
    eigh(a).eigenvalues
}

/// Factors of `a = u · diag(s) · vᴴ`.
#[derive(Clone, Debug)]
#[doc(alias = "SVDResult")]
pub struct SvdResult {
    /// Left singular vectors as columns: `[…, m, k]`.
    pub u: Array,
    /// Singular values, decreasing: `[…, k]`, real.
    pub s: Array,
    /// Right singular vectors, conjugated, as rows: `[…, k, n]`.
    pub vh: Array,
}

/// Returns the singular value decomposition of `a`, `[…, m, n]`, with `k = min(m, n)`. For square
/// `u` and `vᴴ` use [`primitives::svd`](crate::primitives::svd()).
///
/// Each pair of singular vectors is determined up to a factor of modulus 1, which may differ from
/// JAX's.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[0.0f32, 3.0, -2.0, 0.0], [2, 2])?;
/// assert_eq!(linalg::svd(&a).s.to_vec::<f32>()?, [3.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn svd(a: &Array) -> SvdResult {
    let (u, s, vh) = primitives::svd_with(&inexact(a), SvdOptions { full_matrices: false });
    SvdResult { u, s, vh }
}

/// Returns the singular values of `a`, decreasing. See [`svd`].
#[track_caller]
pub fn svdvals(a: &Array) -> Array {
    svd(a).s
}
