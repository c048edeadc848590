//! Products of blocks.

use crate::core::{Array, DType};
use crate::primitives::{DotGeneral, dot_general};

fn product(x: &Array, y: &Array, contracting: [usize; 2], dtype: DType) -> Array {
    let how = DotGeneral {
        lhs_contracting: vec![contracting[0]],
        rhs_contracting: vec![contracting[1]],
        preferred_element_type: Some(dtype),
        ..DotGeneral::default()
    };
    dot_general(x, y, how)
}

/// Returns `x yᵀ`.
pub(super) fn rows_by_rows(x: &Array, y: &Array, dtype: DType) -> Array {
    product(x, y, [1, 1], dtype)
}

/// Returns `xᵀ y`.
pub(super) fn columns_by_columns(x: &Array, y: &Array, dtype: DType) -> Array {
    product(x, y, [0, 0], dtype)
}

/// Returns `x y`.
pub(super) fn rows_by_columns(x: &Array, y: &Array, dtype: DType) -> Array {
    product(x, y, [1, 0], dtype)
}
