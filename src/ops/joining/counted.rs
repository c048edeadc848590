//! Elements repeated by counts, and shifted along several axes.

use super::super::axes::Axes;
use super::super::axis_slice::expect_axis;
use super::super::take;
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    Combiner, GatherScatterMode, ScatterDimensionNumbers, broadcast_to, concatenate,
    convert_element_type, cumsum, dynamic_slice_in_dim, full_like, ones_like, reshape, scatter,
    slice_in_dim, sub, zeros,
};

/// Numbers of repetitions of [`repeat`](super::repeat): one for all elements, or one for each slice
/// along the axis.
#[derive(Clone, Debug)]
pub enum Repeats {
    /// One number for all elements.
    Count(usize),
    /// Integers, `[n]` for an axis of `n` slices, or one for all slices.
    Counts(Array),
}

impl From<usize> for Repeats {
    fn from(count: usize) -> Repeats {
        Repeats::Count(count)
    }
}

impl From<&Array> for Repeats {
    fn from(counts: &Array) -> Repeats {
        Repeats::Counts(counts.clone())
    }
}

impl From<Array> for Repeats {
    fn from(counts: Array) -> Repeats {
        Repeats::Counts(counts)
    }
}

impl<const N: usize> From<[i32; N]> for Repeats {
    fn from(counts: [i32; N]) -> Repeats {
        Repeats::Counts(Array::from(counts.to_vec()))
    }
}

/// Options of [`repeat_with`](super::repeat_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepeatOptions {
    /// The size of the axis of the result, which traced counts require. Further slices are dropped,
    /// and missing ones repeat the last. By default the sum of the counts.
    pub total_repeat_length: Option<usize>,
}

/// Returns the sum of concrete counts.
#[track_caller]
fn total(x: &Array, counts: &Array, n: usize) -> usize {
    if counts.is_traced() {
        let message =
            format!("the size of the result depends on the traced counts {}", counts.aval());
        let error = RuleError::unsupported(message)
            .help("state it in `RepeatOptions { total_repeat_length: Some(n) }` of `repeat_with`");
        trace::throw_operands("repeat", error, &[x, counts]);
    }
    let bytes = counts.to_bytes().unwrap_or_else(|error| trace::throw(error));
    let width = counts.dtype().host_bytes();
    let is_negative = |top: u8| counts.dtype().is_signed() && top >= 0x80;
    let sum: usize = bytes
        .chunks_exact(width)
        .map(|count| {
            // A negative count is none.
            let top = count.last().copied().unwrap_or_default();
            let wide = count.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
            if is_negative(top) { 0 } else { wide }
        })
        .sum();
    if counts.size() == 1 { sum * n } else { sum }
}

/// Repeats each slice along `axis` by its count.
#[track_caller]
pub(super) fn repeat_each(x: &Array, counts: &Array, axis: isize, options: RepeatOptions) -> Array {
    let axis = expect_axis("repeat", axis, x.rank(), x);
    let n = x.shape()[axis];
    let fits = counts.dtype().is_integer() && counts.rank() <= 1 && [1, n].contains(&counts.size());
    if !fits {
        let message = format!(
            "takes one integer, or one for each of the {n} slices along axis {axis}, got {}",
            counts.aval()
        );
        trace::throw_operands("repeat", RuleError::shape(message), &[x, counts]);
    }
    let length = match options.total_repeat_length {
        Some(length) => length,
        None => total(x, counts, n),
    };
    if n == 0 || length == 0 {
        let shape = x.shape().remove(axis).insert(axis, if n == 0 { 0 } else { length });
        return zeros((shape, x.dtype()));
    }
    let counts = broadcast_to(&convert_element_type(counts, DType::I32), [n]);
    // The first position of each slice, then the number of slices that begin at each position.
    let starts = sub(cumsum(&counts, 0), &counts);
    let numbers = ScatterDimensionNumbers {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..Default::default()
    };
    let begun = scatter(
        &zeros(([length], DType::I32)),
        &reshape(&starts, [n, 1]),
        &ones_like(&starts),
        Combiner::Add,
        &numbers,
        GatherScatterMode::FillOrDrop,
    );
    let slices = sub(cumsum(&begun, 0), full_like(&begun, Scalar::Int(1)));
    take(x, &slices, axis as isize)
}

/// Distances of [`roll`](super::roll): one for all axes, or one for each.
#[derive(Clone, Debug)]
pub enum RollShift {
    /// Static distances.
    Static(Vec<isize>),
    /// Integers, `[]` or one for each axis, which may be traced.
    Traced(Array),
}

impl From<isize> for RollShift {
    fn from(shift: isize) -> RollShift {
        RollShift::Static(vec![shift])
    }
}

impl<const N: usize> From<[isize; N]> for RollShift {
    fn from(shifts: [isize; N]) -> RollShift {
        RollShift::Static(shifts.to_vec())
    }
}

impl From<Vec<isize>> for RollShift {
    fn from(shifts: Vec<isize>) -> RollShift {
        RollShift::Static(shifts)
    }
}

impl From<&Array> for RollShift {
    fn from(shift: &Array) -> RollShift {
        RollShift::Traced(shift.clone())
    }
}

impl From<Array> for RollShift {
    fn from(shift: Array) -> RollShift {
        RollShift::Traced(shift)
    }
}

/// Shifts the elements of `x` by `shift` positions along one axis, several, or, with
/// `Axes::all()`, in the flattened array. Elements beyond the last position reappear at the first;
/// a negative `shift` moves towards lower indices.
///
/// One shift applies to each axis, and a list of shifts to the axes of a list in turn. An integer
/// array may be traced.
///
/// Throws `Op` (shape) for an axis out of range and if the numbers of shifts and axes differ, and
/// `Op` (dtype) for an array that is not of integers.
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![[1, 2], [3, 4]];
/// assert_eq!(roll(&x, 1, -1).to_vec::<i32>()?, [2, 1, 4, 3]);
/// assert_eq!(roll(&x, [1, 1], [0, 1]).to_vec::<i32>()?, [4, 3, 2, 1]);
/// assert_eq!(roll(&x, 1, Axes::all()).to_vec::<i32>()?, [4, 1, 2, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn roll(x: &Array, shift: impl Into<RollShift>, axes: impl Into<Axes>) -> Array {
    let (shift, axes) = (shift.into(), axes.into());
    let Some(list) = axes.list() else {
        return reshape(&roll_axes(&reshape(x, [x.size()]), &shift, &[0]), x.shape());
    };
    roll_axes(x, &shift, list)
}

#[track_caller]
fn roll_axes(x: &Array, shift: &RollShift, axes: &[isize]) -> Array {
    let n_shifts = match shift {
        RollShift::Static(shifts) => shifts.len(),
        RollShift::Traced(shifts) => shifts.size(),
    };
    if n_shifts != 1 && n_shifts != axes.len() {
        let message = format!("{n_shifts} shifts for {} axes", axes.len());
        trace::throw_operands("roll", RuleError::shape(message), &[x]);
    }
    let mut rolled = x.clone();
    for (position, &axis) in axes.iter().enumerate() {
        let axis = expect_axis("roll", axis, x.rank(), x);
        let position = if n_shifts == 1 { 0 } else { position };
        rolled = match shift {
            RollShift::Static(shifts) => roll_static(&rolled, shifts[position], axis),
            RollShift::Traced(shifts) => {
                if !shifts.dtype().is_integer() {
                    let message = format!("takes integer shifts, got {}", shifts.aval());
                    trace::throw_operands("roll", RuleError::dtype(message), &[x, shifts]);
                }
                let flat = reshape(shifts, [n_shifts]);
                let at = position as isize;
                let shift = reshape(&slice_in_dim(&flat, at, at + 1, 1, 0), []);
                roll_traced(&rolled, &shift, axis)
            }
        };
    }
    rolled
}

#[track_caller]
fn roll_static(x: &Array, shift: isize, axis: usize) -> Array {
    let size = x.shape()[axis];
    let first = if size == 0 { 0 } else { (-shift).rem_euclid(size as isize) };
    if first == 0 {
        return x.clone();
    }
    let (axis, size) = (axis as isize, size as isize);
    let parts = [slice_in_dim(x, first, size, 1, axis), slice_in_dim(x, 0, first, 1, axis)];
    concatenate(&parts, axis)
}

#[track_caller]
fn roll_traced(x: &Array, shift: &Array, axis: usize) -> Array {
    let size = x.shape()[axis];
    if size == 0 {
        return x.clone();
    }
    let shift = convert_element_type(shift, DType::I32);
    let start = sub(size as i32, super::super::remainder(&shift, size as i32));
    let twice = concatenate([x, x], axis as isize);
    dynamic_slice_in_dim(&twice, &start, size, axis as isize)
}
