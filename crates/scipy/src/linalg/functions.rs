//! Functions of matrices.

use super::schur::{SchurResult, complex_schur, conjugated, element};
use super::support::{
    adjoint, column, complex_dtype, diagonals, dot, expect_square, index_mask, indices, inexact,
    over_batches1, row, same_inexact, sizes, with_column,
};
use super::sylvester::solve_triangular_sylvester;
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::{MatrixNorm, matrix_norm, solve};
use oxidax::prelude::*;
use oxidax::primitives::{TransposeA, TriangularSolve};

/// Options of [`expm_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpmOptions {
    /// The matrices are upper triangular, which saves an LU decomposition. False by default.
    pub upper_triangular: bool,
    /// The largest number of times that a matrix is halved. 16 by default. The result is NaN if
    /// that is not enough.
    pub max_squarings: usize,
}

impl Default for ExpmOptions {
    fn default() -> Self {
        ExpmOptions { upper_triangular: false, max_squarings: 16 }
    }
}

/// Returns the coefficients of the Padé approximant `p(a) / p(−a)` of degree `m` to the
/// exponential, the constant first.
///
/// The coefficient of `aᵏ` is `(2m − k)! m! / ((2m)! k! (m − k)!)`, here with the last one
/// scaled to 1.
fn pade_coefficients(m: u32) -> Vec<f64> {
    let mut coefficients = vec![1.0];
    for k in (0..m).rev() {
        // The ratio of coefficient k to coefficient k + 1.
        let ratio = f64::from((2 * m - k) * (k + 1)) / f64::from(m - k);
        coefficients.push(coefficients[coefficients.len() - 1] * ratio);
    }
    coefficients.reverse();
    coefficients
}

/// Returns the exponential of each matrix of `a`, `[…, n, n]`, with options. See
/// [`oxidax::linalg::expm`].
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// Reference: Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM
/// J. Matrix Anal. Appl. 26 (2005), with the bounds of table 2.3.
#[track_caller]
pub fn expm_with(a: &Array, options: ExpmOptions) -> Array {
    let ExpmOptions { upper_triangular, max_squarings } = options;
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("expm", &a);
        // The degree of the approximant, and the largest norm for which it is exact to the dtype.
        let is_double = a.dtype().real() == DType::F64;
        let (degree, bound) = if is_double { (13, 5.371920351148152) } else { (7, 3.9257) };
        let wide = |x: &Array| x.astype(a.dtype()).expand_dims(-1).expand_dims(-1);
        let norm = matrix_norm(&a, MatrixNorm::L1);
        let halvings = ceil(maximum(log(norm / bound) / std::f64::consts::LN_2, 0.0));
        let is_too_large = gt(&halvings, max_squarings as f64);
        let halvings = stop_gradient(minimum(halvings, max_squarings as f64));
        let a = &a * wide(&exp2(-&halvings));
        let (even, odd) = pade_parts(&a, &pade_coefficients(degree));
        let (numerator, denominator) = (&even + &odd, &even - &odd);
        let mut power = if upper_triangular {
            let how = TriangularSolve {
                left_side: true,
                lower: false,
                transpose_a: TransposeA::NoTranspose,
                unit_diagonal: false,
            };
            triangular_solve(&denominator, &numerator, how)
        } else {
            solve(&denominator, &numerator)
        };
        for step in 0..max_squarings {
            let is_open = gt(&halvings, step as f64).expand_dims(-1).expand_dims(-1);
            power = where_(is_open, dot(&power, &power), &power);
        }
        where_(is_too_large.expand_dims(-1).expand_dims(-1), f64::NAN, power)
    })
}

/// Returns the sums of the even and of the odd powers of a polynomial.
fn pade_parts(a: &Array, coefficients: &[f64]) -> (Array, Array) {
    let square = dot(a, a);
    let identity = eye((sizes(a).1, a.dtype()));
    // Horner's rule in the square of the matrix.
    let sum_of = |first: usize| {
        let steps = coefficients[first..].iter().step_by(2).rev();
        let mut sum: Option<Array> = None;
        for &coefficient in steps {
            let term = &identity * coefficient;
            sum = Some(match sum {
                Some(sum) => dot(&sum, &square) + term,
                None => broadcast_to(&term, a.shape()),
            });
        }
        sum.expect("an approximant has coefficients of both parities")
    };
    (sum_of(0), dot(a, &sum_of(1)))
}

/// Returns the exponential of `a` and its derivative in direction `e`, both `[…, n, n]`.
///
/// Throws `Op` if the matrices are not square or differ in their shape.
#[track_caller]
pub fn expm_frechet(a: &Array, e: &Array) -> (Array, Array) {
    Loc::caller().scope(|| {
        let [a, e] = same_inexact([a, e]);
        expect_square("expm_frechet", &a);
        if a.shape() != e.shape() {
            let message = format!("shapes differ: {} and {}", a.shape(), e.shape());
            throw_operands("expm_frechet", RuleError::shape(message), &[&a, &e]);
        }
        jvp(|a: &Array| expm_with(a, ExpmOptions::default()), &a, &e)
    })
}

/// Returns the principal square root of `a`, `[…, n, n]`, which is complex: `sqrtm(a)² = a`. NaN or
/// infinite where `a` is singular and has no square root.
///
/// The derivative is the solution of the Sylvester equation `x dx + dx x = da`. It exists where no
/// two eigenvalues of the root sum to zero. JAX has none.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let root = linalg::sqrtm(&array![[4.0, 0.0], [0.0, 9.0]]);
/// assert_eq!(real(&root).to_vec::<f32>()?, [2.0, 0.0, 0.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Björck and Hammarling, "A Schur method for the square root of a matrix" (1983).
#[track_caller]
pub fn sqrtm(a: &Array) -> Array {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("sqrtm", &a);
        let a = a.astype(complex_dtype("sqrtm", &a));
        let f = |a: &Array| {
            let (z, root) = root_factors(a);
            conjugated(&z, &root)
        };
        let rule = |a: &Array, da: &Array| {
            let (z, root) = root_factors(a);
            let rotated = dot(&dot(&adjoint(&z), da), &z);
            let change = solve_triangular_sylvester(&root, &root, &rotated);
            (conjugated(&z, &root), conjugated(&z, &change))
        };
        custom_jvp(f, rule)(&a)
    })
}

/// Returns the Schur vectors and the root of the triangular factor.
fn root_factors(a: &Array) -> (Array, Array) {
    let SchurResult { t, z } = complex_schur(a);
    let root = over_batches1("(n,n)->(n,n)", &[&t], |operands| triangular_root(&operands[0]));
    (z, root)
}

/// Computes the root of an upper triangular matrix by columns, each from its diagonal up.
fn triangular_root(t: &Array) -> Array {
    let n = sizes(t).1;
    let diagonal = sqrt(t.diagonal());
    if n == 0 {
        return t.clone();
    }
    let step = |j: Array, root: Array| {
        let up = |step: Array, entries: Array| {
            let i = &j - 1 - step;
            let line = where_(gt(indices(n), &i), row(&root, &i), 0);
            let rest = element(t, &i, &j) - dot(&line, &entries);
            let sum = row(&diagonal, &i) + row(&diagonal, &j);
            let is_zero = eq(abs(&rest), 0.0);
            let value = where_(&is_zero, 0.0, &rest / where_(&is_zero, 1.0, sum));
            where_(eq(indices(n), &i), value, entries)
        };
        let first = where_(eq(indices(n), &j), row(&diagonal, &j), 0.0);
        let entries = fori_loop(0, &j, up, first.astype(t.dtype()));
        with_column(&root, &j, &entries)
    };
    fori_loop(0, n, step, zeros_like(t))
}

/// Returns the function `f` of the matrix `a`, `[n, n]`, complex. `f` maps an array of eigenvalues
/// to one of the same shape.
///
/// The result is inaccurate where eigenvalues nearly coincide; [`funm_with_error`] estimates by how
/// much. There is no derivative.
///
/// Throws `Op` if `a` is not a square matrix or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let a = array![[1.0, 2.0], [3.0, 4.0]];
/// let e = linalg::funm(&a, |x| exp(x));
/// let close = CloseOptions { rtol: 1e-4, ..Default::default() };
/// assert!(allclose_with(real(&e), oxidax::linalg::expm(&a), close).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Parlett, "A recurrence among the elements of functions of triangular matrices"
/// (1976).
#[track_caller]
pub fn funm(a: &Array, f: impl Fn(&Array) -> Array) -> Array {
    funm_with_error(a, f).0
}

/// Returns the function of [`funm`] and an estimate of its relative error in the 1-norm, at most 1:
/// a real scalar.
#[doc(alias = "disp")]
#[track_caller]
pub fn funm_with_error(a: &Array, f: impl Fn(&Array) -> Array) -> (Array, Array) {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("funm", &a);
        if a.rank() != 2 {
            let error = RuleError::shape(format!("takes one matrix, got {}", a.aval()))
                .help("use `vmap` for a batch");
            throw_operands("funm", error, &[&a]);
        }
        let n = sizes(&a).1;
        let SchurResult { t, z } = complex_schur(&a.astype(complex_dtype("funm", &a)));
        let d = diagonals(&t);
        let gaps = d.expand_dims(0) - d.expand_dims(1);
        let is_zero = eq(abs(&gaps), 0.0);
        let divisor = where_(&is_zero, 1.0, &gaps);
        let values = f(&d).astype(t.dtype());
        let start = where_(index_mask((n, n), eq_indices), values.expand_dims(1), 0.0);
        let step = |p: Array, value: Array| {
            // The elements of diagonal p follow from those of the diagonals below it, because
            // the function commutes with the matrix.
            let next = (dot(&t, &value) - dot(&value, &t)) / &divisor;
            let here = index_mask((n, n), |row, column| eq(column - row, &p));
            where_(here, next, value)
        };
        let value = fori_loop(1, n.max(1), step, start);
        let value = conjugated(&z, &value);
        let is_above = index_mask((n, n), |row, column| gt(column, row));
        let tolerance = a.dtype().real().epsilon();
        let first = abs(&d).index(i![..1]).sum();
        let least = minimum(where_(&is_above, abs(&gaps), f64::INFINITY).min(), first);
        let least = where_(eq(&least, 0.0), tolerance, least);
        let norm = matrix_norm(&triu(&t, 1), MatrixNorm::L1);
        let error = clip(&(tolerance / least * norm), tolerance, 1.0);
        let error = where_(isinf(abs(&value)).any(), f64::INFINITY, error);
        (value, error)
    })
}

fn eq_indices(row: &Array, column: &Array) -> Array {
    eq(row, column)
}

/// Returns column `j` of the strict upper triangle, for recurrences by columns.
pub(super) fn strict_column(x: &Array, j: &Array) -> Array {
    let n = sizes(x).0;
    where_(lt(indices(n), j), column(x, j), 0)
}
