//! Linear systems, inverses and least squares.

use super::{adjoint, expect_square, matrix_sizes};
use crate::control_flow::custom_jvp;
use crate::core::{Array, Loc, RuleError, Shape, promote, throw_operands};
use crate::ops::{eye, matmul, take_along_axis};
use crate::primitives::{
    self, SvdOptions, TransposeA, TriangularSolve, broadcast_to, conj, convert_element_type,
    expand_dims, gt, inexact, reshape, squeeze, triangular_solve, where_,
};

/// Converts both to floats of one dtype, without broadcasting.
#[track_caller]
fn promoted(name: &str, a: &Array, b: &Array) -> (Array, Array) {
    let (a, b) = (inexact(a), inexact(b));
    match promote((a.dtype(), a.aval().weak), (b.dtype(), b.aval().weak)) {
        Some((dtype, _)) => (convert_element_type(&a, dtype), convert_element_type(&b, dtype)),
        None => {
            let message = format!("{} and {} do not promote", a.dtype(), b.dtype());
            throw_operands(name, RuleError::dtype(message), &[&a, &b])
        }
    }
}

/// Broadcasts the batch axes of both.
#[track_caller]
fn same_batch(name: &str, a: &Array, b: &Array) -> (Array, Array) {
    let batch = |x: &Array| -> Shape { x.shape()[..x.rank() - 2].into() };
    let (x, y) = (batch(a), batch(b));
    let Some(joint) = x.broadcast(&y) else {
        let message = format!("batch axes {x} and {y} do not broadcast");
        throw_operands(name, RuleError::shape(message), &[a, b]);
    };
    let to = |x: &Array| {
        let (m, n) = matrix_sizes(x);
        broadcast_to(x, joint.iter().copied().chain([m, n]).collect::<Shape>())
    };
    (to(a), to(b))
}

/// Solves `a · x = b` with `solve`, which receives both as matrices of one dtype and batch. A
/// vector
/// `b` is passed as one column and returned as a vector.
#[track_caller]
fn solve_by(name: &str, a: &Array, b: &Array, solve: impl Fn(&Array, &Array) -> Array) -> Array {
    expect_square(name, a);
    let (a, b) = promoted(name, a, b);
    let (n, _) = matrix_sizes(&a);
    let vector = b.rank() == 1;
    let b = if vector { expand_dims(&b, &[-1]) } else { b };
    if b.rank() == 0 || matrix_sizes(&b).0 != n {
        let message =
            format!("the right-hand side of {n} equations must have {n} rows, got {}", b.aval());
        throw_operands(name, RuleError::shape(message), &[&a, &b]);
    }
    let (a, b) = same_batch(name, &a, &b);
    let x = Loc::caller().scope(|| solve(&a, &b));
    if vector { squeeze(&x, &[-1]) } else { x }
}

/// Solves a system from the factors of its matrix.
fn lu_solve(packed: &Array, permutation: &Array, b: &Array) -> Array {
    let rows = broadcast_to(&expand_dims(permutation, &[-1]), b.shape().clone());
    let b = take_along_axis(b, &rows, -2);
    let parameters = |lower, unit_diagonal| TriangularSolve {
        left_side: true,
        lower,
        unit_diagonal,
        transpose_a: TransposeA::NoTranspose,
    };
    let y = triangular_solve(packed, &b, parameters(true, true));
    triangular_solve(packed, &y, parameters(false, false))
}

/// Returns `a⁻¹ b` for matrices of one batch. The derivative reuses the factors instead of
/// differentiating them.
fn solve_matrices(a: &Array, b: &Array) -> Array {
    let f = |(a, b): &(Array, Array)| {
        let (packed, _, permutation) = primitives::lu(a);
        lu_solve(&packed, &permutation, b)
    };
    let rule = |(a, b): &(Array, Array), (da, db): &(Array, Array)| {
        let (packed, _, permutation) = primitives::lu(a);
        let x = lu_solve(&packed, &permutation, b);
        let dx = lu_solve(&packed, &permutation, &(db - matmul(da, &x)));
        (x, dx)
    };
    custom_jvp(f, rule)(&(a.clone(), b.clone()))
}

/// Returns the `x` with `a · x = b`, for `a` of `[…, n, n]` and `b` of `[…, n, m]` or a vector
/// `[n]`. The result is infinite or NaN where `a` is singular.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[2.0f32, 0.0, 1.0, 4.0], [2, 2])?;
/// let x = linalg::solve(&a, &Array::from_slice(&[2.0f32, 9.0], [2])?);
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn solve(a: &Array, b: &Array) -> Array {
    solve_by("solve", a, b, solve_matrices)
}

/// Options of [`solve_triangular_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SolveTriangularOptions {
    /// Reads the lower triangle of `a` instead of the upper one. The default is false, as in SciPy.
    pub lower: bool,
    /// The equation to solve: with `a`, its transpose or its adjoint. SciPy's `trans`.
    #[doc(alias = "trans")]
    pub transpose_a: TransposeA,
    /// Treats the diagonal of `a` as ones. The default is false.
    pub unit_diagonal: bool,
}

/// Returns the `x` with `a · x = b` for upper triangular `a`. The shapes are those of [`solve`].
#[track_caller]
pub fn solve_triangular(a: &Array, b: &Array) -> Array {
    solve_triangular_with(a, b, SolveTriangularOptions::default())
}

/// Returns the `x` with `a · x = b`, as [`solve_triangular`], for a lower triangular, transposed or
/// unit triangular `a`.
#[track_caller]
pub fn solve_triangular_with(a: &Array, b: &Array, options: SolveTriangularOptions) -> Array {
    let SolveTriangularOptions { lower, transpose_a, unit_diagonal } = options;
    let parameters = TriangularSolve { left_side: true, lower, transpose_a, unit_diagonal };
    solve_by("solve_triangular", a, b, |a, b| triangular_solve(a, b, parameters.clone()))
}

/// Returns the `x` with `l · lᴴ · x = b`, for the lower Cholesky factor `l` of a matrix.
#[track_caller]
pub fn cho_solve(l: &Array, b: &Array) -> Array {
    let parameters = |transpose_a| TriangularSolve {
        left_side: true,
        lower: true,
        transpose_a,
        unit_diagonal: false,
    };
    solve_by("cho_solve", l, b, |l, b| {
        let y = triangular_solve(l, b, parameters(TransposeA::NoTranspose));
        triangular_solve(l, &y, parameters(TransposeA::Adjoint))
    })
}

/// Returns the inverse of each matrix of `a`, `[…, n, n]`. To solve equations, [`solve`] is faster
/// and more accurate.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[2.0f32, 0.0, 0.0, 4.0], [2, 2])?;
/// assert_eq!(linalg::inv(&a).to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn inv(a: &Array) -> Array {
    expect_square("inv", a);
    let a = inexact(a);
    let (n, _) = matrix_sizes(&a);
    solve(&a, &broadcast_to(&eye((n, a.dtype())), a.shape().clone()))
}

/// Options of [`pinv_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PinvOptions {
    /// Singular values up to `rtol` times the largest count as zero; `10 · max(m, n) · ε` if
    /// `None`.
    #[doc(alias = "rcond")]
    pub rtol: Option<f64>,
    /// The matrices are Hermitian, so that their eigenvalues suffice. The default is false.
    pub hermitian: bool,
}

/// Returns the Moore-Penrose inverse of each matrix of `a`: `[…, m, n]` to `[…, n, m]`. Singular
/// values up to `10 · max(m, n) · ε` times the largest count as zero.
///
/// The derivative is valid where the rank does not change.
///
/// Reference, for the derivative: Golub and Pereyra, "The differentiation of pseudo-inverses and
/// nonlinear least squares problems whose variables separate", SIAM J. Numer. Anal. 10 (1973).
#[track_caller]
pub fn pinv(a: &Array) -> Array {
    pinv_with(a, PinvOptions::default())
}

/// Returns the Moore-Penrose inverse, as [`pinv`], with another tolerance.
#[track_caller]
pub fn pinv_with(a: &Array, options: PinvOptions) -> Array {
    let a = inexact(a);
    if a.rank() < 2 {
        let error = RuleError::shape(format!("needs matrices, got {}", a.aval()));
        throw_operands("pinv", error, &[&a]);
    }
    let (m, n) = matrix_sizes(&a);
    let rtol = options.rtol.unwrap_or(10.0 * m.max(n) as f64 * a.dtype().epsilon());
    Loc::caller().scope(|| pseudo_inverse(&a, rtol, options.hermitian))
}

fn pseudo_inverse(a: &Array, rtol: f64, hermitian: bool) -> Array {
    let f = move |a: &Array| {
        let super::SvdResult { u, s, vh } = if hermitian {
            super::svd_hermitian(a)
        } else {
            super::svd_with(a, SvdOptions { full_matrices: false, ..Default::default() })
        };
        let largest = primitives::reduce_max(&s, &[-1]);
        let cutoff = expand_dims(&(largest * rtol), &[-1]);
        let nonzero = gt(&s, &cutoff);
        let inverse = where_(&nonzero, 1.0 / where_(&nonzero, &s, 1), 0);
        let inverse = convert_element_type(&expand_dims(&inverse, &[-2]), a.dtype());
        matmul(&(adjoint(&vh) * inverse), &adjoint(&u))
    };
    let rule = move |a: &Array, da: &Array| {
        let p = pseudo_inverse(a, rtol, hermitian);
        let (ph, dah) = (adjoint(&p), adjoint(da));
        let inner = matmul(&matmul(&p, da), &p);
        // The change outside of the row and column spaces.
        let left = matmul(&p, &outside_right(&matmul(&ph, &dah), a, &p));
        let right = matmul(&(&dah - matmul(&p, &matmul(a, &dah))), &matmul(&ph, &p));
        (p, left + right - inner)
    };
    custom_jvp(f, rule)(a)
}

/// Returns `x (1 − a p)`.
fn outside_right(x: &Array, a: &Array, p: &Array) -> Array {
    x - matmul(&matmul(x, a), p)
}

/// Options of [`lstsq_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LstsqOptions {
    /// Singular values up to `rcond` times the largest count as zero; `max(m, n) · ε` if `None`.
    pub rcond: Option<f64>,
}

/// Solution of a least squares problem.
#[derive(Clone, Debug)]
pub struct LeastSquares {
    /// The `x` of least norm that minimizes `|a x − b|`: `[n]` or `[n, k]`.
    pub x: Array,
    /// `|a x − b|²` for each column: `[k]`, or `[]` for a vector.
    pub residuals: Array,
    /// Number of singular values of `a` that count as nonzero: `i32[]`.
    pub rank: Array,
    /// The singular values of `a`.
    pub s: Array,
}

/// Returns the `x` of least norm that minimizes `|a x − b|`, for one matrix `a`, `[m, n]`, and `b`,
/// `[m]` or `[m, k]`.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn lstsq(a: &Array, b: &Array) -> LeastSquares {
    lstsq_with(a, b, LstsqOptions::default())
}

/// Solves a least squares problem, as [`lstsq`], with another tolerance.
#[track_caller]
pub fn lstsq_with(a: &Array, b: &Array, options: LstsqOptions) -> LeastSquares {
    Loc::caller().scope(|| {
        let (a, b) = promoted("lstsq", a, b);
        if a.rank() != 2 || b.rank() == 0 || b.rank() > 2 || a.shape()[0] != b.shape()[0] {
            let error =
                RuleError::shape("needs a matrix [m, n] and a right-hand side [m] or [m, k]");
            throw_operands("lstsq", error, &[&a, &b]);
        }
        let (m, n) = matrix_sizes(&a);
        let rcond = options.rcond.unwrap_or(m.max(n) as f64 * a.dtype().epsilon());
        let x = matmul(&pinv_with(&a, PinvOptions { rtol: Some(rcond), hermitian: false }), &b);
        let error = matmul(&a, &x) - &b;
        let square = primitives::real(&(&error * conj(&error)));
        let s = super::svdvals(&a);
        let cutoff = primitives::reduce_max(&s, &[-1]) * rcond;
        let nonzero = convert_element_type(&gt(&s, &cutoff), crate::core::DType::I32);
        LeastSquares {
            x,
            residuals: primitives::reduce_sum(&square, &[0]),
            rank: primitives::reduce_sum(&nonzero, &[0]),
            s,
        }
    })
}

/// Returns the `x` with `tensordot(a, x, x.rank()) = b`. The first axes of `a` are those of `b`;
/// the other axes, with the same number of elements, are those of `x`.
#[track_caller]
pub fn tensorsolve(a: &Array, b: &Array) -> Array {
    tensorsolve_with(a, b, &TensorsolveOptions::default())
}

/// Options of [`tensorsolve_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorsolveOptions {
    /// Axes of `a` that are moved to its end first.
    pub axes: Vec<isize>,
}

/// Solves a tensor equation, as [`tensorsolve`], for other axes of `a`.
///
/// Throws `Op` (shape) for axes out of range or named twice.
#[track_caller]
pub fn tensorsolve_with(a: &Array, b: &Array, options: &TensorsolveOptions) -> Array {
    let n = options.axes.len() as isize;
    let a = &primitives::moveaxis(a, options.axes.as_slice(), (-n..0).collect::<Vec<_>>());
    Loc::caller().scope(|| {
        let inner: Vec<usize> = a.shape()[b.rank().min(a.rank())..].to_vec();
        let n: usize = inner.iter().product();
        if a.rank() < b.rank() || a.shape()[..b.rank()] != b.shape()[..] || n != b.size() {
            let message = format!("{} is not a square system for {}", a.aval(), b.aval());
            throw_operands("tensorsolve", RuleError::shape(message), &[a, b]);
        }
        let x = solve(&reshape(a, [n, n]), &reshape(b, [n]));
        reshape(&x, inner)
    })
}

/// Returns the inverse of `a` as a map from its last axes to its first `ind`:
/// `tensordot(tensorinv(a), b, ind)` is the solution of [`tensorsolve`].
#[track_caller]
pub fn tensorinv(a: &Array, ind: usize) -> Array {
    let (first, last) = a.shape().split_at(ind.min(a.rank()));
    let n: usize = first.iter().product();
    if n != last.iter().product::<usize>() {
        let message = format!(
            "the first {ind} axes of {} and the others differ in their number of elements",
            a.aval()
        );
        throw_operands("tensorinv", RuleError::shape(message), &[a]);
    }
    let shape: Vec<usize> = last.iter().chain(first).copied().collect();
    reshape(&inv(&reshape(a, [n, n])), shape)
}
