//! Replacement of elements.

use super::super::grids::{cycled, wide};
use super::super::{Index, IndexMode, IndexOptions};
use super::nonzero::{true_indices, truth};
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    ArrayLike, broadcast_to, broadcasted_iota as iota, full_like, reshape, where_,
};

/// Replaces the elements of `x` at which `mask` is not zero by `values`, in row-major order. Values
/// repeat from the first if there are fewer, and are converted to the dtype of `x`.
///
/// Throws `Op` (shape) if the shapes of the mask and `x` differ.
#[track_caller]
pub fn place(x: &Array, mask: &Array, values: impl ArrayLike) -> Array {
    if mask.shape() != x.shape() {
        let message = format!("the mask's shape {} is not {}", mask.shape(), x.shape());
        trace::throw_operands("place", RuleError::shape(message), &[x, mask]);
    }
    let n = x.size();
    let flat = reshape(x, [n]);
    let (indices, is_valid) = true_indices(&truth(&reshape(mask, [n])), n);
    // Updates out of range are dropped.
    let indices = where_(&is_valid, &indices, full_like(&indices, n));
    reshape(&flat.at([Index::Array(indices)]).set(cycled(values, n)), x.shape())
}

/// Replaces the elements of `x` at row-major `indices` by `values`. Values repeat from the first if
/// there are fewer, and are converted to the dtype of `x`. `mode` handles indices out of range.
///
/// Throws `Op` (dtype) unless the indices are integers.
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
pub fn put(x: &Array, indices: &Array, values: impl ArrayLike, mode: IndexMode) -> Array {
    let indices = reshape(&wide("put", indices), [indices.size()]);
    if indices.size() == 0 || x.size() == 0 {
        return x.clone();
    }
    let count = indices.size();
    let indices = mode.apply(&indices, x.size());
    let flat = reshape(x, [x.size()]);
    reshape(&flat.at([Index::Array(indices)]).set(cycled(values, count)), x.shape())
}

/// Replaces the elements of `x` at `indices` along `axis` by `values`. The counterpart of
/// [`take_along_axis`](super::super::take_along_axis).
///
/// `indices` have the rank of `x`; their sizes along other axes are those of `x` or 1. `values`
/// broadcast to the shape of `indices`. Negative indices count from the end, and updates out of
/// range are dropped. Throws `Op` for other ranks, sizes and dtypes.
#[track_caller]
pub fn put_along_axis(x: &Array, indices: &Array, values: impl ArrayLike, axis: isize) -> Array {
    put_along_axis_with(x, indices, values, axis, IndexOptions::default())
}

/// Replaces elements along an axis, as [`put_along_axis`], with another treatment of indices out of
/// range, and promises about the indices.
#[track_caller]
pub fn put_along_axis_with(
    x: &Array,
    indices: &Array,
    values: impl ArrayLike,
    axis: isize,
    options: IndexOptions,
) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        if indices.rank() != x.rank() {
            return Err(RuleError::shape(format!(
                "indices must have the rank {} of the array, got {}",
                x.rank(),
                indices.rank()
            )));
        }
        let shape = x.shape().remove(axis).insert(axis, indices.shape()[axis]);
        if indices.shape().broadcast(&shape).as_ref() == Some(&shape) {
            return Ok((axis, shape));
        }
        Err(RuleError::shape(format!(
            "indices {} must agree with {} or be 1 in every axis but {axis}",
            indices.shape(),
            x.shape()
        )))
    });
    let (axis, shape) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("put_along_axis", error, &[x, indices]),
    };
    let indices = broadcast_to(&wide("put_along_axis", indices), shape.clone());
    let mut index = Vec::with_capacity(x.rank());
    for other in 0..x.rank() {
        index.push(Index::Array(if other == axis {
            indices.clone()
        } else {
            iota(indices.dtype(), shape.clone(), other)
        }));
    }
    x.at_with(index, options).set(values)
}
