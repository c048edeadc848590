//! Decompositions of matrices.

use super::{SolveTriangularOptions, adjoint, expect_square, matrix_sizes, solve_triangular_with};
use crate::control_flow::custom_jvp;
use crate::core::{Array, DType, Loc, bind1, throw_operands};
use crate::ops::{flip, matmul, take_along_axis, tril, triu};
use crate::primitives::{
    self, QrOptions, SvdOptions, abs, argsort, check_subset, conj, convert_element_type,
    expand_dims, inexact, lt, slice_in_dim, where_,
};
use std::ops::Range;

pub use crate::primitives::{EigImplementation, EighImplementation, SvdAlgorithm};

/// Returns `(a + aᴴ) / 2`. Gradients through it are symmetric.
#[track_caller]
fn symmetrized(a: &Array) -> Array {
    (a + adjoint(a)) * 0.5
}

/// A triangle of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// The diagonal and the elements below it.
    Lower,
    /// The diagonal and the elements above it.
    Upper,
}

/// Returns the Hermitian matrix that has a triangle of `a`.
#[track_caller]
fn from_triangle(a: &Array, triangle: Triangle) -> Array {
    let half = match triangle {
        Triangle::Lower => tril(a, -1),
        Triangle::Upper => triu(a, 1),
    };
    let diagonal = tril(&triu(a, 0), 0);
    let diagonal = (&diagonal + adjoint(&diagonal)) * 0.5;
    &half + adjoint(&half) + diagonal
}

/// Returns the factor of the lower triangle of `a`. Its derivative is that of a symmetric change:
/// `l φ(l⁻¹ da l⁻ᴴ)`, where `φ` halves the diagonal and drops what is above it.
#[track_caller]
fn cholesky_of_lower(a: &Array) -> Array {
    let factor = |a: &Array| primitives::cholesky(&from_triangle(a, Triangle::Lower));
    let rule = move |a: &Array, da: &Array| {
        let l = factor(a);
        let lower = SolveTriangularOptions { lower: true, ..Default::default() };
        let left = solve_triangular_with(&l, da, lower);
        let middle = adjoint(&solve_triangular_with(&l, &adjoint(&left), lower));
        let half = (tril(&middle, 0) + tril(&middle, -1)) * 0.5;
        (l.clone(), matmul(&l, &half))
    };
    Loc::caller().scope(|| custom_jvp(factor, rule)(a))
}

/// Options of [`cholesky_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CholeskyOptions {
    /// Returns the upper triangular `u` with `uᴴ · u = a`. The default is false.
    pub upper: bool,
    /// Replaces `a` by `(a + aᴴ) / 2`. Otherwise its lower triangle is read. The default is true.
    pub symmetrize_input: bool,
}

impl Default for CholeskyOptions {
    fn default() -> Self {
        CholeskyOptions { upper: false, symmetrize_input: true }
    }
}

/// Returns a Cholesky factor, as [`cholesky`], in upper triangular form or from one triangle of
/// `a`.
#[track_caller]
pub fn cholesky_with(a: &Array, options: CholeskyOptions) -> Array {
    expect_square("cholesky", a);
    let a = inexact(a);
    let l = if options.symmetrize_input {
        primitives::cholesky(&symmetrized(&a))
    } else {
        cholesky_of_lower(&a)
    };
    if options.upper { adjoint(&l) } else { l }
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

/// Returns the QR decomposition of `a`, `[…, m, n]`, with `k = min(m, n)`. [`qr_with`] also
/// returns a square `q`.
///
/// ```
/// use oxidax::prelude::*;
/// let r = eval_shape(|a: Array| linalg::qr(&a).r, Aval::new(DType::F32, [5, 3]))?;
/// assert_eq!(r.shape().dims(), [3, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn qr(a: &Array) -> QrResult {
    qr_with(a, QrOptions { full_matrices: false })
}

/// Returns the QR decomposition of `a`, as [`qr`], or with a square `q` for
/// `QrOptions { full_matrices: true }`, NumPy's mode `complete`.
#[track_caller]
pub fn qr_with(a: &Array, options: QrOptions) -> QrResult {
    let (q, r) = primitives::qr_with(&inexact(a), options);
    QrResult { q, r }
}

/// Reflectors of a QR decomposition, as LAPACK's `geqrf` stores them.
#[derive(Clone, Debug)]
pub struct RawQrResult {
    /// The transpose of `r` and the reflectors' vectors: `[…, n, m]`.
    pub h: Array,
    /// The factors of the reflectors: `[…, min(m, n)]`.
    pub tau: Array,
}

/// Returns the QR decomposition of `a`, `[…, m, n]`, as reflectors: NumPy's mode `raw`.
///
/// `q` is the product of `1 - tau[i] v vᴴ`, where `v` is zero before element `i`, 1 at it, and row
/// `i` of `h` after it. The decomposition in this form has no derivative; [`qr`] has one.
///
/// ```
/// use oxidax::prelude::*;
/// let a = array![[3.0, 1.0], [4.0, 2.0]];
/// let raw = linalg::qr_raw(&a);
/// let r = abs(raw.h.index(i![0, 0])).item::<f32>()?;
/// assert!((r - 5.0).abs() < 1e-5);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn qr_raw(a: &Array) -> RawQrResult {
    let (h, tau) = primitives::geqrf(&inexact(a));
    RawQrResult { h: primitives::moveaxis(&h, -1, -2), tau }
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

/// Options of [`eig_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EigOptions {
    /// The implementation.
    pub implementation: EigImplementation,
}

/// Returns eigenvalues and eigenvectors, as [`eig`], by a given implementation.
///
/// Throws `Op` (unsupported) for one that is not available.
#[track_caller]
pub fn eig_with(a: &Array, options: EigOptions) -> EigResult {
    options.implementation.expect_available(a);
    eig(a)
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
    eigh_with(a, EighOptions::default())
}

/// Options of [`eigh_with`] and [`eigvalsh_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EighOptions {
    /// The triangle that is read unless the matrix is symmetrized. NumPy's `UPLO`.
    #[doc(alias = "UPLO")]
    pub triangle: Triangle,
    /// Replaces `a` by `(a + aᴴ) / 2`, the default, so that both triangles are read.
    pub symmetrize_input: bool,
    /// The indices of the eigenvalues that are returned, in increasing order, with their vectors.
    /// The default is all.
    pub subset_by_index: Option<Range<usize>>,
    /// The algorithm.
    pub implementation: EighImplementation,
}

impl Default for EighOptions {
    fn default() -> Self {
        EighOptions {
            triangle: Triangle::Lower,
            symmetrize_input: true,
            subset_by_index: None,
            implementation: EighImplementation::Default,
        }
    }
}

/// Returns eigenvalues and eigenvectors, as [`eigh`], of the Hermitian matrix that one triangle of
/// `a` determines, or some of them.
///
/// Throws `Op` for a range of eigenvalues that is out of bounds, and for an algorithm that is not
/// available.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::linalg::{EighOptions, Triangle, eigvalsh_with};
/// let a = array![[1.0, 99.0], [2.0, 1.0]];
/// let lower = EighOptions { symmetrize_input: false, ..Default::default() };
/// let w = eigvalsh_with(&a, lower).to_vec::<f32>()?;
/// assert!((w[0] + 1.0).abs() < 1e-5 && (w[1] - 3.0).abs() < 1e-5);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eigh_with(a: &Array, options: EighOptions) -> EighResult {
    expect_square("eigh", a);
    options.implementation.expect_available(a);
    let n = matrix_sizes(a).0;
    let subset = options.subset_by_index.unwrap_or(0..n);
    if let Err(error) = check_subset(&subset, n) {
        throw_operands("eigh", error, &[a]);
    }
    let a = inexact(a);
    let a = if options.symmetrize_input {
        symmetrized(&a)
    } else {
        let value = move |a: &Array| from_triangle(a, options.triangle);
        // The tangent is symmetrized, so that gradients are symmetric as JAX's.
        let rule = move |a: &Array, da: &Array| (value(a), symmetrized(da));
        Loc::caller().scope(|| custom_jvp(value, rule)(&a))
    };
    let (eigenvectors, eigenvalues) = primitives::eigh(&a);
    if subset == (0..n) {
        return EighResult { eigenvalues, eigenvectors };
    }
    let (start, end) = (subset.start as isize, subset.end as isize);
    EighResult {
        eigenvalues: slice_in_dim(&eigenvalues, start, end, 1, -1),
        eigenvectors: slice_in_dim(&eigenvectors, start, end, 1, -1),
    }
}

/// Returns the eigenvalues of Hermitian `a`, increasing. See [`eigh`].
#[track_caller]
pub fn eigvalsh(a: &Array) -> Array {
    expect_square("eigvalsh", a);
    eigh(a).eigenvalues
}

/// Returns the eigenvalues of the Hermitian matrix that one triangle of `a` determines. See
/// [`eigh_with`].
#[track_caller]
pub fn eigvalsh_with(a: &Array, options: EighOptions) -> Array {
    eigh_with(a, options).eigenvalues
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

/// Returns the singular value decomposition of `a`, `[…, m, n]`, with `k = min(m, n)`.
/// [`svd_with`] also returns square `u` and `vᴴ`.
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
    svd_with(a, SvdOptions { full_matrices: false, ..Default::default() })
}

/// Returns the singular value decomposition of `a`, as [`svd`], or with square `u` and `vᴴ` for
/// `SvdOptions { full_matrices: true }`, which is the default of JAX.
#[track_caller]
pub fn svd_with(a: &Array, options: SvdOptions) -> SvdResult {
    let (u, s, vh) = primitives::svd_with(&inexact(a), options);
    SvdResult { u, s, vh }
}

/// Returns the singular value decomposition of Hermitian `a`, `[…, n, n]`, from its eigenvalues,
/// which takes less time than [`svd`]. `a` is symmetrized first.
///
/// Throws `Op` if the matrices are not square.
#[doc(alias = "hermitian")]
#[track_caller]
pub fn svd_hermitian(a: &Array) -> SvdResult {
    expect_square("svd", a);
    let EighResult { eigenvalues, eigenvectors } = eigh(a);
    let s = abs(&eigenvalues);
    let order = flip(&argsort(&s, -1), -1);
    let columns = expand_dims(&order, &[-2]);
    let u = take_along_axis(&eigenvectors, &columns, -1);
    let signs = where_(lt(&eigenvalues, 0), -1, 1);
    let signs = take_along_axis(&signs, &order, -1);
    let signs = convert_element_type(&expand_dims(&signs, &[-2]), u.dtype());
    let vh = primitives::moveaxis(&conj(&u * signs), -1, -2);
    SvdResult { u, s: take_along_axis(&s, &order, -1), vh }
}

/// Returns the singular values of `a`, decreasing. See [`svd`].
#[track_caller]
pub fn svdvals(a: &Array) -> Array {
    svd(a).s
}
