//! Turning and mirroring.

use super::super::{flip, swapaxes};
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};

/// `x` turned `turns` times by 90° in the plane of two axes, from the first towards the second;
/// negative numbers turn back. `axes` is `[0, 1]` for NumPy's default. Throws `Op` (shape) if the two
/// axes are one or out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| rot90(&x, 1, [0, 1]), Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rot90(x: &Array, turns: i32, axes: [isize; 2]) -> Array {
    let resolved = resolve_axis(axes[0], x.rank())
        .and_then(|first| resolve_axis(axes[1], x.rank()).map(|second| (first, second)));
    match resolved {
        Ok((first, second)) if first == second => {
            let message = format!("takes two different axes, got axis {first} twice");
            trace::throw_operands("rot90", RuleError::shape(message), &[x])
        }
        Err(error) => trace::throw_operands("rot90", error, &[x]),
        Ok(_) => {}
    }
    let [first, second] = axes;
    match turns.rem_euclid(4) {
        0 => x.clone(),
        1 => swapaxes(&flip(x, second), first, second),
        2 => flip(x, [first, second]),
        _ => flip(&swapaxes(x, first, second), second),
    }
}

/// `x` with its columns, axis 1, in reverse order. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn fliplr(x: &Array) -> Array {
    flip(x, 1)
}

/// `x` with its rows, axis 0, in reverse order. Throws `Op` (shape) for a scalar.
#[track_caller]
pub fn flipud(x: &Array) -> Array {
    flip(x, 0)
}

/// `x` with `axis` moved in front of axis `before`, which may be the rank for the end. Throws `Op`
/// (shape) if they are out of range. [`moveaxis`](crate::primitives::moveaxis) says where the axis
/// ends up.
#[track_caller]
pub fn rollaxis(x: &Array, axis: isize, before: isize) -> Array {
    let resolved = resolve_axis(axis, x.rank())
        .and_then(|axis| resolve_axis(before, x.rank() + 1).map(|before| (axis, before)));
    match resolved {
        Ok((axis, before)) => move_axis(x, axis, if before > axis { before - 1 } else { before }),
        Err(error) => trace::throw_operands("rollaxis", error, &[x]),
    }
}

/// `x` with its last two axes exchanged. Throws `Op` (shape) for arrays of rank below 2.
#[doc(alias = "mT")]
#[track_caller]
pub fn matrix_transpose(x: &Array) -> Array {
    if x.rank() < 2 {
        let message = format!("takes an array of rank 2 and more, got {}", x.rank());
        trace::throw_operands("matrix_transpose", RuleError::shape(message), &[x]);
    }
    swapaxes(x, -1, -2)
}
