//! Polar decompositions.

use super::factors::triangular;
use super::support::{adjoint, dot, expect_matrices, inexact, over_batches, sizes};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::Triangle;
use oxidax::linalg::{MatrixNorm, SvdResult, matrix_norm, svd};
use oxidax::prelude::*;
use oxidax::primitives::TransposeA;

/// Factors of a polar decomposition.
#[derive(Clone, Debug, Tree)]
pub struct PolarResult {
    /// Orthonormal columns, or rows if there are fewer of them: `[…, m, n]`.
    pub unitary: Array,
    /// Hermitian and positive semidefinite: `[…, n, n]` on the right, `[…, m, m]` on the left.
    pub positive: Array,
}

/// Side of the positive factor of a polar decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolarSide {
    /// `a = unitary · positive`.
    #[default]
    Right,
    /// `a = positive · unitary`.
    Left,
}

/// Algorithm of a polar decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolarMethod {
    /// The iteration of [`qdwh`], for matrices of full rank with at least as many rows as columns
    /// (right) or columns as rows (left). It has forward derivatives only.
    #[default]
    Qdwh,
    /// Singular vectors, for any matrix. It has forward and reverse derivatives.
    Svd,
}

/// Options of [`polar_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolarOptions {
    /// The side of the positive factor. Right by default.
    pub side: PolarSide,
    /// The algorithm. [`PolarMethod::Qdwh`] by default.
    pub method: PolarMethod,
    /// Options of the iteration.
    pub qdwh: QdwhOptions,
}

/// Returns the polar decomposition `a = unitary · positive` of `a`, `[…, m, n]`, with `m ≥ n`.
///
/// Throws `Op` for arrays of rank below 2, for 16-bit dtypes and for `m < n`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let factors = linalg::polar(&array![[0.0, -2.0], [3.0, 0.0]]);
/// assert!(allclose(&factors.positive, array![[3.0, 0.0], [0.0, 2.0]]).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn polar(a: &Array) -> PolarResult {
    polar_with(a, PolarOptions::default())
}

/// Returns the polar decomposition of `a` on a side, by an algorithm.
///
/// Throws `Op` as [`polar`]; the algorithm [`PolarMethod::Svd`] takes any sizes.
#[track_caller]
pub fn polar_with(a: &Array, options: PolarOptions) -> PolarResult {
    let PolarOptions { side, method, qdwh: iteration } = options;
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_matrices("polar", &a);
        let (m, n) = sizes(&a);
        match method {
            PolarMethod::Svd => {
                let SvdResult { u, s, vh } = svd(&a);
                let s = s.astype(u.dtype()).expand_dims(-2);
                let positive = match side {
                    PolarSide::Right => dot(&(adjoint(&vh) * s), &vh),
                    PolarSide::Left => dot(&(&u * s), &adjoint(&u)),
                };
                PolarResult { unitary: dot(&u, &vh), positive }
            }
            PolarMethod::Qdwh => {
                let fits = if side == PolarSide::Right { m >= n } else { m <= n };
                if !fits {
                    let message = format!("the iteration does not decompose {m} by {n} matrices");
                    let error = RuleError::unsupported(message)
                        .help("use `PolarMethod::Svd`, or the other side");
                    throw_operands("polar", error, &[&a]);
                }
                let turned =
                    |x: &Array| if side == PolarSide::Right { x.clone() } else { adjoint(x) };
                let result = qdwh_with(&turned(&a), iteration);
                PolarResult { unitary: turned(&result.unitary), positive: result.positive }
            }
        }
    })
}

/// Options of [`qdwh_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QdwhOptions {
    /// The largest number of iterations. 10 if `None`; six suffice in double precision.
    pub max_iterations: Option<usize>,
    /// The precision that the iteration reaches. The one of the dtype if `None`.
    pub eps: Option<f64>,
}

/// The result of [`qdwh`].
#[derive(Clone, Debug, Tree)]
pub struct QdwhResult {
    /// Orthonormal columns: `[…, m, n]`.
    pub unitary: Array,
    /// Hermitian and positive semidefinite: `[…, n, n]`.
    pub positive: Array,
    /// The number of iterations: `i32[…]`.
    pub n_iterations: Array,
    /// True if the iteration has reached its precision: `bool[…]`.
    pub has_converged: Array,
}

/// Returns the polar decomposition `a = unitary · positive` of `a`, `[…, m, n]`, with `m ≥ n`, by
/// dynamically weighted Halley iterations of QR and Cholesky decompositions.
///
/// Throws `Op` for arrays of rank below 2, for 16-bit dtypes and for `m < n`.
///
/// Reference: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix
/// polar decomposition", SIAM J. Matrix Anal. Appl. 31 (2010).
#[track_caller]
pub fn qdwh(a: &Array) -> QdwhResult {
    qdwh_with(a, QdwhOptions::default())
}

/// Returns the polar decomposition of [`qdwh`], with options.
#[track_caller]
pub fn qdwh_with(a: &Array, options: QdwhOptions) -> QdwhResult {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_matrices("qdwh", &a);
        let (m, n) = sizes(&a);
        if m < n {
            let message = format!("needs at least as many rows as columns, got {m} by {n}");
            throw_operands("qdwh", RuleError::shape(message), &[&a]);
        }
        let mut results = over_batches("(m,n)->(m,n),(n,n),(),()", &[&a], |operands| {
            if n == 0 {
                let none = scalar(0).astype(DType::I32);
                let positive = zeros(([0, 0], a.dtype()));
                return vec![operands[0].clone(), positive, none.clone(), eq(none, 0)];
            }
            iterate(&operands[0], options)
        });
        let has_converged = results.remove(3);
        let n_iterations = results.remove(2);
        let positive = results.remove(1);
        QdwhResult { unitary: results.remove(0), positive, n_iterations, has_converged }
    })
}

fn iterate(a: &Array, options: QdwhOptions) -> Vec<Array> {
    let real_dtype = a.dtype().real();
    let eps = options.eps.unwrap_or(real_dtype.epsilon());
    let steps = options.max_iterations.unwrap_or(10);
    let wide = |x: &Array| x.astype(a.dtype());
    // At least the largest singular value.
    let bound = sqrt(matrix_norm(a, MatrixNorm::L1) * matrix_norm(a, MatrixNorm::Inf));
    let bound = where_(eq(&bound, 0.0), 1.0, bound);
    let frobenius = |x: &Array| matrix_norm(x, MatrixNorm::Frobenius);
    let is_open = |(_, lower, change, n): &(Array, Array, Array, Array)| {
        let far = abs(1.0 - lower);
        let is_far = bitwise_or(gt(far, 5.0 * eps), gt(change, (5.0 * eps).cbrt()));
        bitwise_and(is_far, lt(n, steps))
    };
    let step = |(u, lower, _, n): &(Array, Array, Array, Array)| {
        // The weights that map the interval of singular values closest to 1.
        let l2 = lower * lower;
        let d = cbrt((1.0 / &l2 - 1.0) * 4.0 / &l2);
        let root = sqrt(&d + 1.0);
        let inner = 8.0 - &d * 4.0 + (2.0 - &l2) * 8.0 / (&l2 * &root);
        let h = &root + sqrt(inner) * 0.5;
        let b = (&h - 1.0) * (&h - 1.0) * 0.25;
        let c = &h + &b - 1.0;
        let next = halley(u, &h, &b, &c);
        let lower = minimum(lower * (&h + &b * &l2) / (1.0 + &c * &l2), 1.0);
        let change = frobenius(&(&next - u));
        (next, lower.astype(real_dtype), change, n + 1)
    };
    let start = (
        a / wide(&bound),
        scalar(eps).astype(real_dtype),
        scalar(1.0).astype(real_dtype) * 10.0,
        scalar(0).astype(DType::I32),
    );
    let (u, lower, change, n) = while_loop(is_open, step, start);
    let has_converged = bitwise_not(is_open(&(u.clone(), lower, change, zeros_like(&n))));
    // One step of Newton and Schulz removes the rounding errors of the iteration.
    let gram = dot(&adjoint(&u), &u);
    let unitary = &u * 1.5 - dot(&u, &gram) * 0.5;
    let product = dot(&adjoint(&unitary), a);
    let positive = (&product + adjoint(&product)) * 0.5;
    vec![unitary, positive, n, has_converged]
}

/// Returns `u (h + b uᴴu) (1 + c uᴴu)⁻¹`.
fn halley(u: &Array, h: &Array, b: &Array, c: &Array) -> Array {
    let n = sizes(u).1;
    let wide = |x: &Array| x.astype(u.dtype());
    let identity = eye((n, u.dtype()));
    let ratio = b / c;
    // The inverse is ill-conditioned for large c, and is applied by a QR decomposition then.
    let by_qr = |u: Array| {
        let root = sqrt(c);
        let stacked = concatenate([&(&u * wide(&root)), &identity], 0);
        let q = oxidax::linalg::qr(&stacked).q;
        let m = sizes(&u).0 as isize;
        let top = slice_in_dim(&q, 0, m, 1, 0);
        let bottom = slice_in_dim(&q, m, m + n as isize, 1, 0);
        let factor = (h - &ratio) / root;
        &u * wide(&ratio) + dot(&top, &adjoint(&bottom)) * wide(&factor)
    };
    let by_cholesky = |u: Array| {
        let gram = &identity + dot(&adjoint(&u), &u) * wide(c);
        let l = oxidax::linalg::cholesky(&gram);
        let y = triangular(&l, &adjoint(&u), Triangle::Lower, TransposeA::NoTranspose);
        let y = adjoint(&triangular(&l, &y, Triangle::Lower, TransposeA::Adjoint));
        &u * wide(&ratio) + y * wide(&(h - &ratio))
    };
    cond(gt(c, 100.0), by_qr, by_cholesky, u.clone())
}
