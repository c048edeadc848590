//! Parts of blocks and arithmetic that several kernels share.

use crate::Array;
use crate::DType;
use crate::Tree;
use crate::core::RuleError;
use crate::kernel::{self, RefIndex, ds};
use crate::primitives::{DotGeneral, dot_general};
use std::ops::Range;

/// Divides `0..size` into ranges whose lengths are powers of two up to `largest`, the long ones
/// first.
///
/// A GPU's tensors have such lengths. On a TPU, a part begins at a multiple of 128, unless it is
/// shorter than 128 and follows another one that is.
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

/// Folds over the parts of `0..size`: a loop over parts of `part` indices, a power of two, then the
/// rest in shorter ones. The step takes the index of a part and its length.
pub(super) fn fold_parts<C: Tree>(
    size: usize,
    part: usize,
    step: impl Fn(RefIndex, usize, C) -> C,
    init: C,
) -> C {
    let (count, rest) = (size / part, size % part);
    let value = match count {
        0 => init,
        1 => step(ds(0, part), part, init),
        _ => {
            let of_part = |index: Array, value| step(ds(index * part as i32, part), part, value);
            kernel::fori_loop(0, count as i32, of_part, init)
        }
    };
    let of_rest = |value, range: Range<usize>| {
        step(ds(count * part + range.start, range.len()), range.len(), value)
    };
    powers_of_two(rest, part).into_iter().fold(value, of_rest)
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
