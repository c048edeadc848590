//! Insertion and deletion of slices at static indices.

use super::super::axis_slice::slice_axis;
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{broadcast_to, concatenate, convert_element_type, reshape};

/// Resolves indices of an axis, negative ones from its end. Resolved indices must be below `limit`.
fn resolve_indices(indices: &[isize], size: usize, limit: usize) -> Result<Vec<usize>, RuleError> {
    let resolve = |&index: &isize| {
        let from_start = if index < 0 { index + size as isize } else { index };
        usize::try_from(from_start).ok().filter(|&index| index < limit).ok_or_else(|| {
            RuleError::value(format!("index {index} is out of range for an axis of size {size}"))
        })
    };
    indices.iter().map(resolve).collect()
}

/// Returns `x` and the axis, or the flattened array and its axis for `None`.
#[track_caller]
pub(super) fn along(x: &Array, axis: Option<isize>) -> (Array, isize) {
    match axis {
        Some(axis) => (x.clone(), axis),
        None => (reshape(x, [x.size()]), 0),
    }
}

/// Deletes the slices of `x` at `indices` along `axis`, or elements of the flattened array for
/// `None`. Negative indices count from the end.
/// Indices are static, since they determine the shape of the result.
///
/// Throws `Op` (value) for indices out of range and `Op` (shape) for an axis out of range.
#[track_caller]
pub fn delete(x: &Array, indices: impl AsRef<[isize]>, axis: impl Into<Option<isize>>) -> Array {
    let (x, axis) = &along(x, axis.into());
    let axis = *axis;
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let size = x.shape()[axis];
        Ok((axis, resolve_indices(indices.as_ref(), size, size)?))
    });
    let (axis, mut deleted) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("delete", error, &[x]),
    };
    deleted.sort_unstable();
    deleted.dedup();
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in deleted.iter().copied().chain([x.shape()[axis]]) {
        if end > start {
            pieces.push(slice_axis(x, axis, start, end));
        }
        start = end + 1;
    }
    if pieces.is_empty() { slice_axis(x, axis, 0, 0) } else { concatenate(&pieces, axis as isize) }
}

/// Inserts slices of `values` before `indices` along `axis`, or elements of the flattened array for
/// `None`. Negative indices count from the end, and the size of the axis stands for its end.
/// Several slices at one index keep their order.
///
/// `values` broadcast to the shape of `x` with one slice for each index, and are converted to the
/// dtype of `x`. Throws `Op` (value) for indices out of range and `Op` (shape) for values that do
/// not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, v) = (Aval::new(DType::F32, [2, 3]), Aval::new(DType::F32, [2, 1]));
/// let y = eval_shape(|x: Array, v: Array| insert(&x, [0, 3], &v, 1), (x, v))?;
/// assert_eq!(y.aval().to_string(), "f32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn insert(
    x: &Array,
    indices: impl AsRef<[isize]>,
    values: &Array,
    axis: impl Into<Option<isize>>,
) -> Array {
    let (x, axis) = &along(x, axis.into());
    let axis = *axis;
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let size = x.shape()[axis];
        let indices = resolve_indices(indices.as_ref(), size, size + 1)?;
        let shape = x.shape().remove(axis).insert(axis, indices.len());
        if values.rank() > x.rank() || values.shape().broadcast(&shape).as_ref() != Some(&shape) {
            return Err(RuleError::shape(format!(
                "values {} do not broadcast to the inserted slices {shape}",
                values.aval()
            )));
        }
        Ok((axis, indices, shape))
    });
    let (axis, indices, shape) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("insert", error, &[x, values]),
    };
    let values = broadcast_to(&convert_element_type(values, x.dtype()), shape);
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_by_key(|&slice| indices[slice]);
    let mut pieces = Vec::new();
    let mut start = 0;
    for slice in order {
        if indices[slice] > start {
            pieces.push(slice_axis(x, axis, start, indices[slice]));
            start = indices[slice];
        }
        pieces.push(slice_axis(&values, axis, slice, slice + 1));
    }
    if start < x.shape()[axis] || pieces.is_empty() {
        pieces.push(slice_axis(x, axis, start, x.shape()[axis]));
    }
    concatenate(&pieces, axis as isize)
}
