//! Matrices with a given diagonal, and matrices of powers.

use super::super::{Index, stack};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    ArrayLike, PaddingDim, broadcast_in_dim, broadcasted_iota as iota, eq, full_like, mul, pad,
    reshape, sub, where_, zeros_like,
};

/// A vector `[n]` as diagonal `offset` of a square matrix that is zero elsewhere, `[n + |offset|, …]`;
/// of a matrix its diagonal `offset`. 0 is the main one, positive ones lie above it.
///
/// Throws `Op` (shape) for arrays of another rank; [`diagonal`](super::super::diagonal) takes batches.
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
        2 => super::super::diagonal(x, offset),
        rank => {
            let message = format!("takes a vector or a matrix, got rank {rank}");
            trace::throw_operands("diag", RuleError::shape(message), &[x])
        }
    }
}

#[track_caller]
fn from_vector(x: &Array, offset: isize) -> Array {
    let more = offset.unsigned_abs();
    let n = x.size() + more;
    // The row names the element above the diagonal, the column below it.
    let (axis, low) = if offset < 0 { (1, 0) } else { (0, 0) };
    let long = pad(x, 0, &[PaddingDim { low, high: more as isize, interior: 0 }]);
    let spread = broadcast_in_dim(&long, [n, n], &[axis]);
    let (row, column) = (iota(DType::I32, [n, n], 0), iota(DType::I32, [n, n], 1));
    let mask = eq(sub(&column, &row), offset as i32);
    where_(&mask, &spread, zeros_like(&spread))
}

/// The elements of `x`, row-major, as diagonal `offset` of a square matrix that is zero elsewhere.
#[track_caller]
pub fn diagflat(x: &Array, offset: isize) -> Array {
    from_vector(&reshape(x, [x.size()]), offset)
}

/// `x` with `values`, one number or a vector, on its main diagonal, the elements of which all indices
/// are equal. Values take the dtype of `x`.
///
/// Throws `Op` (shape) for arrays of rank below 2, for more than two axes of different sizes, and for
/// values that do not fit.
#[track_caller]
pub fn fill_diagonal(x: &Array, values: impl ArrayLike) -> Array {
    let equal = x.shape().windows(2).all(|pair| pair[0] == pair[1]);
    if x.rank() < 2 || x.rank() > 2 && !equal {
        let message = format!("takes a matrix or axes of one size, got {}", x.shape());
        trace::throw_operands("fill_diagonal", RuleError::shape(message), &[x]);
    }
    let n = x.shape().iter().copied().min().unwrap_or(0);
    let position = iota(DType::I32, [n], 0);
    let everywhere: Vec<Index> = (0..x.rank()).map(|_| Index::Array(position.clone())).collect();
    x.at(everywhere).set(values)
}

/// The powers `n - 1, …, 1, 0` of each element of a vector, as columns: `[m] → [m, n]`. Flip the last
/// axis for increasing powers. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn vander(x: &Array, n: usize) -> Array {
    if x.rank() != 1 {
        let message = format!("takes a vector, got rank {}", x.rank());
        trace::throw_operands("vander", RuleError::shape(message), &[x]);
    }
    if n == 0 {
        return crate::primitives::zeros([x.size(), 0], x.dtype());
    }
    let mut powers = vec![full_like(x, 1)];
    for exponent in 1..n {
        powers.push(mul(&powers[exponent - 1], x));
    }
    stack(powers.iter().rev().collect::<Vec<_>>(), -1)
}
