//! Elements replaced at positions and by masks.

use super::super::grids::{cycled, wide};
use super::super::{Index, IndexMode};
use super::nonzero::{true_positions, truth};
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    ArrayLike, broadcast_to, broadcasted_iota as iota, full_like, reshape, where_,
};

/// `x` with the elements where `mask` is not zero replaced by `values` in row-major order, from the
/// first again when they run out. Values take the dtype of `x`.
///
/// Throws `Op` (shape) if the mask has not the shape of `x`.
#[track_caller]
pub fn place(x: &Array, mask: &Array, values: impl ArrayLike) -> Array {
    if mask.shape() != x.shape() {
        let message = format!("the mask's shape {} is not {}", mask.shape(), x.shape());
        trace::throw_operands("place", RuleError::shape(message), &[x, mask]);
    }
    let n = x.size();
    let flat = reshape(x, [n]);
    let (order, there) = true_positions(&truth(&reshape(mask, [n])), n);
    // Updates out of range are left out.
    let order = where_(&there, &order, full_like(&order, n));
    reshape(&flat.at([Index::Array(order)]).set(cycled(values, n)), x.shape())
}

/// `x` with the elements at row-major `positions` replaced by `values`, from the first again when they
/// run out. `mode` says what is done with positions out of range; values take the dtype of `x`.
///
/// Throws `Op` (dtype) if the positions are not integers.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |x: Array| put(&x, &arange(3), 0.0, IndexMode::Wrap),
///     Aval::new(DType::F32, [2, 4]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn put(x: &Array, positions: &Array, values: impl ArrayLike, mode: IndexMode) -> Array {
    let positions = reshape(&wide("put", positions), [positions.size()]);
    if positions.size() == 0 || x.size() == 0 {
        return x.clone();
    }
    let count = positions.size();
    let at = mode.apply(&positions, x.size());
    let flat = reshape(x, [x.size()]);
    reshape(&flat.at([Index::Array(at)]).set(cycled(values, count)), x.shape())
}

/// `x` with the elements at the positions `indices` along `axis`, and at the same place along the other
/// axes, replaced by `values`: the counterpart of [`take_along_axis`](super::super::take_along_axis).
///
/// `indices` have the rank of `x` and its sizes but along `axis`, or 1; `values` broadcast to the shape
/// of `indices`. Negative positions count from the back; updates out of range are left out. Throws
/// `Op` for other ranks, sizes and dtypes.
#[track_caller]
pub fn put_along_axis(x: &Array, indices: &Array, values: impl ArrayLike, axis: isize) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let wanted = match indices.rank() == x.rank() {
            true => x.shape().remove(axis).insert(axis, indices.shape()[axis]),
            false => {
                return Err(RuleError::shape(format!(
                    "indices must have the rank {} of the array, got {}",
                    x.rank(),
                    indices.rank()
                )));
            }
        };
        match indices.shape().broadcast(&wanted).as_ref() == Some(&wanted) {
            true => Ok((axis, wanted)),
            false => Err(RuleError::shape(format!(
                "indices {} must agree with {} or be 1 in every axis but {axis}",
                indices.shape(),
                x.shape()
            ))),
        }
    });
    let (axis, shape) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("put_along_axis", error, &[x, indices]),
    };
    let indices = broadcast_to(&wide("put_along_axis", indices), shape.clone());
    let mut everywhere = Vec::with_capacity(x.rank());
    for other in 0..x.rank() {
        everywhere.push(Index::Array(match other == axis {
            true => indices.clone(),
            false => iota(indices.dtype(), shape.clone(), other),
        }));
    }
    x.at(everywhere).set(values)
}
