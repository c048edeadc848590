//! Sylvester equations.

use super::functions::strict_column;
use super::schur::{SchurResult, complex_schur};
use super::support::{
    adjoint, column, complex_dtype, diagonals, dot, expect_square, over_batches1, row,
    same_inexact, sizes, with_column,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::{eig, inv, solve};
use oxidax::prelude::*;
use oxidax::primitives::{TransposeA, TriangularSolve};

/// Algorithm of [`solve_sylvester_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SylvesterMethod {
    /// By the Schur decompositions of both matrices: accurate for all matrices.
    #[default]
    Schur,
    /// By eigenvectors: inaccurate where they are nearly dependent.
    Eigen,
}

/// Options of [`solve_sylvester_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SylvesterOptions {
    /// The algorithm. Schur decompositions by default.
    pub method: SylvesterMethod,
    /// The solution is NaN if the sum of an eigenvalue of `a` and one of `b` has a modulus below
    /// this. 1e-8 by default.
    pub tol: f64,
}

impl Default for SylvesterOptions {
    fn default() -> Self {
        SylvesterOptions { method: SylvesterMethod::Schur, tol: 1e-8 }
    }
}

/// Returns the `x` with `a · x + x · b = c`, for `a`, `[…, m, m]`, `b`, `[…, n, n]`, and `c`,
/// `[…, m, n]`. NaN where the equation is singular: an eigenvalue of `a` is the negative of one of
/// `b`.
///
/// Forward and reverse derivatives are those of the equation.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let (a, b) = (array![[1.0, 2.0], [0.0, 3.0]], array![[4.0]]);
/// let x = linalg::solve_sylvester(&a, &b, &array![[9.0], [14.0]]);
/// assert!(allclose(&x, array![[1.0], [2.0]]).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Bartels and Stewart, "Solution of the matrix equation AX + XB = C" (1972).
#[track_caller]
pub fn solve_sylvester(a: &Array, b: &Array, c: &Array) -> Array {
    solve_sylvester_with(a, b, c, SylvesterOptions::default())
}

/// Solves a Sylvester equation, as [`solve_sylvester`], with options.
#[track_caller]
pub fn solve_sylvester_with(a: &Array, b: &Array, c: &Array, options: SylvesterOptions) -> Array {
    Loc::caller().scope(|| {
        let [a, b, c] = same_inexact([a, b, c]);
        expect_square("solve_sylvester", &a);
        expect_square("solve_sylvester", &b);
        if c.rank() < 2 || sizes(&c) != (sizes(&a).0, sizes(&b).0) {
            let message = format!("the right-hand side must be {} by {}", sizes(&a).0, sizes(&b).0);
            throw_operands("solve_sylvester", RuleError::shape(message), &[&a, &b, &c]);
        }
        let f = move |(a, b, c): &(Array, Array, Array)| Factors::of(a, b, options).solve(c);
        let rule = move |(a, b, c): &(Array, Array, Array),
                         (da, db, dc): &(Array, Array, Array)| {
            let factors = Factors::of(a, b, options);
            let x = factors.solve(c);
            let dx = factors.solve(&(dc - dot(da, &x) - dot(&x, db)));
            (x, dx)
        };
        over_batches1("(m,m),(n,n),(m,n)->(m,n)", &[&a, &b, &c], |operands| {
            let [a, b, c] = operands else { unreachable!("three operands") };
            custom_jvp(f, rule)(&(a.clone(), b.clone(), c.clone()))
        })
    })
}

/// Decompositions `a = u · r · u⁻¹` and `b = v · s · v⁻¹`.
struct Factors {
    method: SylvesterMethod,
    dtype: DType,
    /// Upper triangular, or the diagonal of a diagonal matrix.
    r: Array,
    u: Array,
    s: Array,
    v: Array,
    is_singular: Array,
}

impl Factors {
    fn of(a: &Array, b: &Array, options: SylvesterOptions) -> Factors {
        let dtype = complex_dtype("solve_sylvester", a);
        let decompose = |x: &Array| match options.method {
            SylvesterMethod::Schur => {
                let SchurResult { t, z } = complex_schur(&x.astype(dtype));
                (diagonals(&t), t, z)
            }
            SylvesterMethod::Eigen => {
                let result = eig(x);
                let w = result.eigenvalues;
                (w.clone(), w, result.eigenvectors)
            }
        };
        let ((wa, r, u), (wb, s, v)) = (decompose(a), decompose(b));
        let sums = abs(wa.expand_dims(1) + wb.expand_dims(0));
        let is_singular = lt(sums, options.tol).any();
        Factors { method: options.method, dtype: a.dtype(), r, u, s, v, is_singular }
    }

    /// Returns the solution for one right-hand side. It is linear in it.
    fn solve(&self, c: &Array) -> Array {
        let Factors { r, u, s, v, .. } = self;
        let c = c.astype(u.dtype());
        let x = match self.method {
            SylvesterMethod::Schur => {
                let rotated = dot(&dot(&adjoint(u), &c), v);
                let y = solve_triangular_sylvester(r, s, &rotated);
                dot(&dot(u, &y), &adjoint(v))
            }
            SylvesterMethod::Eigen => {
                let rotated = solve(u, &dot(&c, v));
                let y = rotated / (r.expand_dims(1) + s.expand_dims(0));
                dot(&dot(u, &y), &inv(v))
            }
        };
        let x = if self.dtype.is_complex() { x } else { real(&x) };
        where_(&self.is_singular, f64::NAN, x)
    }
}

/// Returns the `y` with `r · y + y · s = f` for upper triangular `r` and `s`. It is linear in `f`.
pub(super) fn solve_triangular_sylvester(r: &Array, s: &Array, f: &Array) -> Array {
    over_batches1("(m,m),(n,n),(m,n)->(m,n)", &[r, s, f], |operands| {
        let [r, s, f] = operands else { unreachable!("three operands") };
        let (m, n) = sizes(f);
        if f.size() == 0 {
            return f.clone();
        }
        let identity = eye((m, r.dtype()));
        let how = TriangularSolve {
            left_side: true,
            lower: false,
            transpose_a: TransposeA::NoTranspose,
            unit_diagonal: false,
        };
        // Column j of the product with s contains the columns before j.
        let step = |j: Array, y: Array| {
            let rest = column(f, &j) - dot(&y, &strict_column(s, &j));
            let shifted = r + &identity * row(&diagonals(s), &j);
            let solution = triangular_solve(&shifted, &rest.expand_dims(1), how.clone());
            with_column(&y, &j, &squeeze(&solution, &[1]))
        };
        fori_loop(0, n, step, zeros_like(f))
    })
}
