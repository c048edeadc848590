//! Matrices built from vectors or from other matrices.

use super::support::{index_mask, inexact, same_dtype};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::ops::ConvolveMode;
use oxidax::prelude::*;

/// Throws unless the last axis of `x` has at least `least` elements.
#[track_caller]
fn expect_vector(name: &str, x: &Array, least: usize) {
    let n = x.shape().last().copied();
    if n.is_none_or(|n| n < least) {
        let message = format!("needs vectors of at least {least} elements, got {}", x.aval());
        throw_operands(name, RuleError::shape(message), &[x]);
    }
}

/// Returns `x[…, index]` for a matrix of indices: `[…, n]` to `[…, rows, columns]`.
fn arranged(x: &Array, size: (usize, usize), index: impl Fn(&Array, &Array) -> Array) -> Array {
    take(x, &index_mask(size, index), -1)
}

/// Joins `c` and the elements of `r` after the first, along the last axis, with common batch axes.
#[track_caller]
fn joined(name: &str, c: &Array, r: &Array) -> Array {
    expect_vector(name, c, 1);
    expect_vector(name, r, 1);
    let [c, r] = same_dtype([c, r]);
    let batch = |x: &Array| -> Shape { x.shape()[..x.rank() - 1].into() };
    let Some(joint) = batch(&c).broadcast(&batch(&r)) else {
        let message = format!("batch axes {} and {} do not broadcast", batch(&c), batch(&r));
        throw_operands(name, RuleError::shape(message), &[&c, &r]);
    };
    let n = r.shape()[r.rank() - 1] as isize;
    let rest = slice_in_dim(&r, 1, n, 1, -1);
    let to = |x: &Array| broadcast_to(x, joint.insert(joint.rank(), x.shape()[x.rank() - 1]));
    concatenate([to(&c), to(&rest)], -1)
}

/// Returns the Toeplitz matrix with first column `c` and first row `conj(c)`: `[…, n]` to
/// `[…, n, n]`.
///
/// Throws `Op` (shape) for an empty vector or a scalar.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let t = linalg::toeplitz(&array![1.0, 2.0, 3.0]);
/// assert_eq!(t.to_vec::<f32>()?, [1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn toeplitz(c: &Array) -> Array {
    toeplitz_with(c, &conj(c))
}

/// Returns the Toeplitz matrix with first column `c` and first row `r`: `[…, m]` and `[…, n]` to
/// `[…, m, n]`. The first element of `r` is ignored. Throws as [`toeplitz`].
#[doc(alias = "toeplitz")]
#[track_caller]
pub fn toeplitz_with(c: &Array, r: &Array) -> Array {
    Loc::caller().scope(|| {
        expect_vector("toeplitz", c, 1);
        expect_vector("toeplitz", r, 1);
        let (m, n) = (c.shape()[c.rank() - 1], r.shape()[r.rank() - 1]);
        let elements = joined("toeplitz", &flip(c, -1), r);
        arranged(&elements, (m, n), |row, column| column - row + (m as i32 - 1))
    })
}

/// Returns the Hankel matrix with first column `c` and zeros below its antidiagonal: `[…, n]` to
/// `[…, n, n]`.
///
/// Throws `Op` (shape) for an empty vector or a scalar.
#[track_caller]
pub fn hankel(c: &Array) -> Array {
    hankel_with(c, &zeros_like(c))
}

/// Returns the Hankel matrix with first column `c` and last row `r`: `[…, m]` and `[…, n]` to
/// `[…, m, n]`. The first element of `r` is ignored. Throws as [`hankel`].
#[doc(alias = "hankel")]
#[track_caller]
pub fn hankel_with(c: &Array, r: &Array) -> Array {
    Loc::caller().scope(|| {
        let elements = joined("hankel", c, r);
        let (m, n) = (c.shape()[c.rank() - 1], r.shape()[r.rank() - 1]);
        arranged(&elements, (m, n), |row, column| row + column)
    })
}

/// Returns the circulant matrix with first column `c`: `[…, n]` to `[…, n, n]`.
///
/// Throws `Op` (shape) for an empty vector or a scalar.
#[track_caller]
pub fn circulant(c: &Array) -> Array {
    Loc::caller().scope(|| {
        expect_vector("circulant", c, 1);
        let n = c.shape()[c.rank() - 1];
        arranged(c, (n, n), |row, column| remainder(row - column, n as i32))
    })
}

/// Returns the Leslie matrix of a population with fecundities `f`, `[…, n]`, and survival rates
/// `s`, `[…, n − 1]`: `f` in the first row and `s` on the subdiagonal.
///
/// Throws `Op` (shape) if `f` has fewer than two elements, or `s` not one less than `f`.
///
/// Reference: Leslie, "On the use of matrices in certain population mathematics" (1945).
#[track_caller]
pub fn leslie(f: &Array, s: &Array) -> Array {
    Loc::caller().scope(|| {
        expect_vector("leslie", f, 2);
        let n = f.shape()[f.rank() - 1];
        if s.shape().last() != Some(&(n - 1)) {
            let message =
                format!("{n} fecundities need {} survival rates, got {}", n - 1, s.aval());
            throw_operands("leslie", RuleError::shape(message), &[f, s]);
        }
        let [f, s] = same_dtype([f, s]);
        let last = slice_in_dim(&f, 0, 1, 1, -1);
        let batch = s.shape().remove(s.rank() - 1);
        let joint = last.shape().remove(last.rank() - 1).broadcast(&batch);
        let Some(joint) = joint else {
            let error = RuleError::shape("the batch axes do not broadcast");
            throw_operands("leslie", error, &[&f, &s]);
        };
        let s = broadcast_to(&s, joint.insert(joint.rank(), n - 1));
        let padding = zeros((joint.insert(joint.rank(), 1), s.dtype()));
        let below = concatenate([s, padding], -1).expand_dims(-2);
        let is_below = index_mask((n, n), |row, column| eq(row, column + 1));
        let is_first = index_mask((n, n), |row, _| eq(row, 0));
        where_(is_first, f.expand_dims(-2), where_(is_below, below, 0))
    })
}

/// Returns the companion matrix of the polynomial with coefficients `a`, the highest power first:
/// `[…, n]` to `[…, n − 1, n − 1]`. Its eigenvalues are the roots.
///
/// Throws `Op` (shape) for fewer than two coefficients.
#[track_caller]
pub fn companion(a: &Array) -> Array {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_vector("companion", &a, 2);
        let n = a.shape()[a.rank() - 1];
        let first = slice_in_dim(&a, 0, 1, 1, -1);
        let top = (-slice_in_dim(&a, 1, n as isize, 1, -1) / first).expand_dims(-2);
        let ones = index_mask((n - 1, n - 1), |row, column| eq(row, column + 1)).astype(a.dtype());
        where_(index_mask((n - 1, n - 1), |row, _| eq(row, 0)), top, ones)
    })
}

/// Returns the Fiedler matrix of `a`, with elements `|aᵢ − aⱼ|`: `[…, n]` to `[…, n, n]`.
///
/// Throws `Op` (shape) for a scalar.
#[track_caller]
pub fn fiedler(a: &Array) -> Array {
    expect_vector("fiedler", a, 0);
    Loc::caller().scope(|| abs(a.expand_dims(-1) - a.expand_dims(-2)))
}

/// Returns Fiedler's companion matrix of the polynomial with coefficients `a`, the highest power
/// first: `[…, n]` to `[…, n − 1, n − 1]`. It has five diagonals, and its eigenvalues are the
/// roots.
///
/// Throws `Op` (shape) for an empty vector or a scalar.
///
/// Reference: Fiedler, "A note on companion matrices", Linear Algebra Appl. 372 (2003).
#[track_caller]
pub fn fiedler_companion(a: &Array) -> Array {
    Loc::caller().scope(|| {
        let a = inexact(a);
        expect_vector("fiedler_companion", &a, 1);
        let n = a.shape()[a.rank() - 1] - 1;
        // The coefficients of the polynomial whose first coefficient is 1, with the other sign.
        let monic = -(&a / slice_in_dim(&a, 0, 1, 1, -1));
        if n == 0 {
            let batch = a.shape().remove(a.rank() - 1);
            return zeros((batch.insert(batch.rank(), 0).insert(batch.rank(), 0), a.dtype()));
        }
        // Row i holds coefficients i + 1 and i + 2 if i is even, and none otherwise, except that
        // the first row begins with coefficient 1. Ones connect rows at distance two.
        let from = |offset: i32| arranged(&monic, (n, n), |row, _| minimum(row + offset, n as i32));
        let mask = |relation: &dyn Fn(&Array, &Array) -> Array| index_mask((n, n), relation);
        let is_even = mask(&|row, _| eq(rem(row, 2), 0));
        let is_first = mask(&|row, column| eq(row + column, 0));
        let after = mask(&|row, column| eq(column, row + 1));
        let before = mask(&|row, column| eq(column, row - 1));
        let second = mask(&|row, column| bitwise_and(eq(row, 1), eq(column, 0)));
        let even_one = bitwise_and(&is_even, mask(&|row, column| eq(column, row + 2)));
        let odd_one = bitwise_and(bitwise_not(&is_even), mask(&|row, column| eq(column, row - 2)));
        let ones = bitwise_or(second, bitwise_or(even_one, odd_one)).astype(a.dtype());
        let takes_second = bitwise_and(&is_even, after);
        let takes_first = bitwise_or(is_first, bitwise_and(&is_even, before));
        where_(takes_second, from(2), where_(takes_first, from(1), ones))
    })
}

/// Returns the matrix `t` with `t · x = convolve(a, x, mode)` for vectors `x` of `n` elements:
/// `[…, m]` to `[…, rows, n]`, where `rows` is the length of the convolution.
///
/// Throws `Op` (shape) for an empty vector, and `Op` (value) if `n` is 0.
#[track_caller]
pub fn convolution_matrix(a: &Array, n: usize, mode: ConvolveMode) -> Array {
    Loc::caller().scope(|| {
        expect_vector("convolution_matrix", a, 1);
        if n == 0 {
            let error = RuleError::value("n must be at least 1, got 0");
            throw_operands("convolution_matrix", error, &[a]);
        }
        let m = a.shape()[a.rank() - 1];
        let overlap = m.min(n) - 1;
        // The rows that are cut off in front and behind.
        let (before, after) = match mode {
            ConvolveMode::Full => (0, 0),
            ConvolveMode::Same => (overlap / 2, overlap - overlap / 2),
            ConvolveMode::Valid => (overlap, overlap),
        };
        let size = (m + n - 1 - before - after, n);
        let tap = |row: &Array, column: &Array| row - column + before as i32;
        let inside = |row: &Array, column: &Array| {
            let tap = tap(row, column);
            bitwise_and(ge(&tap, 0), lt(&tap, m as i32))
        };
        let taps = arranged(a, size, |row, column| clip(&tap(row, column), 0, m as i32 - 1));
        where_(index_mask(size, inside), taps, 0)
    })
}

/// Returns the matrix with the given matrices on its diagonal and zeros elsewhere. A vector counts
/// as one row, a scalar as one element. Without matrices the result is `f32[1, 0]`.
///
/// Throws `Op` (shape) for an array of rank above 2.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let m = linalg::block_diag([eye(2), array![[3.0, 4.0]]]);
/// assert_eq!(m.shape().dims(), [3, 4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn block_diag<F>(matrices: impl ArrayList<F>) -> Array {
    let matrices = matrices.into_arrays();
    Loc::caller().scope(|| {
        if matrices.is_empty() {
            return zeros([1, 0]);
        }
        if let Some(wrong) = matrices.iter().find(|x| x.rank() > 2) {
            let message = format!("takes arrays of rank 2 and less, got {}", wrong.aval());
            throw_operands("block_diag", RuleError::shape(message), &[wrong]);
        }
        let dtype = result_type(&matrices);
        let blocks: Vec<Array> = matrices
            .iter()
            .map(|x| {
                let columns = x.shape().last().copied().unwrap_or(1);
                let rows = if x.rank() == 2 { x.shape()[0] } else { 1 };
                reshape(&x.astype(dtype), [rows, columns])
            })
            .collect();
        let total: usize = blocks.iter().map(|x| x.shape()[1]).sum();
        let mut before = 0;
        let rows = blocks.iter().map(|x| {
            let [rows, columns] = x.dims();
            let left = zeros(([rows, before], dtype));
            before += columns;
            concatenate([&left, x, &zeros(([rows, total - before], dtype))], 1)
        });
        concatenate(rows.collect::<Vec<_>>(), 0)
    })
}
