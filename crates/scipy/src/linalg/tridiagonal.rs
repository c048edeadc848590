//! Tridiagonal and banded matrices: systems, eigenvalues and eigenvectors.

use super::support::{
    expect_decomposable, expect_square, index_mask, indices, over_batches1, row, same_inexact,
    sizes,
};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::{EighResult, eigh};
use oxidax::prelude::*;
use std::ops::Range;

/// Returns the matrix with the given diagonals, `[…, n]` each. The first element of `dl` and the
/// last of `du` are outside of the matrix.
fn dense(dl: &Array, d: &Array, du: &Array) -> Array {
    let n = d.shape()[d.rank() - 1];
    let on = |offset: i32| index_mask((n, n), |row, column| eq(column - row, offset));
    // Element i of each vector belongs to row i.
    let rows = |x: &Array| x.expand_dims(-1);
    where_(on(0), rows(d), where_(on(1), rows(du), where_(on(-1), rows(dl), 0)))
}

/// Options of [`tridiagonal_solve_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TridiagonalSolveOptions {
    /// Replaces pivots that are negligible beside the largest one, so that the solution of a
    /// singular system is large but finite. False by default.
    pub perturb_singular: bool,
}

/// Returns the `x` with `a · x = b` for tridiagonal `a` with the diagonals `dl` (below), `d` and
/// `du` (above), `[…, n]` each, and `b`, `[…, n, k]`. The first element of `dl` and the last of
/// `du` are ignored. It takes `O(n k)` operations, with partial pivoting.
///
/// Derivatives are those of the system, in both modes.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let (dl, d, du) = (array![0.0, 1.0], array![2.0, 3.0], array![1.0, 0.0]);
/// let x = linalg::tridiagonal_solve(&dl, &d, &du, &array![[4.0], [7.0]]);
/// assert!(allclose(&x, array![[1.0], [2.0]]).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "gtsv")]
#[track_caller]
pub fn tridiagonal_solve(dl: &Array, d: &Array, du: &Array, b: &Array) -> Array {
    tridiagonal_solve_with(dl, d, du, b, TridiagonalSolveOptions::default())
}

/// Solves a tridiagonal system, as [`tridiagonal_solve`], with options.
#[track_caller]
pub fn tridiagonal_solve_with(
    dl: &Array,
    d: &Array,
    du: &Array,
    b: &Array,
    options: TridiagonalSolveOptions,
) -> Array {
    Loc::caller().scope(|| {
        let [dl, d, du, b] = same_inexact([dl, d, du, b]);
        let n = d.shape().last().copied().unwrap_or(0);
        let fits = |x: &Array| x.shape().last() == Some(&n);
        if d.rank() == 0 || !fits(&dl) || !fits(&du) || b.rank() < 2 || sizes(&b).0 != n {
            let message = format!("{n} equations need diagonals of {n} elements and {n} rows");
            throw_operands("tridiagonal_solve", RuleError::shape(message), &[&dl, &d, &du, &b]);
        }
        expect_decomposable("tridiagonal_solve", &d);
        over_batches1("(n),(n),(n),(n,k)->(n,k)", &[&dl, &d, &du, &b], |operands| {
            let [dl, d, du, b] = operands else { unreachable!("four operands") };
            if b.size() == 0 {
                return b.clone();
            }
            let inside = |x: &Array, outside: i32| where_(eq(indices(n), outside), 0.0, x);
            let (dl, du) = (inside(dl, 0), inside(du, n as i32 - 1));
            // Row i of the transpose has element i − 1 of the upper diagonal below.
            let (below, above) = (roll(&du, 1, 0), roll(&dl, -1, 0));
            let matvec = |x: &Array| {
                let part = |diagonal: &Array, x: &Array| diagonal.expand_dims(1) * x;
                part(d, x) + part(&du, &roll(x, -1, 0)) + part(&dl, &roll(x, 1, 0))
            };
            let solve =
                |_: &dyn Fn(&Array) -> Array, b: &Array| eliminated(&dl, d, &du, b, options);
            let solve_transposed =
                |_: &dyn Fn(&Array) -> Array, b: &Array| eliminated(&below, d, &above, b, options);
            custom_linear_solve(matvec, b, solve, TransposeSolve::By(&solve_transposed))
        })
    })
}

/// Solves one system by elimination with exchanges of neighbouring rows.
fn eliminated(
    dl: &Array,
    d: &Array,
    du: &Array,
    b: &Array,
    options: TridiagonalSolveOptions,
) -> Array {
    let n = d.size();
    // The row that is eliminated with: two elements and the right-hand side.
    let start = (row(d, 0), row(du, 0), row(b, 0));
    let forward = |(pivot, beside, rhs): (Array, Array, Array),
                   next: (Array, Array, Array, Array)| {
        let (low, diagonal, above, next_rhs) = next;
        let is_swapped = gt(abs(&low), abs(&pivot));
        let (top, bottom) = (where_(&is_swapped, &low, &pivot), where_(&is_swapped, &pivot, &low));
        let is_zero = eq(abs(&top), 0.0);
        let factor = where_(&is_zero, 0.0, bottom / where_(&is_zero, 1.0, &top));
        // The pivot row, and the other one after its elimination.
        let top_beside = where_(&is_swapped, &diagonal, &beside);
        let top_beyond = where_(&is_swapped, &above, 0.0);
        let top_rhs = where_(&is_swapped, &next_rhs, &rhs);
        let low_pivot = where_(&is_swapped, &beside, &diagonal) - &factor * &top_beside;
        let low_beside = where_(&is_swapped, 0.0, &above) - &factor * &top_beyond;
        let low_rhs = where_(&is_swapped, &rhs, &next_rhs) - &factor * &top_rhs;
        ((low_pivot, low_beside, low_rhs), (top, top_beside, top_beyond, top_rhs))
    };
    let tail = |x: &Array| slice_in_dim(x, 1, n as isize, 1, 0);
    let (last, rows) = scan(forward, start, (tail(dl), tail(d), tail(du), tail(b)));
    let (mut pivots, beside, beyond, rhs) = rows;
    let mut last_pivot = last.0;
    if options.perturb_singular {
        let largest = |x: &Array| reduce_max(&abs(x), &[0]);
        let mut bound = abs(&last_pivot);
        if n > 1 {
            bound = maximum(bound, maximum(largest(&pivots), largest(&beside)));
        }
        let least = where_(eq(&bound, 0.0), 1.0, bound) * d.dtype().real().epsilon();
        let moved = |x: &Array| where_(lt(abs(x), &least), &least, x).astype(d.dtype());
        (pivots, last_pivot) = (moved(&pivots), moved(&last_pivot));
    }
    let end = &last.2 / &last_pivot;
    let backward = |(x1, x2): (Array, Array), line: (Array, Array, Array, Array)| {
        let (pivot, beside, beyond, rhs) = line;
        let x = (rhs - beside * &x1 - beyond * x2) / pivot;
        ((x.clone(), x1), x)
    };
    let options = ScanOptions::default().reverse(true);
    let start = (end.clone(), zeros_like(&end));
    let (_, rest) = scan_with(backward, start, (pivots, beside, beyond, rhs), options);
    concatenate([&rest, &end.expand_dims(0)], 0)
}

/// Returns eigenvalues, increasing, and eigenvectors of the Hermitian tridiagonal matrix with
/// diagonal `d`, `[n]`, and `e`, `[n − 1]`, above it. The imaginary part of `d` is ignored.
///
/// Eigenvectors are computed from the dense matrix, in `O(n³)`. Values and vectors have derivatives
/// where all eigenvalues differ.
///
/// Throws `Op` if the shapes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let w = linalg::eigvalsh_tridiagonal(&array![2.0, 2.0], &array![1.0]);
/// assert!(allclose(&w, array![1.0, 3.0]).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eigh_tridiagonal(d: &Array, e: &Array) -> EighResult {
    Loc::caller().scope(|| {
        let [d, e] = checked(d, e);
        eigh(&hermitian(&d, &e))
    })
}

/// Returns the eigenvalues with the given indices, in increasing order, and their eigenvectors. See
/// [`eigh_tridiagonal`].
///
/// Throws `Op` (value) for indices that the matrix does not have.
#[doc(alias = "select_range")]
#[track_caller]
pub fn eigh_tridiagonal_range(d: &Array, e: &Array, range: Range<usize>) -> EighResult {
    Loc::caller().scope(|| {
        expect_range(d, &range);
        let EighResult { eigenvalues, eigenvectors } = eigh_tridiagonal(d, e);
        let (start, end) = (range.start as isize, range.end as isize);
        EighResult {
            eigenvalues: slice_in_dim(&eigenvalues, start, end, 1, -1),
            eigenvectors: slice_in_dim(&eigenvectors, start, end, 1, -1),
        }
    })
}

#[track_caller]
fn expect_range(d: &Array, range: &Range<usize>) {
    if range.start > range.end || range.end > d.size() {
        let message = format!("a matrix of {} rows has no eigenvalues {range:?}", d.size());
        throw_operands("eigh_tridiagonal", RuleError::value(message), &[d]);
    }
}

/// Converts the diagonals to floats of one dtype and checks their shapes.
#[track_caller]
fn checked(d: &Array, e: &Array) -> [Array; 2] {
    let [d, e] = same_inexact([d, e]);
    expect_decomposable("eigh_tridiagonal", &d);
    if d.rank() != 1 || e.rank() != 1 || e.size() + 1 != d.size() {
        let message = format!("needs diagonals [n] and [n - 1], got {} and {}", d.aval(), e.aval());
        throw_operands("eigh_tridiagonal", RuleError::shape(message), &[&d, &e]);
    }
    [d, e]
}

/// Returns the dense Hermitian matrix.
fn hermitian(d: &Array, e: &Array) -> Array {
    let zero = zeros(([1], d.dtype()));
    let above = concatenate([e, &zero], 0);
    let below = concatenate([&zero, &conj(e)], 0);
    dense(&below, &real(d).astype(d.dtype()), &above)
}

/// Returns the eigenvalues of the matrix of [`eigh_tridiagonal`], increasing, by bisection, in
/// `O(n)` steps over all of them at once. Throws as [`eigh_tridiagonal`].
#[doc(alias = "eigvals_only")]
#[track_caller]
pub fn eigvalsh_tridiagonal(d: &Array, e: &Array) -> Array {
    let n = d.size();
    Loc::caller().scope(|| eigvalsh_tridiagonal_range(d, e, 0..n))
}

/// Returns the eigenvalues with the given indices, in increasing order. See
/// [`eigvalsh_tridiagonal`].
///
/// Throws `Op` (value) for indices that the matrix does not have.
#[track_caller]
pub fn eigvalsh_tridiagonal_range(d: &Array, e: &Array, range: Range<usize>) -> Array {
    Loc::caller().scope(|| {
        let [d, e] = checked(d, e);
        expect_range(&d, &range);
        let wanted = range.clone();
        let f = move |(d, e): &(Array, Array)| bisected(&real(d), &abs(e), wanted.clone());
        let rule = move |(d, e): &(Array, Array), (dd, de): &(Array, Array)| {
            // The derivative of an eigenvalue is the quadratic form of its eigenvector.
            let v = eigh_tridiagonal_range(d, e, range.clone()).eigenvectors;
            let change = hermitian(dd, de);
            let dw = real((conj(&v) * change.matmul(&v)).sum_axes(0));
            (bisected(&real(d), &abs(e), range.clone()), dw)
        };
        custom_jvp(f, rule)(&(d, e))
    })
}

/// Bisects intervals that contain one eigenvalue each, by the number of negative pivots of the
/// shifted matrix (Sturm's theorem).
///
/// Reference: Barth, Martin and Wilkinson, "Calculation of the eigenvalues of a symmetric
/// tridiagonal matrix by the method of bisection" (1967).
fn bisected(d: &Array, e: &Array, range: Range<usize>) -> Array {
    let (n, dtype) = (d.size(), d.dtype());
    if n < 2 || range.is_empty() {
        return slice_in_dim(d, range.start as isize, range.end as isize, 1, 0);
    }
    let zero = zeros(([1], dtype));
    let squares = concatenate([&zero, &(e * e)], 0);
    let radius = concatenate([&zero, e], 0) + concatenate([e, &zero], 0);
    // Gershgorin's bounds, widened by rounding errors.
    let (low, high) = ((d - &radius).min(), (d + &radius).max());
    let slack = maximum(abs(&low), abs(&high)) * (2.0 * n as f64 * dtype.epsilon());
    let tiny = maximum(squares.max(), 1.0) * smallest_normal(dtype);
    let count = range.len();
    let target = iota(DType::I32, count) + range.start as i32;
    let spread = |x: &Array| broadcast_to(x, [count]);
    let below = |x: &Array| {
        let step = |(pivot, n_negative): (Array, Array), (d, square): (Array, Array)| {
            let next = d - x - square / pivot;
            let next = where_(lt(abs(&next), &tiny), -&tiny, next);
            let n_negative = n_negative + lt(&next, 0.0).astype(DType::I32);
            ((next, n_negative), ())
        };
        let start = (ones(([count], dtype)), zeros(([count], DType::I32)));
        scan(step, start, (d.clone(), squares.clone())).0.1
    };
    let halve = |_: Array, (low, high): (Array, Array)| {
        let middle = (&low + &high) * 0.5;
        let is_above = gt(below(&middle), &target);
        (where_(&is_above, &low, &middle), where_(&is_above, &middle, &high))
    };
    // Each step yields one bit of the mantissa.
    let n_bits = if dtype == DType::F64 { 60 } else { 30 };
    let start = (spread(&(low - &slack)), spread(&(high + &slack)));
    let (low, high) = fori_loop(0, n_bits, halve, start);
    (low + high) * 0.5
}

fn smallest_normal(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }
}

/// Returns the numbers of diagonals below and above the main one that are not zero, `i32[…]` each,
/// for `a`, `[…, m, n]`.
///
/// Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn bandwidth(a: &Array) -> (Array, Array) {
    Loc::caller().scope(|| {
        if a.rank() < 2 {
            let error = RuleError::shape(format!("needs matrices, got {}", a.aval()));
            throw_operands("bandwidth", error, &[a]);
        }
        let furthest = |distance: Array| {
            let distance = where_(ne(a, 0), distance, 0);
            distance.max_axes([-2, -1]).maximum(0)
        };
        let below = index_mask(sizes(a), |row, column| row - column);
        (furthest(below.clone()), furthest(-below))
    })
}

/// Returns the `x` with `a · x = b` for a band matrix `a` with `lower` diagonals below the main one
/// and `upper` above it. `ab`, `[…, lower + upper + 1, n]`, has element `(i, j)` of `a` in row
/// `upper + i − j` and column `j`, as in SciPy. `b` is `[…, n, k]` or a vector `[n]`.
///
/// A tridiagonal system is solved in `O(n)`, others as dense ones.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn solve_banded((lower, upper): (usize, usize), ab: &Array, b: &Array) -> Array {
    Loc::caller().scope(|| {
        let [ab, b] = same_inexact([ab, b]);
        if ab.rank() < 2 || sizes(&ab).0 != lower + upper + 1 {
            let message = format!(
                "{} diagonals are {} rows, got {}",
                lower + upper + 1,
                lower + upper + 1,
                ab.aval()
            );
            throw_operands("solve_banded", RuleError::shape(message), &[&ab, &b]);
        }
        let n = sizes(&ab).1;
        if (lower, upper) == (1, 1) && n > 1 {
            let line = |k: isize| squeeze(&slice_in_dim(&ab, k, k + 1, 1, -2), &[-2]);
            let (du, d, dl) = (roll(&line(0), -1, -1), line(1), roll(&line(2), 1, -1));
            let is_vector = b.rank() == 1;
            let b = if is_vector { b.expand_dims(-1) } else { b };
            let x = tridiagonal_solve(&dl, &d, &du, &b);
            return if is_vector { squeeze(&x, &[-1]) } else { x };
        }
        let a = over_batches1("(r,n)->(n,n)", &[&ab], |operands| {
            let offset = index_mask((n, n), |row, column| row - column + upper as i32);
            let is_inside = bitwise_and(ge(&offset, 0), le(&offset, (lower + upper) as i32));
            let line = clip(&offset, 0, (lower + upper) as i32);
            where_(is_inside, take_along_axis(&operands[0], &line, 0), 0)
        });
        expect_square("solve_banded", &a);
        oxidax::linalg::solve(&a, &b)
    })
}
