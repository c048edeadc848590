//! Schur decompositions: shifted QR sweeps on the Hessenberg form, in a loop.

use super::householder::hessenberg_with_q;
use super::support::{
    adjoint, complex_dtype, dot, expect_decomposable, expect_square, index_mask, inexact,
    over_batches2, row, same_inexact, sizes,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;

/// Factors of `a = z · t · zᴴ`.
#[derive(Clone, Debug, Tree)]
pub struct SchurResult {
    /// Upper triangular, or with blocks of two rows on the diagonal: `[…, n, n]`.
    pub t: Array,
    /// Unitary: `[…, n, n]`.
    pub z: Array,
}

/// Dtype of the factors of [`schur_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchurOutput {
    /// The dtype of the matrix. Pairs of complex eigenvalues of a real matrix are blocks of two
    /// rows.
    #[default]
    Real,
    /// Complex: `t` is upper triangular.
    Complex,
}

/// Returns the Schur decomposition of `a`, `[…, n, n]`. For real `a` the factors are real, and `t`
/// has a block of two rows with equal diagonal elements for each pair of complex eigenvalues.
///
/// The order of eigenvalues and the signs of the columns of `z` may differ from LAPACK's. NaN where
/// `a` is not finite. There is no derivative.
///
/// Throws `Op` if the matrices are not square or of a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg::{self, SchurResult};
/// let a = array![[1.0, 2.0], [4.0, 3.0]];
/// let SchurResult { t, z } = linalg::schur(&a);
/// assert_eq!(t.to_vec::<f32>()?[2], 0.0);
/// assert!(allclose(z.matmul(&t).matmul(&z.mt()), &a).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Golub and Van Loan, "Matrix Computations" (4th edition, 2013), sections 7.4 and 7.5.
#[track_caller]
pub fn schur(a: &Array) -> SchurResult {
    schur_with(a, SchurOutput::Real)
}

/// Returns the Schur decomposition of `a`, real or complex. Throws as [`schur`].
#[track_caller]
pub fn schur_with(a: &Array, output: SchurOutput) -> SchurResult {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_square("schur", &a);
        if output == SchurOutput::Complex || a.dtype().is_complex() {
            return complex_schur(&a.astype(complex_dtype("schur", &a)));
        }
        let (t, z) = over_batches2("(n,n)->(n,n),(n,n)", &[&a], |operands| {
            finite(&operands[0], super::real_schur::decomposed)
        });
        SchurResult { t, z }
    })
}

/// Returns the decomposition of one matrix; NaN if it is not finite, for which the loop would not
/// end.
fn finite(a: &Array, decompose: impl Fn(&Array) -> (Array, Array)) -> (Array, Array) {
    let is_finite = isfinite(a).all();
    let (t, z) = decompose(&where_(&is_finite, a, 0));
    (where_(&is_finite, t, f64::NAN), where_(&is_finite, z, f64::NAN))
}

/// Returns the decomposition of complex matrices.
pub(super) fn complex_schur(a: &Array) -> SchurResult {
    let (t, z) = over_batches2("(n,n)->(n,n),(n,n)", &[a], |operands| {
        finite(&operands[0], complex_decomposed)
    });
    SchurResult { t, z }
}

/// The number of sweeps per row after which the loop gives up; three are usual.
pub(super) const SWEEPS: i32 = 30;

/// The number of sweeps without progress after which an exceptional shift breaks a cycle.
pub(super) const EXCEPTIONAL: i32 = 10;

/// Returns the subdiagonal, and true where it is not negligible beside its neighbours on the
/// diagonal.
pub(super) fn open_subdiagonal(t: &Array) -> Array {
    let n = sizes(t).1 as isize;
    let diagonal = abs(t.diagonal());
    let below = diagonal_with(t, DiagonalOptions { offset: -1, ..DiagonalOptions::default() });
    let near = slice_in_dim(&diagonal, 0, n - 1, 1, 0) + slice_in_dim(&diagonal, 1, n, 1, 0);
    // The largest element decides where both neighbours are zero.
    let near = where_(eq(&near, 0.0), abs(t).max(), near);
    gt(abs(below), near * t.dtype().real().epsilon())
}

/// Returns the matrix with zeros on the subdiagonal where `open` is false.
pub(super) fn deflated(t: &Array, open: &Array) -> Array {
    let (n, dtype) = (sizes(t).1, DType::Bool);
    let padded = concatenate([&zeros(([1], dtype)), open], 0);
    let is_below = index_mask((n, n), |row, column| eq(row, column + 1));
    let is_closed = bitwise_and(&is_below, bitwise_not(padded).expand_dims(1));
    where_(is_closed, 0, t)
}

/// The state of a loop of sweeps.
#[derive(Tree)]
pub(super) struct Sweeps {
    pub(super) t: Array,
    pub(super) z: Array,
    /// True where the subdiagonal is not zero.
    pub(super) open: Array,
    /// The last row of the block that is swept.
    pub(super) last: Array,
    /// The number of sweeps with this last row.
    pub(super) stays: Array,
    pub(super) n_sweeps: Array,
}

impl Sweeps {
    pub(super) fn start(a: &Array) -> Sweeps {
        let (t, z) = hessenberg_with_q(a);
        let open = open_subdiagonal(&t);
        let t = deflated(&t, &open);
        let none = scalar(0).astype(DType::I32);
        Sweeps { t, z, open, last: &none - 1, stays: none.clone(), n_sweeps: none }
    }

    /// Returns the state after a sweep.
    pub(super) fn next(&self, t: &Array, z: Array, last: Array) -> Sweeps {
        let open = open_subdiagonal(t);
        let t = deflated(t, &open);
        let stays = where_(eq(&last, &self.last), &self.stays + 1, 0);
        Sweeps { t, z, open, last, stays, n_sweeps: &self.n_sweeps + 1 }
    }

    /// Returns true if the next shift is an exceptional one.
    pub(super) fn is_exceptional(&self) -> Array {
        let rest = rem(&self.stays, EXCEPTIONAL);
        bitwise_and(gt(&self.stays, 0), eq(rest, EXCEPTIONAL - 1))
    }

    /// Returns true while sweeps are left.
    pub(super) fn may_go_on(&self) -> Array {
        let n = sizes(&self.t).1 as i32;
        lt(&self.n_sweeps, SWEEPS * n.max(10))
    }

    /// Returns the first row of the block that ends with row `last`.
    pub(super) fn first(&self, last: &Array) -> Array {
        let below = iota(DType::I32, self.open.size()) + 1;
        let closed = bitwise_and(bitwise_not(&self.open), le(&below, last));
        reduce_max(&where_(closed, &below, 0), &[0])
    }
}

/// Returns element `(i, j)` of a matrix.
pub(super) fn element(t: &Array, i: &Array, j: &Array) -> Array {
    row(&row(t, i), j)
}

fn complex_decomposed(a: &Array) -> (Array, Array) {
    if sizes(a).1 < 2 {
        return (a.clone(), ones_like(a));
    }
    let is_open = |sweeps: &Sweeps| bitwise_and(sweeps.open.any(), sweeps.may_go_on());
    let end = while_loop(is_open, complex_sweep, Sweeps::start(a));
    (triu(&end.t, 0), end.z)
}

/// Sweeps the last block that is not triangular, with a shift near its last eigenvalue.
fn complex_sweep(sweeps: &Sweeps) -> Sweeps {
    let Sweeps { t, z, open, .. } = sweeps;
    let last = reduce_max(&where_(open, iota(DType::I32, open.size()) + 1, 0), &[0]);
    let first = sweeps.first(&last);
    // Wilkinson's shift: the eigenvalue of the last two rows that is closer to the last element.
    let before = &last - 1;
    let corner = element(t, &last, &last);
    let below = element(t, &last, &before);
    let half = (element(t, &before, &before) - &corner) * 0.5;
    let product = &below * element(t, &before, &last);
    let root = sqrt(&half * &half + &product);
    let (plus, minus) = (&half + &root, &half - &root);
    let divisor = where_(ge(abs(&plus), abs(&minus)), &plus, &minus);
    let is_zero = eq(abs(&divisor), 0.0);
    let step = where_(&is_zero, 0.0, product / where_(&is_zero, 1.0, &divisor));
    let aside = &corner + (abs(&below) * 0.75).astype(t.dtype());
    let shift = where_(sweeps.is_exceptional(), aside, &corner - step);
    let rotate = |k: Array, (t, z): (Array, Array)| {
        let previous = maximum(&k - 1, 0);
        let begins = eq(&k, &first);
        let next = &k + 1;
        let upper = where_(&begins, element(&t, &k, &k) - &shift, element(&t, &k, &previous));
        let lower = where_(&begins, element(&t, &next, &k), element(&t, &next, &previous));
        let (cosine, sine) = rotation(&upper, &lower);
        let t = rotated_rows(&t, &k, &cosine, &sine);
        // The element that the rotation eliminates becomes exactly zero.
        let gone =
            index_mask(sizes(&t), |row, column| bitwise_and(eq(row, &next), eq(column, &previous)));
        let t = where_(bitwise_and(gone, bitwise_not(begins)), 0, t);
        let t = rotated_columns(&t, &k, &cosine, &sine);
        (t, rotated_columns(&z, &k, &cosine, &sine))
    };
    let (t, z) = fori_loop(&first, &last, rotate, (t.clone(), z.clone()));
    sweeps.next(&t, z, last)
}

/// Returns the cosine and sine, of modulus 1 together, whose rotation maps `(x, y)` to a multiple
/// of the first unit vector.
pub(super) fn rotation(x: &Array, y: &Array) -> (Array, Array) {
    let largest = maximum(abs(x), abs(y));
    let is_zero = eq(&largest, 0.0);
    let scale = where_(&is_zero, 1.0, largest).astype(x.dtype());
    let (x, y) = (x / &scale, y / &scale);
    let square = |x: &Array| abs(x) * abs(x);
    let length = sqrt(square(&x) + square(&y)).astype(x.dtype());
    let length = where_(&is_zero, 1.0, length);
    (where_(&is_zero, 1.0, x / &length), where_(&is_zero, 0.0, y / &length))
}

/// Rotates rows `k` and `k + 1` by `[[c̄, s̄], [−s, c]]`.
pub(super) fn rotated_rows(t: &Array, k: &Array, c: &Array, s: &Array) -> Array {
    let pair = dynamic_slice_in_dim(t, k, 2, 0);
    let (x, y) = (slice_in_dim(&pair, 0, 1, 1, 0), slice_in_dim(&pair, 1, 2, 1, 0));
    let turned = [conj(c) * &x + conj(s) * &y, c * &y - s * &x];
    dynamic_update_slice_in_dim(t, &concatenate(turned, 0), k, 0)
}

/// Rotates columns `k` and `k + 1` by the adjoint of the matrix of [`rotated_rows`].
pub(super) fn rotated_columns(t: &Array, k: &Array, c: &Array, s: &Array) -> Array {
    let pair = dynamic_slice_in_dim(t, k, 2, 1);
    let (x, y) = (slice_in_dim(&pair, 0, 1, 1, 1), slice_in_dim(&pair, 1, 2, 1, 1));
    let turned = [c * &x + s * &y, conj(c) * &y - conj(s) * &x];
    dynamic_update_slice_in_dim(t, &concatenate(turned, 1), k, 1)
}

/// Converts a real Schur decomposition, with blocks of two rows on the diagonal, to a complex one,
/// whose `t` is upper triangular: `[…, n, n]` each.
///
/// Throws `Op` if the matrices are not square, or differ in their size.
#[track_caller]
pub fn rsf2csf(t: &Array, z: &Array) -> SchurResult {
    Loc::caller().scope(|| {
        let [t, z] = same_inexact([t, z]);
        expect_square("rsf2csf", &t);
        expect_square("rsf2csf", &z);
        if sizes(&t) != sizes(&z) {
            let error = RuleError::shape("t and z differ in their size");
            throw_operands("rsf2csf", error, &[&t, &z]);
        }
        let dtype = complex_dtype("rsf2csf", &t);
        expect_decomposable("rsf2csf", &t);
        let (t, z) = (t.astype(dtype), z.astype(dtype));
        let (t, z) = over_batches2("(n,n),(n,n)->(n,n),(n,n)", &[&t, &z], |operands| {
            let n = sizes(&operands[0]).1;
            let start = (operands[0].clone(), operands[1].clone());
            if n < 2 {
                return start;
            }
            let (t, z) = fori_loop(0, n - 1, split_block, start);
            (triu(&t, 0), z)
        });
        SchurResult { t, z }
    })
}

/// Makes the block of the rows before the last `step` triangular, if it is not.
fn split_block(step: Array, (t, z): (Array, Array)) -> (Array, Array) {
    let n = sizes(&t).1 as i32;
    let (lower, upper) = (n - 1 - &step, n - 2 - &step);
    let (a, d) = (element(&t, &upper, &upper), element(&t, &lower, &lower));
    let (b, c) = (element(&t, &upper, &lower), element(&t, &lower, &upper));
    let half = (&a - &d) * 0.5;
    // An eigenvalue of the block, without its last element.
    let mu = &half + sqrt(&half * &half + b * &c);
    let epsilon = t.dtype().real().epsilon();
    let is_block = gt(abs(&c), (abs(a) + abs(d)) * epsilon);
    let (cosine, sine) = rotation(&mu, &c);
    let cosine = where_(&is_block, cosine, 1.0);
    let sine = where_(&is_block, sine, 0.0);
    let t = rotated_columns(&rotated_rows(&t, &upper, &cosine, &sine), &upper, &cosine, &sine);
    let gone =
        index_mask(sizes(&t), |row, column| bitwise_and(eq(row, &lower), eq(column, &upper)));
    (where_(gone, 0, t), rotated_columns(&z, &upper, &cosine, &sine))
}

/// Returns `z · m · zᴴ`.
pub(super) fn conjugated(z: &Array, m: &Array) -> Array {
    dot(&dot(z, m), &adjoint(z))
}
