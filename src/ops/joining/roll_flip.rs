//! Flipping, rotating and exchanging axes.

use super::super::axes::{Axes, signed};
use super::super::axis_slice::expect_axis;
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{rev, transpose};

/// Reverses the order of the elements of `x` along `axes`.
#[track_caller]
pub fn flip(x: &Array, axes: impl Into<Axes>) -> Array {
    let axes = axes.into().resolve("flip", x);
    rev(x, &signed(&axes))
}

/// Exchanges two axes of `x`. Negative axes count from the end.
#[track_caller]
pub fn swapaxes(x: &Array, axis1: isize, axis2: isize) -> Array {
    let (axis1, axis2) =
        (expect_axis("swapaxes", axis1, x.rank(), x), expect_axis("swapaxes", axis2, x.rank(), x));
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(axis1, axis2);
    transpose(x, &order)
}

/// Rotates `x` by `k` times 90° in the plane of two axes, from the first towards the second. A
/// negative `k` rotates back. NumPy's default for `axes` is `[0, 1]`.
///
/// Throws `Op` (shape) if the axes are equal or out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| rot90(&x, 1, [0, 1]), Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rot90(x: &Array, k: i32, axes: [isize; 2]) -> Array {
    let first = expect_axis("rot90", axes[0], x.rank(), x);
    let second = expect_axis("rot90", axes[1], x.rank(), x);
    if first == second {
        let message = format!("takes two different axes, got axis {first} twice");
        trace::throw_operands("rot90", RuleError::shape(message), &[x]);
    }
    let [first, second] = axes;
    match k.rem_euclid(4) {
        0 => x.clone(),
        1 => swapaxes(&flip(x, second), first, second),
        2 => flip(x, [first, second]),
        _ => flip(&swapaxes(x, first, second), second),
    }
}

/// Reverses the columns of `x`, axis 1. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn fliplr(x: &Array) -> Array {
    flip(x, 1)
}

/// Reverses the rows of `x`, axis 0. Throws `Op` (shape) for a scalar.
#[track_caller]
pub fn flipud(x: &Array) -> Array {
    flip(x, 0)
}

/// Moves `axis` of `x` in front of the axis `start`; the rank as `start` moves it to the end.
/// [`moveaxis`](crate::primitives::moveaxis) takes the destination instead.
///
/// Throws `Op` (shape) for axes out of range.
#[track_caller]
pub fn rollaxis(x: &Array, axis: isize, start: isize) -> Array {
    let resolved = resolve_axis(axis, x.rank())
        .and_then(|axis| resolve_axis(start, x.rank() + 1).map(|start| (axis, start)));
    match resolved {
        Ok((axis, start)) => move_axis(x, axis, if start > axis { start - 1 } else { start }),
        Err(error) => trace::throw_operands("rollaxis", error, &[x]),
    }
}

/// Exchanges the last two axes of `x`. Throws `Op` (shape) for arrays of rank below 2.
#[doc(alias = "mT")]
#[track_caller]
pub fn matrix_transpose(x: &Array) -> Array {
    if x.rank() < 2 {
        let message = format!("takes an array of rank 2 and more, got {}", x.rank());
        trace::throw_operands("matrix_transpose", RuleError::shape(message), &[x]);
    }
    swapaxes(x, -1, -2)
}
