//! Checks and conversions of operands that several modules share.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;

/// Returns the common dtype of the operands. Integers and booleans become `f32`.
#[track_caller]
pub(crate) fn inexact_dtype(operands: &[&Array]) -> DType {
    let dtype = result_type(operands);
    if dtype.is_inexact() { dtype } else { DType::F32 }
}

/// Converts the operands to their common dtype, which is a float or complex one.
#[track_caller]
pub(crate) fn common_inexact<const N: usize>(operands: [&Array; N]) -> [Array; N] {
    let dtype = inexact_dtype(&operands);
    operands.map(|x| x.astype(dtype))
}

/// Throws the error of a shape that does not fit.
#[track_caller]
pub(crate) fn throw_shape(name: &str, message: String, operands: &[&Array]) -> ! {
    throw_operands(name, RuleError::shape(message), operands)
}

/// Throws the error of a value that does not fit.
#[track_caller]
pub(crate) fn throw_value(name: &str, message: String, operands: &[&Array]) -> ! {
    throw_operands(name, RuleError::value(message), operands)
}

/// Returns the axis that `axis` counts, from the end if negative.
#[track_caller]
pub(crate) fn axis_of(name: &str, axis: isize, x: &Array) -> usize {
    let rank = x.rank() as isize;
    let counted = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&counted) {
        let message = format!("axis {axis} is out of range for an array of rank {rank}");
        throw_shape(name, message, &[x]);
    }
    counted as usize
}

/// Returns `values` as a constant vector of the dtype.
#[track_caller]
pub(crate) fn constant_vector(values: &[f64], dtype: DType) -> Array {
    let array = if [DType::F64, DType::C128].contains(&dtype) {
        Array::from_slice(values, [values.len()])
    } else {
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Array::from_slice(&narrow, [values.len()])
    };
    array.unwrap_or_else(|error| oxidax::core::throw(error)).astype(dtype)
}

/// Returns `0, 1, …, n - 1` in the dtype.
#[track_caller]
pub(crate) fn counting(n: usize, dtype: DType) -> Array {
    iota(DType::I32, n).astype(dtype)
}

/// Returns the elements `range` of `x` along `axis`.
#[track_caller]
pub(crate) fn part(x: &Array, range: std::ops::Range<usize>, axis: usize) -> Array {
    slice_in_dim(x, range.start as isize, range.end as isize, 1, axis as isize)
}

/// Pads one axis of `x` with zeros behind, or cuts it off, to the size `n`.
#[track_caller]
pub(crate) fn resized(x: &Array, n: usize, axis: usize) -> Array {
    let size = x.shape()[axis];
    if n <= size {
        return if n == size { x.clone() } else { part(x, 0..n, axis) };
    }
    let mut widths = vec![(0, 0); x.rank()];
    widths[axis].1 = n - size;
    pad(x, widths)
}
