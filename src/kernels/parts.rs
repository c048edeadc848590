//! Parts of blocks and arithmetic that several kernels share.

use crate::Array;
use crate::DType;
use crate::core::RuleError;
use crate::primitives::{DotGeneral, dot_general};
use std::ops::Range;

/// Divides `0..size` into ranges whose lengths are powers of two up to `largest`, the long ones
/// first.
///
/// A GPU's tensors have such lengths. A part that a TPU loads begins at a multiple of 128 as long as
/// parts before it are at least so long.
pub(super) fn powers_of_two(size: usize, largest: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut length) = (0, largest.next_power_of_two());
    while start < size {
        while length > size - start {
            length /= 2;
        }
        parts.push(start..start + length);
        start += length;
    }
    parts
}

/// Returns the product of two matrices, summed in `f32` over axis `axes.0` of `lhs` and `axes.1`
/// of `rhs`.
#[track_caller]
pub(super) fn product(lhs: &Array, rhs: &Array, axes: (usize, usize)) -> Array {
    let numbers = DotGeneral {
        lhs_contracting: vec![axes.0],
        rhs_contracting: vec![axes.1],
        preferred_element_type: Some(DType::F32),
        ..DotGeneral::default()
    };
    dot_general(lhs, rhs, numbers)
}

/// Checks that an operand has a dtype that kernels compute with.
pub(super) fn check_dtype(name: &str, x: &Array) -> Result<(), RuleError> {
    if [DType::BF16, DType::F16, DType::F32].contains(&x.dtype()) {
        return Ok(());
    }
    let message = format!("{name} must be bf16, f16 or f32, got {}", x.aval());
    Err(RuleError::dtype(message).help("convert it with `astype`"))
}
