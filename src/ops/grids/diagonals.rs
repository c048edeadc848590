//! Matrices built from their diagonal, and Vandermonde matrices.

use super::super::{DiagonalOptions, Index, diagonal_with, stack};
use crate::core::{Array, DType, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, PaddingDim, arange_step, broadcast_in_dim, broadcasted_iota as iota, eq, full_like,
    lax_pad, mul, reshape, sub, where_, zeros, zeros_like,
};

/// Returns a square matrix with the vector `x`, `[n]`, on diagonal `offset` and zeros elsewhere, of
/// `n + |offset|` rows. For a matrix, returns its diagonal `offset`. 0 is the main diagonal,
/// positive ones are above it.
///
/// Throws `Op` (shape) for arrays of another rank; [`diagonal_with`] takes batches.
///
/// ```
/// use oxidax::prelude::*;
/// let m = eval_shape(|v: Array| diag(&v, 1), Aval::new(DType::F32, [3]))?;
/// assert_eq!(m.aval().to_string(), "f32[4,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn diag(x: &Array, offset: isize) -> Array {
    match x.rank() {
        1 => from_vector(x, offset),
        2 => diagonal_with(x, DiagonalOptions { offset, ..DiagonalOptions::default() }),
        rank => {
            let message = format!("takes a vector or a matrix, got rank {rank}");
            trace::throw_operands("diag", RuleError::shape(message), &[x])
        }
    }
}

#[track_caller]
fn from_vector(x: &Array, offset: isize) -> Array {
    let shift = offset.unsigned_abs();
    let n = x.size() + shift;
    // Above the diagonal an element is found by its row, below it by its column.
    let axis = if offset < 0 { 1 } else { 0 };
    let padded = lax_pad(x, 0, &[PaddingDim { low: 0, high: shift as isize, interior: 0 }]);
    let spread = broadcast_in_dim(&padded, [n, n], &[axis]);
    let (row, column) = (iota(DType::I32, [n, n], 0), iota(DType::I32, [n, n], 1));
    let mask = eq(sub(&column, &row), offset as i32);
    where_(&mask, &spread, zeros_like(&spread))
}

/// Returns a square matrix with the elements of `x`, in row-major order, on diagonal `offset` and
/// zeros elsewhere.
#[track_caller]
pub fn diagflat(x: &Array, offset: isize) -> Array {
    from_vector(&reshape(x, [x.size()]), offset)
}

/// Sets the main diagonal of `x`, the elements whose indices are all equal, to `values`: a number
/// or a vector, converted to the dtype of `x`.
///
/// Throws `Op` (shape) for arrays of rank below 2, for arrays of rank above 2 whose axes differ in
/// size, and for values that do not broadcast.
#[track_caller]
pub fn fill_diagonal(x: &Array, values: impl ArrayLike) -> Array {
    fill_diagonal_with(x, values, FillDiagonalOptions::default())
}

/// Options of [`fill_diagonal_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillDiagonalOptions {
    /// Begins the diagonal again below a matrix of more rows than columns, after one row. The
    /// default is false.
    pub wrap: bool,
}

/// Sets the main diagonal, as [`fill_diagonal`], once or again below it.
#[track_caller]
pub fn fill_diagonal_with(
    x: &Array,
    values: impl ArrayLike,
    options: FillDiagonalOptions,
) -> Array {
    Loc::caller().scope(|| {
        let equal_sizes = x.shape().windows(2).all(|pair| pair[0] == pair[1]);
        if x.rank() < 2 || x.rank() > 2 && !equal_sizes {
            let message = format!("takes a matrix or axes of one size, got {}", x.shape());
            trace::throw_operands("fill_diagonal", RuleError::shape(message), &[x]);
        }
        let n = x.shape().iter().copied().min().unwrap_or(0);
        if options.wrap && x.rank() == 2 && x.shape()[0] > n {
            // Row-major positions at a distance of one row and one column.
            let step = x.shape()[1] as i32 + 1;
            let flat = reshape(x, [x.size()]);
            let at = arange_step(0, x.size() as i32, step);
            return reshape(&flat.at([Index::Array(at)]).set(values), x.shape());
        }
        let index = iota(DType::I32, [n], 0);
        let indices = vec![Index::Array(index); x.rank()];
        x.at(indices).set(values)
    })
}

/// Returns the powers `n - 1, …, 1, 0` of each element of a vector, as columns: `[m] → [m, n]`.
/// [`vander_with`] orders them. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn vander(x: &Array, n: usize) -> Array {
    vander_with(x, n, VanderOptions::default())
}

/// Options of [`vander_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VanderOptions {
    /// Orders the powers `0, 1, …`. The default is false.
    pub increasing: bool,
}

/// Returns powers of the elements of a vector, as [`vander`], in either order.
#[track_caller]
pub fn vander_with(x: &Array, n: usize, options: VanderOptions) -> Array {
    if x.rank() != 1 {
        let message = format!("takes a vector, got rank {}", x.rank());
        trace::throw_operands("vander", RuleError::shape(message), &[x]);
    }
    if n == 0 {
        return zeros(([x.size(), 0], x.dtype()));
    }
    let mut powers = vec![full_like(x, 1)];
    for exponent in 1..n {
        powers.push(mul(&powers[exponent - 1], x));
    }
    if !options.increasing {
        powers.reverse();
    }
    stack(&powers, -1)
}
