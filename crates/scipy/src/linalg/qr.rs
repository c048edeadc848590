//! QR decompositions with square or narrow factors and with column pivoting.

use super::householder::{
    OrmqrOptions, ProductSide, Reflectors, geqp3, geqrf, householder_product, ormqr,
};
use super::support::{expect_matrices, inexact, same_inexact, sizes};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::{QrResult, SvdResult};
use oxidax::prelude::*;

/// Size of the orthogonal factor of a QR decomposition of `[m, n]` matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QrSize {
    /// Square: `q` is `[m, m]` and `r` is `[m, n]`.
    #[default]
    Full,
    /// Narrow: `q` is `[m, k]` and `r` is `[k, n]`, with `k = min(m, n)`.
    Economic,
}

/// Returns the QR decomposition of `a`, `[…, m, n]`, with a square `q`. [`oxidax::linalg::qr`]
/// returns the narrow factors.
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let factors = |a: Array| (linalg::qr(&a).q, linalg::qr(&a).r);
/// let (q, r) = eval_shape(factors, Aval::new(DType::F32, [4, 3]))?;
/// assert_eq!((q.shape().dims(), r.shape().dims()), (&[4, 4][..], &[4, 3][..]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn qr(a: &Array) -> QrResult {
    qr_with(a, QrSize::Full)
}

/// Returns the QR decomposition of `a` with factors of a given size. Throws as [`qr`].
#[track_caller]
pub fn qr_with(a: &Array, size: QrSize) -> QrResult {
    let options = QrOptions { full_matrices: size == QrSize::Full };
    let (q, r) = oxidax::primitives::qr_with(&inexact(a), options);
    QrResult { q, r }
}

/// Factors of a QR decomposition with column pivoting: `a[:, permutation] = q · r`.
#[derive(Clone, Debug, Tree)]
pub struct PivotedQr {
    /// Orthonormal columns: `[…, m, k]`.
    pub q: Array,
    /// Upper triangular: `[…, k, n]`. Moduli on the diagonal do not increase.
    pub r: Array,
    /// The column of `a` in each column: `i32[…, n]`.
    pub permutation: Array,
}

/// Returns the QR decomposition of `a`, `[…, m, n]`, with column pivoting. Each step takes the
/// column that is longest outside of the span of those before it.
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
///
/// Reference: Businger and Golub, "Linear least squares solutions by Householder transformations"
/// (1965).
#[doc(alias = "pivoting")]
#[track_caller]
pub fn qr_pivoted(a: &Array, size: QrSize) -> PivotedQr {
    Loc::caller().scope(|| {
        let a = inexact(a);
        let (Reflectors { packed, taus }, permutation) = geqp3("qr_pivoted", &a);
        let (m, n) = sizes(&a);
        let columns = if size == QrSize::Full { m } else { m.min(n) };
        let resized = match columns <= n {
            true => slice_in_dim(&packed, 0, columns as isize, 1, -1),
            false => {
                let mut shape = packed.shape().to_vec();
                shape[a.rank() - 1] = columns - n;
                concatenate([&packed, &zeros((shape, packed.dtype()))], -1)
            }
        };
        let q = householder_product(&resized, &taus);
        let r = triu(&slice_in_dim(&packed, 0, columns as isize, 1, -2), 0);
        PivotedQr { q, r, permutation }
    })
}

/// Options of [`qr_multiply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QrMultiplyOptions {
    /// The side of `q`: `q · c` or `c · q`. Right by default.
    pub side: ProductSide,
    /// Multiplies by the complex conjugate of `q`. False by default.
    pub conjugate: bool,
}

impl Default for QrMultiplyOptions {
    fn default() -> Self {
        QrMultiplyOptions { side: ProductSide::Right, conjugate: false }
    }
}

/// Returns the product of `c` and the narrow orthogonal factor `q`, `[…, m, k]`, of `a`,
/// `[…, m, n]`, and the triangular factor `r`, `[…, k, n]`, without forming `q`. `c` is
/// `[…, p, m]` on the left of `q` and `[…, k, p]` on its right; a vector is one row or column.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn qr_multiply(a: &Array, c: &Array, options: QrMultiplyOptions) -> (Array, Array) {
    Loc::caller().scope(|| {
        let [a, c] = same_inexact([a, c]);
        expect_matrices("qr_multiply", &a);
        let factors = geqrf(&a);
        (product(&factors, &c, options), upper(&factors.packed))
    })
}

/// Returns the product and the triangular factor, as [`qr_multiply`], for the decomposition with
/// column pivoting, and the permutation of columns, `i32[…, n]`.
#[track_caller]
pub fn qr_multiply_pivoted(
    a: &Array,
    c: &Array,
    options: QrMultiplyOptions,
) -> (Array, Array, Array) {
    Loc::caller().scope(|| {
        let [a, c] = same_inexact([a, c]);
        let (factors, permutation) = geqp3("qr_multiply", &a);
        (product(&factors, &c, options), upper(&factors.packed), permutation)
    })
}

/// Returns the triangular factor of the packed form.
fn upper(packed: &Array) -> Array {
    let (m, n) = sizes(packed);
    triu(&slice_in_dim(packed, 0, m.min(n) as isize, 1, -2), 0)
}

fn product(factors: &Reflectors, c: &Array, options: QrMultiplyOptions) -> Array {
    let QrMultiplyOptions { side, conjugate } = options;
    let (m, n) = sizes(&factors.packed);
    let k = m.min(n);
    let is_left = side == ProductSide::Left;
    let is_vector = c.rank() == 1;
    let c = if is_vector { c.expand_dims(if is_left { 1 } else { 0 }) } else { c.clone() };
    let (found, expected) = if is_left { (sizes(&c).0, k) } else { (sizes(&c).1, m) };
    if found != expected {
        let message = format!("q is {m} by {k}, the other factor {}", c.aval());
        throw_operands("qr_multiply", RuleError::shape(message), &[&factors.packed, &c]);
    }
    // conj(q) · c is the conjugate of q · conj(c).
    let turned = |x: Array| if conjugate { conj(x) } else { x };
    let mut c = turned(c);
    if is_left && m > k {
        let mut shape = c.shape().to_vec();
        shape[c.rank() - 2] = m - k;
        c = concatenate([&c, &zeros((shape, c.dtype()))], -2);
    }
    let options = OrmqrOptions { side, adjoint: false };
    let result = turned(ormqr(&factors.packed, &factors.taus, &c, options));
    let result = if is_left { result } else { slice_in_dim(&result, 0, k as isize, 1, -1) };
    if is_vector { result.flatten() } else { result }
}

/// Returns the singular value decomposition of `a`, `[…, m, n]`, with square `u` and `vᴴ`.
/// [`oxidax::linalg::svd`] returns the narrow factors.
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
#[track_caller]
pub fn svd(a: &Array) -> SvdResult {
    svd_with(a, SvdOptions::default())
}

/// Returns the singular value decomposition of `a` with factors of a given size. Throws as
/// [`svd`].
#[track_caller]
pub fn svd_with(a: &Array, options: SvdOptions) -> SvdResult {
    let (u, s, vh) = oxidax::primitives::svd_with(&inexact(a), options);
    SvdResult { u, s, vh }
}
