//! Padding with computed values: statistics, ramps and odd mirror images.

use super::axes::axes;
use super::axis_slice::slice_axis;
use super::{LinspaceOptions, PadMode, PadStatistic, linspace_with, median, repeat};
use crate::core::{Array, Loc, Scalar};
use crate::primitives::{
    concatenate, convert_element_type, fill_of, mul, reshape, rev, round, sub,
};

/// Pads one axis with computed values; `None` for modes that repeat elements.
#[track_caller]
pub(super) fn with_values(
    x: &Array,
    axis: usize,
    (before, after): (usize, usize),
    mode: PadMode,
) -> Option<Array> {
    Loc::caller().scope(|| {
        let n = x.shape()[axis];
        match mode {
            PadMode::Statistic { statistic, stat_length } => {
                let length = stat_length.unwrap_or(n).min(n);
                let value = |part: &Array, count: usize| {
                    repeat(&value_of(part, axis, statistic), count, axis as isize)
                };
                let low = value(&slice_axis(x, axis, 0, length), before);
                let high = value(&slice_axis(x, axis, n - length, n), after);
                Some(concatenate([&low, x, &high], axis as isize))
            }
            PadMode::LinearRamp(end) => {
                let low = ramp(&slice_axis(x, axis, 0, 1), axis, before, end);
                let high = ramp(&slice_axis(x, axis, n - 1, n), axis, after, end);
                let high = rev(&high, &[axis as isize]);
                Some(concatenate([&low, x, &high], axis as isize))
            }
            PadMode::ReflectOdd => Some(odd(x, axis, (before, after), usize::from(n > 1))),
            PadMode::SymmetricOdd => Some(odd(x, axis, (before, after), 0)),
            _ => None,
        }
    })
}

/// Returns a statistic along `axis`, which stays with size 1, in the dtype of `x`.
#[track_caller]
fn value_of(x: &Array, axis: usize, statistic: PadStatistic) -> Array {
    let over = axes(axis as isize).keepdims();
    let value = match statistic {
        PadStatistic::Maximum => x.max_axes(over),
        PadStatistic::Minimum => x.min_axes(over),
        PadStatistic::Mean => x.mean_axes(over),
        PadStatistic::Median => median(x, over),
    };
    let value =
        if x.dtype().is_integer() && value.dtype().is_float() { round(&value) } else { value };
    convert_element_type(&value, x.dtype())
}

/// Returns `count` numbers from `end` towards `edge`, which is not one of them.
#[track_caller]
fn ramp(edge: &Array, axis: usize, count: usize, end: Scalar) -> Array {
    let options =
        LinspaceOptions { endpoint: false, axis: axis as isize, dtype: Some(edge.dtype()) };
    let flat = reshape(edge, edge.shape().remove(axis));
    let end = fill_of(end, flat.aval());
    linspace_with(&end, &flat, count, options)
}

/// Pads with images that are mirrored at the edge elements in position and in value. The image
/// begins `offset` elements from the edge.
#[track_caller]
fn odd(x: &Array, axis: usize, (before, after): (usize, usize), offset: usize) -> Array {
    let size = x.shape()[axis];
    let mut padded = x.clone();
    for (mut padding, is_before) in [(before, true), (after, false)] {
        while padding > 0 {
            let count = padding.min(size - offset);
            padding -= count;
            let n = padded.shape()[axis];
            let (edge, image) = if is_before {
                (0, slice_axis(&padded, axis, offset, offset + count))
            } else {
                (n - 1, slice_axis(&padded, axis, n - count - offset, n - offset))
            };
            let edge = slice_axis(&padded, axis, edge, edge + 1);
            let image = sub(mul(&edge, 2), rev(&image, &[axis as isize]));
            padded = match is_before {
                true => concatenate([&image, &padded], axis as isize),
                false => concatenate([&padded, &image], axis as isize),
            };
        }
    }
    padded
}
