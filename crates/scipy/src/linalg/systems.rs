//! Linear systems with a known structure.

use super::factors::{cho_factor_with, cho_solve};
use super::support::{dot, expect_square, same_inexact, sizes};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::Triangle;
use oxidax::prelude::*;

/// Structure of the matrix of a linear system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "assume_a")]
pub enum AssumeA {
    /// Any square matrix: LU decomposition.
    #[default]
    #[doc(alias = "gen")]
    General,
    /// A symmetric matrix. It is solved as a general one.
    #[doc(alias = "sym")]
    Symmetric,
    /// A Hermitian matrix. It is solved as a general one.
    #[doc(alias = "her")]
    Hermitian,
    /// A Hermitian positive definite matrix: Cholesky decomposition, half the work of an LU
    /// decomposition. One triangle is read.
    #[doc(alias = "pos")]
    PositiveDefinite,
}

/// Options of [`solve_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolveOptions {
    /// The structure of the matrix. None by default.
    pub assume_a: AssumeA,
    /// The triangle of a positive definite matrix that is factorized. The upper one by default.
    #[doc(alias = "lower")]
    pub triangle: Triangle,
}

impl Default for SolveOptions {
    fn default() -> SolveOptions {
        SolveOptions { assume_a: AssumeA::General, triangle: Triangle::Upper }
    }
}

/// Returns the `x` with `a · x = b`, for `a` of `[…, n, n]` and `b` of `[…, n, m]` or a vector
/// `[n]`, with a known structure of `a`. See [`oxidax::linalg::solve`].
///
/// The decomposition is reused for derivatives, in both modes. They are those of the system with
/// the whole matrix, so they have a part in both triangles.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg::{self, AssumeA, SolveOptions};
/// let options = SolveOptions { assume_a: AssumeA::PositiveDefinite, ..Default::default() };
/// let a = array![[4.0, 2.0], [2.0, 5.0]];
/// let x = linalg::solve_with(&a, &array![8.0, 12.0], options);
/// assert!(allclose(&x, array![1.0, 2.0]).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn solve_with(a: &Array, b: &Array, options: SolveOptions) -> Array {
    let SolveOptions { assume_a, triangle } = options;
    Loc::caller().scope(|| {
        if assume_a != AssumeA::PositiveDefinite {
            return oxidax::linalg::solve(a, b);
        }
        let [a, b] = same_inexact([a, b]);
        expect_square("solve", &a);
        let is_vector = b.rank() == 1;
        let b = if is_vector { b.expand_dims(-1) } else { b };
        if b.rank() == 0 || sizes(&b).0 != sizes(&a).0 {
            let n = sizes(&a).0;
            let message = format!("{n} equations need a right-hand side of {n} rows");
            throw_operands("solve", RuleError::shape(message), &[&a, &b]);
        }
        let f = move |(a, b): &(Array, Array)| cho_solve(&cho_factor_with(a, triangle), b);
        let rule = move |(a, b): &(Array, Array), (da, db): &(Array, Array)| {
            let factor = cho_factor_with(a, triangle);
            let x = cho_solve(&factor, b);
            let dx = cho_solve(&factor, &(db - dot(da, &x)));
            (x, dx)
        };
        let x = custom_jvp(f, rule)(&(a, b));
        if is_vector { squeeze(&x, &[-1]) } else { x }
    })
}
