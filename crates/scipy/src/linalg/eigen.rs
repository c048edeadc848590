//! Eigenvalues with options: generalized problems, ranges of eigenvalues, left eigenvectors.

use super::factors::{cholesky_with, triangular};
use super::support::{
    adjoint, diagonals, dot, expect_square, index_mask, inexact, same_inexact, sizes,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::Triangle;
use oxidax::linalg::{EigResult, EighResult, inv};
use oxidax::prelude::*;
use oxidax::primitives::TransposeA;
use std::ops::Range;

/// Problem that [`eigh_with`] solves with a second matrix `b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeneralizedProblem {
    /// `a · v = b · v · w`: SciPy's type 1.
    #[default]
    AvEqualsBvw,
    /// `a · b · v = v · w`: SciPy's type 2.
    AbvEqualsVw,
    /// `b · a · v = v · w`: SciPy's type 3.
    BavEqualsVw,
}

/// Options of [`eigh_with`] and [`eigvalsh_with`].
#[derive(Clone, Debug, Default)]
pub struct HermitianEigenOptions<'a> {
    /// The triangle of `a` that is read. By default both are: `(a + aᴴ) / 2` is decomposed.
    #[doc(alias = "lower")]
    #[doc(alias = "UPLO")]
    #[doc(alias = "symmetrize_input")]
    pub triangle: Option<Triangle>,
    /// A Hermitian positive definite matrix, for a generalized problem, of which the lower triangle
    /// is read. The identity by default.
    pub b: Option<&'a Array>,
    /// The generalized problem.
    #[doc(alias = "type")]
    pub problem: GeneralizedProblem,
    /// The indices of the eigenvalues to return, in increasing order. All by default.
    pub subset_by_index: Option<Range<usize>>,
}

/// Returns the Hermitian matrix with a triangle of `a`, or the mean of `a` and its adjoint.
fn hermitian(a: &Array, triangle: Option<Triangle>) -> Array {
    let strict = match triangle {
        Some(Triangle::Lower) => tril(a, -1),
        Some(Triangle::Upper) => triu(a, 1),
        None => return (a + adjoint(a)) * 0.5,
    };
    let is_diagonal = index_mask(sizes(a), |row, column| eq(row, column));
    where_(is_diagonal, real(a).astype(a.dtype()), &strict + adjoint(&strict))
}

/// Returns eigenvalues and eigenvectors of Hermitian `a`, `[…, n, n]`, with options: one
/// triangle, a generalized problem with a second matrix, a range of eigenvalues.
///
/// Eigenvectors of a generalized problem satisfy `vᴴ · b · v = 1`, or `vᴴ · b⁻¹ · v = 1` for
/// [`GeneralizedProblem::BavEqualsVw`].
///
/// Throws `Op` if the shapes do not fit, for 16-bit dtypes, and (value) for indices that the matrix
/// does not have.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg::{HermitianEigenOptions, Triangle, eigvalsh_with};
/// let a = array![[2.0, 9.0], [0.0, -1.0]];
/// let lower = HermitianEigenOptions { triangle: Some(Triangle::Lower), ..Default::default() };
/// assert_eq!(eigvalsh_with(&a, lower).to_vec::<f32>()?, [-1.0, 2.0]);
/// let last = HermitianEigenOptions { subset_by_index: Some(1..2), ..Default::default() };
/// assert_eq!(eigvalsh_with(&a, last).shape().dims(), [1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eigh_with(a: &Array, options: HermitianEigenOptions<'_>) -> EighResult {
    let HermitianEigenOptions { triangle, b, problem, subset_by_index } = options;
    Loc::caller().scope(|| {
        let result = match b {
            None => {
                let a = inexact(a);
                expect_square("eigh", &a);
                oxidax::linalg::eigh(&hermitian(&a, triangle))
            }
            Some(b) => {
                let [a, b] = same_inexact([a, b]);
                expect_square("eigh", &a);
                expect_square("eigh", &b);
                if a.shape() != b.shape() {
                    let message = format!("shapes differ: {} and {}", a.shape(), b.shape());
                    throw_operands("eigh", RuleError::shape(message), &[&a, &b]);
                }
                generalized(&hermitian(&a, triangle), &b, problem)
            }
        };
        let Some(range) = subset_by_index else { return result };
        let n = sizes(&result.eigenvectors).1;
        if range.start > range.end || range.end > n {
            let message = format!("a matrix of {n} rows has no eigenvalues {range:?}");
            throw_operands("eigh", RuleError::value(message), &[a]);
        }
        let cut = |x: &Array| slice_in_dim(x, range.start as isize, range.end as isize, 1, -1);
        EighResult {
            eigenvalues: cut(&result.eigenvalues),
            eigenvectors: cut(&result.eigenvectors),
        }
    })
}

/// Returns the eigenvalues of Hermitian `a`, increasing, with the options of [`eigh_with`]. Throws
/// as [`eigh_with`].
#[doc(alias = "eigvals_only")]
#[track_caller]
pub fn eigvalsh_with(a: &Array, options: HermitianEigenOptions<'_>) -> Array {
    eigh_with(a, options).eigenvalues
}

/// Reduces a generalized problem to a Hermitian one by the Cholesky factor `l` of `b`.
fn generalized(a: &Array, b: &Array, problem: GeneralizedProblem) -> EighResult {
    let l = cholesky_with(b, Triangle::Lower);
    let divided = |x: &Array| triangular(&l, x, Triangle::Lower, TransposeA::NoTranspose);
    let reduced = match problem {
        // l⁻¹ · a · l⁻ᴴ
        GeneralizedProblem::AvEqualsBvw => divided(&adjoint(&divided(a))),
        // lᴴ · a · l
        GeneralizedProblem::AbvEqualsVw | GeneralizedProblem::BavEqualsVw => {
            dot(&dot(&adjoint(&l), a), &l)
        }
    };
    let EighResult { eigenvalues, eigenvectors } = oxidax::linalg::eigh(&reduced);
    let eigenvectors = match problem {
        GeneralizedProblem::AvEqualsBvw | GeneralizedProblem::AbvEqualsVw => {
            triangular(&l, &eigenvectors, Triangle::Lower, TransposeA::Adjoint)
        }
        GeneralizedProblem::BavEqualsVw => dot(&l, &eigenvectors),
    };
    EighResult { eigenvalues, eigenvectors }
}

/// Eigenvalues with left and right eigenvectors: for each column, `leftᴴ · a = w · leftᴴ` and
/// `a · right = right · w`.
#[derive(Clone, Debug, Tree)]
pub struct LeftRightEigenvectors {
    /// Eigenvalues, in no particular order: `[…, n]`, complex.
    pub eigenvalues: Array,
    /// Left eigenvectors as columns of length 1, with a real largest element: `[…, n, n]`.
    pub left: Array,
    /// Right eigenvectors as columns of length 1, with a real largest element: `[…, n, n]`.
    pub right: Array,
}

/// Returns eigenvalues, left and right eigenvectors of square `a`, `[…, n, n]`, all complex. Left
/// eigenvectors are rows of the inverse of the right ones, so they are inaccurate where `a` is
/// nearly defective.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
#[doc(alias = "compute_left_eigenvectors")]
#[track_caller]
pub fn eig_left_right(a: &Array) -> LeftRightEigenvectors {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("eig_left_right", &a);
        let EigResult { eigenvalues, eigenvectors: right } = oxidax::linalg::eig(&a);
        let left = normalized(&adjoint(&inv(&right)));
        LeftRightEigenvectors { eigenvalues, left, right }
    })
}

/// Scales each column to length 1 and turns its phase so that the largest element is real.
fn normalized(v: &Array) -> Array {
    if v.size() == 0 {
        return v.clone();
    }
    let gram = dot(&adjoint(v), v);
    let length = sqrt(abs(diagonals(&gram))).astype(v.dtype()).expand_dims(-2);
    let v = v / length;
    let at = argmax(&abs(&v), -2).expand_dims(-2);
    let largest = take_along_axis(&v, &at, -2);
    let phase = conj(&largest) / abs(&largest).astype(v.dtype());
    v * phase
}
