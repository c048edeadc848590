//! Systems of linear equations.

use super::{adjoint, expect_square, matrix_sizes};
use crate::control_flow::custom_jvp;
use crate::core::{Array, RuleError, Shape, from_caller, promote, throw_operands};
use crate::ops::{eye, matmul, take_along_axis};
use crate::primitives::{
    self, TransposeA, TriangularSolve, broadcast_to, conj, convert_element_type, expand_dims, gt,
    inexact, reshape, squeeze, triangular_solve, where_,
};

/// Both as floats of one dtype, each of its own shape.
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

/// Both with the batch axes of either.
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

/// Solves `a · x = b` by `solve`, which gets both as matrices of one dtype and one batch: a vector `b` is one
/// column, and comes back as a vector.
#[track_caller]
fn solve_by(name: &str, a: &Array, b: &Array, solve: impl Fn(&Array, &Array) -> Array) -> Array {
    expect_square(name, a);
    let (a, b) = promoted(name, a, b);
    let (n, _) = matrix_sizes(&a);
    let vector = b.rank() == 1;
    let b = if vector { expand_dims(&b, &[-1]) } else { b };
    if b.rank() == 0 || matrix_sizes(&b).0 != n {
        let message = format!("{n} equations have a right-hand side of {}", b.aval());
        throw_operands(name, RuleError::shape(message), &[&a, &b]);
    }
    let (a, b) = same_batch(name, &a, &b);
    let x = from_caller(|| solve(&a, &b));
    if vector { squeeze(&x, &[-1]) } else { x }
}

/// The solution for factors that are known.
fn lu_solve(packed: &Array, permutation: &Array, b: &Array) -> Array {
    let rows = broadcast_to(&expand_dims(permutation, &[-1]), b.shape().clone());
    let b = take_along_axis(b, &rows, -2);
    let how = |lower, unit_diagonal| TriangularSolve {
        left_side: true,
        lower,
        unit_diagonal,
        transpose_a: TransposeA::NoTranspose,
    };
    let y = triangular_solve(packed, &b, how(true, true));
    triangular_solve(packed, &y, how(false, false))
}

/// `a⁻¹ b` of matrices of one batch. Its derivative uses the factors again and not theirs.
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

/// The `x` with `a · x = b`: `a` is `[…, n, n]`, `b` either `[…, n, m]` or one vector `[n]`. Infinite or NaN
/// where `a` is singular.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```no_run
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

/// The `x` with `a · x = b` for triangular `a`, of which the triangle named is read. Shapes as for [`solve`].
#[track_caller]
pub fn solve_triangular(a: &Array, b: &Array, lower: bool) -> Array {
    let how = TriangularSolve { left_side: true, lower, ..Default::default() };
    solve_by("solve_triangular", a, b, |a, b| triangular_solve(a, b, how.clone()))
}

/// The `x` with `l · lᴴ · x = b`, for the Cholesky factor `l` of a matrix.
#[track_caller]
pub fn cho_solve(l: &Array, b: &Array) -> Array {
    let how = |transpose_a| TriangularSolve {
        left_side: true,
        lower: true,
        transpose_a,
        unit_diagonal: false,
    };
    solve_by("cho_solve", l, b, |l, b| {
        let y = triangular_solve(l, b, how(TransposeA::NoTranspose));
        triangular_solve(l, &y, how(TransposeA::Adjoint))
    })
}

/// The inverse of each matrix of `a`, `[…, n, n]`. To solve equations, [`solve`] is faster and more exact.
///
/// ```no_run
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
    solve(&a, &broadcast_to(&eye(n, a.dtype()), a.shape().clone()))
}

/// The Moore-Penrose inverse of each matrix of `a`: `[…, m, n]` to `[…, n, m]`. Singular values of at most
/// `rcond` times the largest count as zero; without it, of `10 · max(m, n) · ε`.
///
/// Its derivative holds where the rank does not change.
///
/// Reference: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
/// whose variables separate", SIAM J. Numer. Anal. 10 (1973), for the derivative.
#[track_caller]
pub fn pinv(a: &Array, rcond: Option<f64>) -> Array {
    let a = inexact(a);
    if a.rank() < 2 {
        let error = RuleError::shape(format!("needs matrices, got {}", a.aval()));
        throw_operands("pinv", error, &[&a]);
    }
    let (m, n) = matrix_sizes(&a);
    let rcond = rcond.unwrap_or(10.0 * m.max(n) as f64 * a.dtype().epsilon());
    from_caller(|| pinv_with(&a, rcond))
}

fn pinv_with(a: &Array, rcond: f64) -> Array {
    let f = move |a: &Array| {
        let (u, s, vh) = primitives::svd(a, false);
        let largest = primitives::reduce_max(&s, &[-1]);
        let cutoff = expand_dims(&(largest * rcond), &[-1]);
        let kept = gt(&s, &cutoff);
        let inverse = where_(&kept, 1.0 / where_(&kept, &s, 1), 0);
        let inverse = convert_element_type(&expand_dims(&inverse, &[-2]), a.dtype());
        matmul(&(adjoint(&vh) * inverse), &adjoint(&u))
    };
    let rule = move |a: &Array, da: &Array| {
        let p = pinv_with(a, rcond);
        let (ph, dah) = (adjoint(&p), adjoint(da));
        let inner = matmul(&matmul(&p, da), &p);
        // What the change does outside of the row and column spaces.
        let left = matmul(&p, &outside_right(&matmul(&ph, &dah), a, &p));
        let right = matmul(&(&dah - matmul(&p, &matmul(a, &dah))), &matmul(&ph, &p));
        (p, left + right - inner)
    };
    custom_jvp(f, rule)(a)
}

/// `x (1 − a p)`.
fn outside_right(x: &Array, a: &Array, p: &Array) -> Array {
    x - matmul(&matmul(x, a), p)
}

/// The solution of a least squares problem.
#[derive(Clone, Debug)]
pub struct LeastSquares {
    /// The `x` of least norm that makes `|a x − b|` least: `[n]` or `[n, k]`.
    pub x: Array,
    /// `|a x − b|²` for each column: `[k]`, or `[]` for a vector.
    pub residuals: Array,
    /// How many singular values of `a` count as other than zero: `i32[]`.
    pub rank: Array,
    /// The singular values of `a`.
    pub s: Array,
}

/// The `x` of least norm that makes `|a x − b|` least, for one matrix `a`, `[m, n]`, and `b`, `[m]` or `[m, k]`.
/// Singular values of at most `rcond` times the largest count as zero; without it, of `max(m, n) · ε`.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn lstsq(a: &Array, b: &Array, rcond: Option<f64>) -> LeastSquares {
    let (a, b) = promoted("lstsq", a, b);
    if a.rank() != 2 || b.rank() == 0 || b.rank() > 2 || a.shape()[0] != b.shape()[0] {
        let error = RuleError::shape("needs a matrix [m, n] and a right-hand side [m] or [m, k]");
        throw_operands("lstsq", error, &[&a, &b]);
    }
    let (m, n) = matrix_sizes(&a);
    let rcond = rcond.unwrap_or(m.max(n) as f64 * a.dtype().epsilon());
    let x = matmul(&pinv(&a, Some(rcond)), &b);
    let error = matmul(&a, &x) - &b;
    let square = primitives::real(&(&error * conj(&error)));
    let s = super::svdvals(&a);
    let cutoff = primitives::reduce_max(&s, &[-1]) * rcond;
    let counted = convert_element_type(&gt(&s, &cutoff), crate::core::DType::I32);
    LeastSquares {
        x,
        residuals: primitives::reduce_sum(&square, &[0]),
        rank: primitives::reduce_sum(&counted, &[0]),
        s,
    }
}

/// The `x` with `tensordot(a, x, x.rank()) = b`: the first axes of `a` are those of `b`, and the others, of as many
/// elements, those of `x`.
#[track_caller]
pub fn tensorsolve(a: &Array, b: &Array) -> Array {
    let inner: Vec<usize> = a.shape()[b.rank().min(a.rank())..].to_vec();
    let n: usize = inner.iter().product();
    if a.rank() < b.rank() || a.shape()[..b.rank()] != b.shape()[..] || n != b.size() {
        let message = format!("{} is no square system for {}", a.aval(), b.aval());
        throw_operands("tensorsolve", RuleError::shape(message), &[a, b]);
    }
    let x = solve(&reshape(a, [n, n]), &reshape(b, [n]));
    reshape(&x, inner)
}

/// The inverse of `a` as a map from its last axes to its first `ind`: `tensordot(tensorinv(a), b, ind)` solves.
#[track_caller]
pub fn tensorinv(a: &Array, ind: usize) -> Array {
    let (first, last) = a.shape().split_at(ind.min(a.rank()));
    let n: usize = first.iter().product();
    if n != last.iter().product::<usize>() {
        let message =
            format!("the first {ind} axes of {} have not as many elements as the others", a.aval());
        throw_operands("tensorinv", RuleError::shape(message), &[a]);
    }
    let shape: Vec<usize> = last.iter().chain(first).copied().collect();
    reshape(&inv(&reshape(a, [n, n])), shape)
}
