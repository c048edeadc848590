//! Cholesky and LU factors that are kept, and systems solved with them.

use super::support::{
    adjoint, dot, expect_matrices, expect_square, for_indices, index_mask, indices, inexact,
    over_batches1, row, same_inexact, sizes, with_row,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::Triangle;
use oxidax::prelude::*;
use oxidax::primitives::{TransposeA, TriangularSolve};

/// Returns the upper triangular `u` with `uᴴ · u = a`, for Hermitian positive definite `a`,
/// `[…, n, n]`; NaN where `a` is not positive definite. [`oxidax::linalg::cholesky`] returns the
/// lower factor.
///
/// Only the upper triangle of `a` is read.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let a = array![[4.0, 2.0], [2.0, 2.0]];
/// assert_eq!(linalg::cholesky(&a).to_vec::<f32>()?, [2.0, 1.0, 0.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cholesky(a: &Array) -> Array {
    cholesky_with(a, Triangle::Upper)
}

/// Returns the Cholesky factor of `a` in a triangle: `uᴴ · u = a` or `l · lᴴ = a`. That triangle
/// of `a` is read. Throws as [`cholesky`].
#[track_caller]
pub fn cholesky_with(a: &Array, triangle: Triangle) -> Array {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("cholesky", &a);
        match triangle {
            Triangle::Lower => lower_factor(&a),
            Triangle::Upper => adjoint(&lower_factor(&adjoint(&a))),
        }
    })
}

/// Returns the lower factor of the Hermitian matrix with the lower triangle of `a`.
///
/// The derivative is `l φ(l⁻¹ da l⁻ᴴ)`, where `φ` keeps the lower triangle and halves the diagonal.
/// It reads both triangles of the tangent, as in JAX.
///
/// Reference: Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527 (2016).
fn lower_factor(a: &Array) -> Array {
    let f = |a: &Array| tril(&oxidax::primitives::cholesky(a), 0);
    let rule = |a: &Array, da: &Array| {
        let l = tril(&oxidax::primitives::cholesky(a), 0);
        let divided = |x: &Array| triangular(&l, x, Triangle::Lower, TransposeA::NoTranspose);
        let inner = adjoint(&divided(&adjoint(&divided(da))));
        let halved = (tril(&inner, 0) + tril(&inner, -1)) * 0.5;
        (l.clone(), dot(&l, &halved))
    };
    custom_jvp(f, rule)(a)
}

/// A Cholesky factor and the triangle that it is stored in.
#[derive(Clone, Debug, Tree)]
pub struct CholeskyFactor {
    /// The factor: `[…, n, n]`.
    pub factor: Array,
    /// The triangle of the factor.
    #[tree(static)]
    pub triangle: Triangle,
}

/// Returns the upper Cholesky factor of `a` for [`cho_solve`]. Throws as [`cholesky`].
#[track_caller]
pub fn cho_factor(a: &Array) -> CholeskyFactor {
    cho_factor_with(a, Triangle::Upper)
}

/// Returns a Cholesky factor of `a` for [`cho_solve`]. Throws as [`cholesky`].
#[track_caller]
pub fn cho_factor_with(a: &Array, triangle: Triangle) -> CholeskyFactor {
    CholeskyFactor { factor: cholesky_with(a, triangle), triangle }
}

/// Solves a system for a matrix `b`, `[…, n, k]`, or a vector `[n]`, with common batch axes.
#[track_caller]
fn solve_by(name: &str, a: &Array, b: &Array, solve: impl Fn(&Array, &Array) -> Array) -> Array {
    let [a, b] = same_inexact([a, b]);
    expect_square(name, &a);
    let (n, _) = sizes(&a);
    let is_vector = b.rank() == 1;
    let b = if is_vector { b.expand_dims(-1) } else { b };
    if b.rank() == 0 || sizes(&b).0 != n {
        let message =
            format!("the right-hand side of {n} equations must have {n} rows, got {}", b.aval());
        throw_operands(name, RuleError::shape(message), &[&a, &b]);
    }
    let batch = |x: &Array| -> Shape { x.shape()[..x.rank() - 2].into() };
    let Some(joint) = batch(&a).broadcast(&batch(&b)) else {
        let message = format!("batch axes {} and {} do not broadcast", batch(&a), batch(&b));
        throw_operands(name, RuleError::shape(message), &[&a, &b]);
    };
    let to = |x: &Array| {
        let (m, n) = sizes(x);
        broadcast_to(x, joint.iter().copied().chain([m, n]).collect::<Shape>())
    };
    let x = solve(&to(&a), &to(&b));
    if is_vector { squeeze(&x, &[-1]) } else { x }
}

/// Solves `op(a) · x = b` for triangular `a`.
pub(super) fn triangular(
    a: &Array,
    b: &Array,
    triangle: Triangle,
    transpose_a: TransposeA,
) -> Array {
    let lower = triangle == Triangle::Lower;
    let how = TriangularSolve { left_side: true, lower, transpose_a, unit_diagonal: false };
    triangular_solve(a, b, how)
}

/// Returns the `x` with `a · x = b` for the matrix `a` with a Cholesky factor. `b` is `[…, n, k]`
/// or a vector `[n]`.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn cho_solve(factor: &CholeskyFactor, b: &Array) -> Array {
    let triangle = factor.triangle;
    Loc::caller().scope(|| {
        solve_by("cho_solve", &factor.factor, b, |l, b| {
            let (first, second) = match triangle {
                Triangle::Lower => (TransposeA::NoTranspose, TransposeA::Adjoint),
                Triangle::Upper => (TransposeA::Adjoint, TransposeA::NoTranspose),
            };
            triangular(l, &triangular(l, b, triangle, first), triangle, second)
        })
    })
}

/// Factors of `a = p · l · u`.
#[derive(Clone, Debug, Tree)]
pub struct LuMatrices {
    /// The permutation matrix: `[…, m, m]`, real.
    pub p: Array,
    /// Lower triangular with ones on the diagonal: `[…, m, k]`.
    pub l: Array,
    /// Upper triangular: `[…, k, n]`.
    pub u: Array,
}

/// Returns the LU decomposition with partial pivoting of `a`, `[…, m, n]`, with `k = min(m, n)`, as
/// matrices. [`oxidax::linalg::lu`] returns the permutation as indices.
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
#[track_caller]
pub fn lu(a: &Array) -> LuMatrices {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_matrices("lu", &a);
        let factors = oxidax::linalg::lu(&a);
        let m = a.shape()[a.rank() - 2];
        // Row i of a[permutation] is row permutation[i] of a.
        let rows = indices(m).expand_dims(-1);
        let p = eq(factors.permutation.expand_dims(-2), rows).astype(a.dtype().real());
        LuMatrices { p, l: factors.l, u: factors.u }
    })
}

/// Returns `p · l` and `u` of the LU decomposition of [`lu`].
#[doc(alias = "permute_l")]
#[track_caller]
pub fn lu_permuted(a: &Array) -> (Array, Array) {
    Loc::caller().scope(|| {
        let LuMatrices { p, l, u } = lu(a);
        (dot(&p.astype(l.dtype()), &l), u)
    })
}

/// An LU decomposition in the form of LAPACK.
#[derive(Clone, Debug, Tree)]
pub struct LuFactor {
    /// `l` below the diagonal, without its ones, and `u` on and above it: `[…, m, n]`.
    pub lu: Array,
    /// The row that each step swapped with its own: `i32[…, min(m, n)]`.
    #[doc(alias = "piv")]
    pub pivots: Array,
}

/// Returns the LU decomposition of `a`, `[…, m, n]`, for [`lu_solve`].
///
/// Throws `Op` for arrays of rank below 2 and for 16-bit dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let factor = linalg::lu_factor(&array![[1.0, 2.0], [4.0, 4.0]]);
/// assert_eq!(factor.pivots.to_vec::<i32>()?, [1, 1]);
/// let x = linalg::lu_solve(&factor, &array![5.0, 12.0]);
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn lu_factor(a: &Array) -> LuFactor {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_matrices("lu_factor", &a);
        let (lu, pivots, _) = oxidax::primitives::lu(&a);
        LuFactor { lu, pivots }
    })
}

/// Returns the `x` with `a · x = b` for the matrix `a` with an LU decomposition. `b` is `[…, n, k]`
/// or a vector `[n]`.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn lu_solve(factor: &LuFactor, b: &Array) -> Array {
    lu_solve_with(factor, b, TransposeA::NoTranspose)
}

/// Returns the `x` with `op(a) · x = b`, as [`lu_solve`], for the matrix itself, its transpose or
/// its adjoint.
#[doc(alias = "trans")]
#[track_caller]
pub fn lu_solve_with(factor: &LuFactor, b: &Array, transpose_a: TransposeA) -> Array {
    Loc::caller().scope(|| {
        let n = factor.pivots.shape().last().copied().unwrap_or(0);
        let permutation = lu_pivots_to_permutation(&factor.pivots, n);
        let along = |order: &Array, b: &Array| {
            let batch = b.shape().remove(b.rank() - 1);
            let rows = broadcast_to(order, batch).expand_dims(-1);
            take_along_axis(b, &broadcast_to(&rows, b.shape()), -2)
        };
        let part = |lower: bool| TriangularSolve {
            left_side: true,
            lower,
            transpose_a,
            unit_diagonal: lower,
        };
        solve_by("lu_solve", &factor.lu, b, |lu, b| match transpose_a {
            TransposeA::NoTranspose => {
                let y = triangular_solve(lu, &along(&permutation, b), part(true));
                triangular_solve(lu, &y, part(false))
            }
            TransposeA::Transpose | TransposeA::Adjoint => {
                let y = triangular_solve(lu, b, part(false));
                let y = triangular_solve(lu, &y, part(true));
                along(&argsort(&permutation, -1), &y)
            }
        })
    })
}

/// Returns the permutation of `size` rows that the swaps of an LU decomposition make: `[…, k]` to
/// `i32[…, size]`. Step `i` swaps rows `i` and `pivots[i]`.
///
/// Throws `Op` (shape) if there are more swaps than rows.
#[track_caller]
pub fn lu_pivots_to_permutation(pivots: &Array, size: usize) -> Array {
    Loc::caller().scope(|| {
        let k = pivots.shape().last().copied().unwrap_or(0);
        if pivots.rank() == 0 || k > size {
            let message = format!("{size} rows cannot be swapped by {}", pivots.aval());
            throw_operands("lu_pivots_to_permutation", RuleError::shape(message), &[pivots]);
        }
        over_batches1("(k)->(n)", &[pivots], |operands| {
            let pivots = operands[0].astype(DType::I32);
            let swap = |step: Array, order: Array| {
                let other = row(&pivots, &step);
                let (x, y) = (row(&order, &step), row(&order, &other));
                with_row(&with_row(&order, &step, &y), &other, &x)
            };
            for_indices(k, swap, indices(size))
        })
    })
}

/// Returns the upper Cholesky factor of `rᵀ r + w wᵀ` for an upper triangular real `r`,
/// `[…, n, n]`, and `w`, `[…, n]`, in `O(n²)`.
///
/// Throws `Op` if the shapes do not fit or the dtype is not `f32` or `f64`.
///
/// Reference: Golub and Van Loan, "Matrix Computations" (4th edition, 2013), section 6.5.4.
#[track_caller]
pub fn cholesky_update(r: &Array, w: &Array) -> Array {
    Loc::caller().scope(|| {
        let [r, w] = same_inexact([r, w]);
        expect_square("cholesky_update", &r);
        let (n, _) = sizes(&r);
        if r.dtype().is_complex() || w.shape().last() != Some(&n) {
            let message = format!("needs a real factor and a vector of {n} elements");
            throw_operands("cholesky_update", RuleError::shape(message), &[&r, &w]);
        }
        over_batches1("(n,n),(n)->(n,n)", &[&r, &w], |operands| {
            let rotate = |k: Array, (r, w): (Array, Array)| {
                let line = row(&r, &k);
                let (x, y) = (row(&line, &k), row(&w, &k));
                let length = sqrt(&x * &x + &y * &y);
                let is_zero = eq(&length, 0.0);
                let divisor = where_(&is_zero, 1.0, &length);
                let (c, s) = (where_(&is_zero, 1.0, x / &divisor), y / &divisor);
                // Elements before the diagonal are zero in both.
                let w_tail = where_(ge(indices(n), &k), &w, 0.0);
                let new_line = &line * &c + &w_tail * &s;
                let new_w = &w_tail * &c - &line * &s;
                (with_row(&r, &k, &new_line), new_w)
            };
            let upper = triu(&operands[0], 0);
            for_indices(n, rotate, (upper, operands[1].clone())).0
        })
    })
}

/// Options of [`symmetric_product`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SymmetricProductOptions {
    /// The factor of `a · aᵀ`. 1 by default.
    pub alpha: f64,
    /// The factor of `c`. 0 by default.
    pub beta: f64,
    /// Replaces the upper triangle of the result with the transpose of the lower one, so that the
    /// result is symmetric even if `c` is not. False by default.
    pub symmetrize_output: bool,
}

impl Default for SymmetricProductOptions {
    fn default() -> Self {
        SymmetricProductOptions { alpha: 1.0, beta: 0.0, symmetrize_output: false }
    }
}

/// Returns `alpha · a · aᵀ + beta · c` for `a`, `[…, m, n]`, and symmetric `c`, `[…, m, m]`.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn symmetric_product(a: &Array, c: &Array, options: SymmetricProductOptions) -> Array {
    let SymmetricProductOptions { alpha, beta, symmetrize_output } = options;
    Loc::caller().scope(|| {
        let [a, c] = same_inexact([a, c]);
        expect_matrices("symmetric_product", &a);
        expect_square("symmetric_product", &c);
        let sum = dot(&a, &a.mt()) * alpha + c * beta;
        if !symmetrize_output {
            return sum;
        }
        let is_above = index_mask(sizes(&sum), |row, column| gt(column, row));
        where_(is_above, sum.mt(), &sum)
    })
}
