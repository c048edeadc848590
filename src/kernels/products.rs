//! Functions for the bodies of matrix products.

use crate::primitives::{DotGeneral, broadcasted_iota, dot_general, full_like, lt, where_};
use crate::{Array, DType};

/// Returns a block size along an axis: the whole axis if it is not longer than `preferred`.
pub(super) fn block_size(axis: usize, preferred: usize) -> usize {
    axis.min(preferred).max(1)
}

/// Returns the dtype of sums of products.
pub(super) fn sum_dtype(dtype: DType) -> DType {
    if dtype.is_integer() {
        DType::I32
    } else if dtype.bits() < 32 {
        DType::F32
    } else {
        dtype
    }
}

/// Returns the product of two matrices, summed over an axis of each, in the dtype of sums.
pub(super) fn dot(lhs: &Array, lhs_axis: usize, rhs: &Array, rhs_axis: usize) -> Array {
    let numbers = DotGeneral {
        lhs_contracting: vec![lhs_axis],
        rhs_contracting: vec![rhs_axis],
        preferred_element_type: Some(sum_dtype(lhs.dtype())),
        ..DotGeneral::default()
    };
    dot_general(lhs, rhs, numbers)
}

/// Replaces the elements of a block from index `end` on along an axis by zeros.
pub(super) fn zero_from(block: &Array, axis: usize, end: &Array) -> Array {
    let position = broadcasted_iota(DType::I32, block.shape().clone(), axis);
    where_(lt(&position, end), block, full_like(block, 0))
}
