//! Boolean masks as indices.
//!
//! The number of elements that a mask selects depends on its values. A concrete mask is replaced by
//! index arrays, as NumPy defines it; updates with values that do not depend on that number keep
//! the shape, and so work with traced masks. A scalar mask selects along a new axis of size 1.

use super::index::Index;
use crate::core::{Array, RuleError, throw};
use crate::primitives::reshape;

/// Returns the mask of an entry, if it is one.
fn mask_of(index: &Index) -> Option<&Array> {
    match index {
        Index::Array(array) if array.dtype().is_bool() => Some(array),
        _ => None,
    }
}

/// Returns the number of axes that an entry indexes.
fn n_axes(index: &Index) -> usize {
    match index {
        Index::Ellipsis | Index::NewAxis => 0,
        other => mask_of(other).map_or(1, Array::rank),
    }
}

/// Returns the first axis that the entry at `position` indexes.
fn axis_of(indices: &[Index], position: usize, rank: usize) -> usize {
    let (before, after) = indices.split_at(position);
    if before.iter().any(|index| matches!(index, Index::Ellipsis)) {
        rank.saturating_sub(after.iter().map(n_axes).sum())
    } else {
        before.iter().map(n_axes).sum()
    }
}

fn check_mask(mask: &Array, axis: usize, x: &Array) -> Result<(), RuleError> {
    let axes = x.shape().get(axis..axis + mask.rank());
    if axes != Some(mask.shape().dims()) {
        return Err(RuleError::shape(format!(
            "mask {} does not have the sizes of {} from axis {axis} on",
            mask.aval(),
            x.aval()
        )));
    }
    Ok(())
}

/// Inserts an axis of size 1 into `x` for the first scalar mask, and replaces the mask by the
/// indices that it selects along this axis. Returns `None` if there is no scalar mask.
#[track_caller]
pub(super) fn with_mask_axis(indices: &[Index], x: &Array) -> Option<(Vec<Index>, Array)> {
    let is_scalar = |index: &Index| mask_of(index).is_some_and(|mask| mask.rank() == 0);
    let position = indices.iter().position(is_scalar)?;
    let mask = mask_of(&indices[position]).filter(|mask| !mask.is_traced())?;
    let axis = axis_of(indices, position, x.rank()).min(x.rank());
    let mut replaced = indices.to_vec();
    replaced[position] = true_indices(&[1], mask).next().expect("one axis");
    Some((replaced, reshape(x, x.shape().insert(axis, 1))))
}

/// Replaces each concrete mask by the indices of its true elements, one array for each of its axes.
pub(super) fn without_masks(indices: &[Index], x: &Array) -> Result<Vec<Index>, RuleError> {
    let mut plain = Vec::with_capacity(indices.len());
    for (position, index) in indices.iter().enumerate() {
        let Some(mask) = mask_of(index) else {
            plain.push(index.clone());
            continue;
        };
        let axis = axis_of(indices, position, x.rank());
        check_mask(mask, axis, x)?;
        if mask.is_traced() {
            return Err(RuleError::unsupported(format!(
                "axis {axis} is indexed by a traced mask {}, on which the size would depend",
                mask.aval()
            ))
            .help(
                "keep the shape with `where_(mask, x, 0.0)`, or give the size: \
                 `nonzero(&mask, size, fill)`, `compress`",
            ));
        }
        plain.extend(true_indices(mask.shape(), mask));
    }
    Ok(plain)
}

/// Returns the indices of the true elements of a concrete mask of this shape along each axis.
fn true_indices(shape: &[usize], mask: &Array) -> impl Iterator<Item = Index> {
    let elements = match mask.to_bytes() {
        Ok(elements) => elements,
        Err(error) => throw(error),
    };
    let mut along = vec![Vec::new(); shape.len()];
    for (flat, _) in elements.iter().enumerate().filter(|&(_, &element)| element != 0) {
        let mut rest = flat;
        for (indices, &size) in along.iter_mut().zip(shape).rev() {
            indices.push((rest % size) as i32);
            rest /= size;
        }
    }
    along.into_iter().map(|indices| Index::Array(Array::from(indices)))
}

/// Returns the mask of an index that consists of one mask and whole axes, such that it broadcasts
/// to `x`, and the number of axes after the mask.
#[track_caller]
pub(super) fn lone_mask(indices: &[Index], x: &Array) -> Option<(Array, usize)> {
    let is_whole = |index: &Index| {
        matches!(index, Index::Ellipsis | Index::Slice { start: None, stop: None, step: 1 })
    };
    let position = indices.iter().position(|index| mask_of(index).is_some())?;
    let mask = mask_of(&indices[position])?;
    let others = indices[..position].iter().chain(&indices[position + 1..]);
    let axis = axis_of(indices, position, x.rank());
    if !others.clone().all(is_whole) || check_mask(mask, axis, x).is_err() {
        return None;
    }
    let n_trailing = x.rank() - axis - mask.rank();
    let shape: Vec<usize> =
        mask.shape().iter().copied().chain(std::iter::repeat_n(1, n_trailing)).collect();
    Some((reshape(mask, shape), n_trailing))
}
