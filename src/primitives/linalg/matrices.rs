//! Matrix operations on the last two axes, for rules of decompositions.

use crate::core::{Array, Aval, DType, RuleResult};
use crate::primitives::{
    DotGeneral, broadcast_in_dim, broadcasted_iota, conj, convert_element_type, dot_general, eq,
    ge, real, transpose, where_,
};
use crate::{ensure_dtype, ensure_shape};

/// Returns the numbers of rows and columns of a stack of matrices.
pub(super) fn sizes(x: &Array) -> (usize, usize) {
    let rank = x.rank();
    (x.shape()[rank - 2], x.shape()[rank - 1])
}

/// Transposes the matrices.
pub(super) fn swapped(x: &Array) -> Array {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(x.rank() - 2, x.rank() - 1);
    transpose(x, &order)
}

/// Transposes and conjugates the matrices.
pub(super) fn adjoint(x: &Array) -> Array {
    conj(swapped(x))
}

/// Multiplies matrices with common batch axes.
pub(super) fn product(x: &Array, y: &Array) -> Array {
    let batch: Vec<usize> = (0..x.rank() - 2).collect();
    let how = DotGeneral {
        lhs_contracting: vec![x.rank() - 1],
        rhs_contracting: vec![y.rank() - 2],
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        precision: [crate::primitives::Precision::Highest; 2],
        ..DotGeneral::default()
    };
    dot_general(x, y, how)
}

fn indices(x: &Array) -> (Array, Array) {
    let rank = x.rank();
    let along = |axis| broadcasted_iota(DType::I32, x.shape().clone(), axis);
    (along(rank - 2), along(rank - 1))
}

/// Returns the elements with `row + offset >= column`, zeros above.
pub(super) fn lower_part(x: &Array, offset: i32) -> Array {
    let (row, column) = indices(x);
    where_(ge(row + offset, column), x, 0)
}

/// Returns the elements with `column - offset >= row`, zeros below.
pub(super) fn upper_part(x: &Array, offset: i32) -> Array {
    let (row, column) = indices(x);
    where_(ge(column - offset, row), x, 0)
}

/// Returns identity matrices of the shape and dtype of `x`.
pub(super) fn identity(x: &Array) -> Array {
    let (row, column) = indices(x);
    convert_element_type(&eq(row, column), x.dtype())
}

/// Returns the diagonals: `[…, m, n]` to `[…, min(m, n)]`.
pub(super) fn diagonal(x: &Array) -> Array {
    let (m, n) = sizes(x);
    let (row, column) = indices(x);
    let masked = where_(eq(row, column), x, 0);
    let rank = x.rank() as isize;
    // The sum is along the longer axis.
    crate::primitives::reduce_sum(&masked, &[if m <= n { rank - 1 } else { rank - 2 }])
}

/// Multiplies each row of `x` by the numbers in `d`: `[…, m, n]` with `[…, m]`.
pub(super) fn as_rows(d: &Array, x: &Array) -> Array {
    let axes: Vec<usize> = (0..x.rank() - 1).collect();
    broadcast_in_dim(d, x.shape().clone(), &axes)
}

/// Returns the Hermitian matrix with the lower triangle of `x`; its diagonal is real.
pub(super) fn hermitian(x: &Array) -> Array {
    let below = lower_part(x, -1);
    let diagonal = convert_element_type(&real(x), x.dtype()) * identity(x);
    &below + adjoint(&below) + diagonal
}

/// Broadcasts numbers per column: `[…, n]` to `[…, m, n]`.
pub(super) fn as_columns(d: &Array, x: &Array) -> Array {
    let mut axes: Vec<usize> = (0..x.rank() - 2).collect();
    axes.push(x.rank() - 1);
    broadcast_in_dim(d, x.shape().clone(), &axes)
}

/// Checks that an operand is a stack of matrices of a dtype that decompositions support.
pub(super) fn expect_matrices(x: &Aval) -> RuleResult<()> {
    ensure_shape!(x.rank() >= 2, "needs a matrix, got {} axes", x.rank());
    ensure_dtype!(
        matches!(x.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128),
        "needs f32, f64, c64 or c128, got {}",
        x.dtype
    );
    Ok(())
}

/// Checks in addition that the matrices are square.
pub(super) fn expect_square(x: &Aval) -> RuleResult<()> {
    expect_matrices(x)?;
    let (m, n) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    ensure_shape!(m == n, "needs square matrices, got {m} by {n}");
    Ok(())
}
