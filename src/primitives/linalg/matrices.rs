//! What rules of decompositions are written with: products, transposes and triangles of the last two axes.

use crate::core::{Array, Aval, DType, RuleResult};
use crate::primitives::{
    DotGeneral, broadcast_in_dim, broadcasted_iota, conj, convert_element_type, dot_general, eq,
    ge, real, transpose, where_,
};
use crate::{ensure_dtype, ensure_shape};

/// Rows and columns of a stack of matrices.
pub(super) fn sizes(x: &Array) -> (usize, usize) {
    let rank = x.rank();
    (x.shape()[rank - 2], x.shape()[rank - 1])
}

/// The matrices transposed.
pub(super) fn swapped(x: &Array) -> Array {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(x.rank() - 2, x.rank() - 1);
    transpose(x, &order)
}

/// The matrices transposed and conjugated.
pub(super) fn adjoint(x: &Array) -> Array {
    conj(&swapped(x))
}

/// Products of matrices, one for each of a common batch.
pub(super) fn product(x: &Array, y: &Array) -> Array {
    let batch: Vec<usize> = (0..x.rank() - 2).collect();
    let how = DotGeneral {
        lhs_contracting: vec![x.rank() - 1],
        rhs_contracting: vec![y.rank() - 2],
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        precision: [crate::primitives::Precision::Highest; 2],
        preferred_element_type: None,
    };
    dot_general(x, y, how)
}

fn indices(x: &Array) -> (Array, Array) {
    let rank = x.rank();
    let along = |axis| broadcasted_iota(DType::I32, x.shape().clone(), axis);
    (along(rank - 2), along(rank - 1))
}

/// The elements with `row + offset >= column`, zeros above.
pub(super) fn lower_part(x: &Array, offset: i32) -> Array {
    let (row, column) = indices(x);
    where_(&ge(row + offset, column), x, 0)
}

/// The elements with `column - offset >= row`, zeros below.
pub(super) fn upper_part(x: &Array, offset: i32) -> Array {
    let (row, column) = indices(x);
    where_(&ge(column - offset, row), x, 0)
}

/// Ones on the diagonal, zeros elsewhere, like `x`.
pub(super) fn identity(x: &Array) -> Array {
    let (row, column) = indices(x);
    convert_element_type(&eq(row, column), x.dtype())
}

/// The diagonals: `[…, m, n]` to `[…, min(m, n)]`.
pub(super) fn diagonal(x: &Array) -> Array {
    let (m, n) = sizes(x);
    let (row, column) = indices(x);
    let kept = where_(&eq(row, column), x, 0);
    let rank = x.rank() as isize;
    // The shorter axis survives the sum along the longer one.
    crate::primitives::reduce_sum(&kept, &[if m <= n { rank - 1 } else { rank - 2 }])
}

/// Each row of `x` times the numbers of `d`: `[…, m, n]` with `[…, m]`.
pub(super) fn as_rows(d: &Array, x: &Array) -> Array {
    let axes: Vec<usize> = (0..x.rank() - 1).collect();
    broadcast_in_dim(d, x.shape().clone(), &axes)
}

/// The Hermitian matrix that the lower triangle of `x` stands for; its diagonal is real.
pub(super) fn hermitian(x: &Array) -> Array {
    let below = lower_part(x, -1);
    let diagonal = convert_element_type(&real(x), x.dtype()) * identity(x);
    &below + adjoint(&below) + diagonal
}

/// Numbers for each column of `x`: `[…, n]` spread over `[…, m, n]`.
pub(super) fn as_columns(d: &Array, x: &Array) -> Array {
    let mut axes: Vec<usize> = (0..x.rank() - 2).collect();
    axes.push(x.rank() - 1);
    broadcast_in_dim(d, x.shape().clone(), &axes)
}

/// Whether an operand is a stack of matrices of a dtype that decompositions take.
pub(super) fn expect_matrices(x: &Aval) -> RuleResult<()> {
    ensure_shape!(x.rank() >= 2, "needs a matrix, got {} axes", x.rank());
    ensure_dtype!(
        matches!(x.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128),
        "needs f32, f64, c64 or c128, got {}",
        x.dtype
    );
    Ok(())
}

/// Whether the matrices are square besides.
pub(super) fn expect_square(x: &Aval) -> RuleResult<()> {
    expect_matrices(x)?;
    let (m, n) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    ensure_shape!(m == n, "needs square matrices, got {m} by {n}");
    Ok(())
}
