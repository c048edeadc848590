//! Dimension numbers and index modes of gather and scatter.

use crate::core::{RuleResult, Shape, ShardingRule};
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The treatment of indices out of range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatherScatterMode {
    /// Indices are clamped so that the whole slice is within the operand.
    Clip,
    /// A gathered slice is replaced by the fill value; a scattered slice is dropped.
    #[default]
    FillOrDrop,
    /// The caller promises that all indices are in range. Otherwise the result depends on the
    /// platform.
    PromiseInBounds,
}

/// The correspondence of axes of a gather's operands and result.
///
/// As in StableHLO, with the index vectors along the last axis of the indices (`index_vector_dim`).
/// See [`gather`](super::gather()) for the meaning of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatherDimensionNumbers {
    /// The result axes that run within a slice, increasing.
    pub offset_dims: Vec<usize>,
    /// The operand axes of slice size 1 that the result omits, increasing.
    pub collapsed_slice_dims: Vec<usize>,
    /// For each component of an index vector, the operand axis that it indexes.
    pub start_index_map: Vec<usize>,
    /// The operand axes that are paired with axes of the indices, increasing.
    pub operand_batching_dims: Vec<usize>,
    /// For each operand batching axis, the axis of the indices.
    pub start_indices_batching_dims: Vec<usize>,
}

/// Formats the named lists of an attribute without empty ones.
pub(in crate::primitives) fn attribute_lists(lists: &[(&str, &[usize])]) -> String {
    let written = lists.iter().filter(|(_, list)| !list.is_empty());
    written.map(|(name, list)| format!("{name} = {list:?}, ")).collect()
}

/// Checks that `dims` are distinct and below `rank`.
pub(in crate::primitives) fn ensure_dims(
    name: &str,
    dims: &[usize],
    rank: usize,
) -> RuleResult<()> {
    ensure_shape!(
        (1..dims.len()).all(|index| !dims[..index].contains(&dims[index]))
            && dims.iter().all(|&dim| dim < rank),
        "{name} {dims:?} must be distinct and lie below {rank}"
    );
    Ok(())
}

/// Checks like [`ensure_dims`] that `dims` are valid, and that they increase.
pub(in crate::primitives) fn ensure_increasing(
    name: &str,
    dims: &[usize],
    rank: usize,
) -> RuleResult<()> {
    ensure_shape!(
        dims.windows(2).all(|pair| pair[0] < pair[1]) && dims.iter().all(|&dim| dim < rank),
        "{name} {dims:?} must increase and lie below {rank}"
    );
    Ok(())
}

/// Checks the operand axes that slices omit (`dropped`), that indices address (`mapped`) and that
/// are paired with axes of the indices, for gather and scatter.
pub(in crate::primitives) fn ensure_addressing(
    operand: &Shape,
    indices: &Shape,
    names: [&str; 4],
    dropped: &[usize],
    mapped: &[usize],
    batching: [&[usize]; 2],
) -> RuleResult<()> {
    let [operand_batching, indices_batching] = batching;
    let n_batch = indices.rank().saturating_sub(1);
    ensure_shape!(
        indices.rank() > 0 && indices[n_batch] == mapped.len(),
        "the last axis of the indices, of shape {indices}, must have size {}: one component for each \
         of {} {mapped:?}",
        mapped.len(),
        names[1]
    );
    ensure_increasing(names[0], dropped, operand.rank())?;
    ensure_dims(names[1], mapped, operand.rank())?;
    ensure_increasing(names[2], operand_batching, operand.rank())?;
    ensure_dims(names[3], indices_batching, n_batch)?;
    for (name, dims) in [(names[0], dropped), (names[1], mapped)] {
        ensure!(
            dims.iter().all(|dim| !operand_batching.contains(dim)),
            "{name} {dims:?} and {} {operand_batching:?} must have nothing in common",
            names[2]
        );
    }
    let sizes = |shape: &Shape, dims: &[usize]| dims.iter().map(|&d| shape[d]).collect::<Shape>();
    let (a, b) = (sizes(operand, operand_batching), sizes(indices, indices_batching));
    ensure_shape!(
        a == b,
        "{} {operand_batching:?} of sizes {a} go along with {} {indices_batching:?} of sizes {b}",
        names[2],
        names[3]
    );
    Ok(())
}

/// Returns the axes shifted by one, for a batch axis in front.
pub(in crate::primitives) fn shifted(dims: &[usize]) -> Vec<usize> {
    dims.iter().map(|dim| dim + 1).collect()
}

/// Returns the axes shifted by one, with axis 0 in front.
pub(in crate::primitives) fn with_front(dims: &[usize]) -> Vec<usize> {
    std::iter::once(0).chain(dims.iter().map(|dim| dim + 1)).collect()
}

impl GatherDimensionNumbers {
    const NAMES: [&str; 4] = [
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    ];

    /// Returns the shape of the result after all checks.
    pub(super) fn result(
        &self,
        operand: &Shape,
        indices: &Shape,
        slice_sizes: &[usize],
    ) -> RuleResult<Shape> {
        ensure_addressing(
            operand,
            indices,
            Self::NAMES,
            &self.collapsed_slice_dims,
            &self.start_index_map,
            [&self.operand_batching_dims, &self.start_indices_batching_dims],
        )?;
        let rank = self.offset_dims.len() + indices.rank() - 1;
        ensure_increasing("offset_dims", &self.offset_dims, rank)?;
        let sizes = Shape::new(slice_sizes);
        ensure_shape!(
            sizes.rank() == operand.rank(),
            "{} slice sizes for an operand of rank {}",
            sizes.rank(),
            operand.rank()
        );
        let slice_axes: Vec<usize> =
            (0..operand.rank()).filter(|&axis| self.is_kept(axis)).collect();
        ensure_shape!(
            slice_axes.len() == self.offset_dims.len(),
            "offset_dims {:?} are {}, slices have {} axes that are neither collapsed nor batching",
            self.offset_dims,
            self.offset_dims.len(),
            slice_axes.len()
        );
        ensure_shape!(
            indices.size() == 0 || sizes.iter().zip(operand.iter()).all(|(a, b)| a <= b),
            "a slice of shape {sizes} does not fit in {operand}"
        );
        for &axis in &self.collapsed_slice_dims {
            ensure_shape!(
                sizes[axis] == 1,
                "collapsed axis {axis} must have slice size 1, got {}",
                sizes[axis]
            );
        }
        for &axis in &self.operand_batching_dims {
            ensure_shape!(
                sizes[axis] <= 1,
                "batching axis {axis} must have slice size 0 or 1, got {}",
                sizes[axis]
            );
        }
        let mut slice = slice_axes.iter().map(|&axis| sizes[axis]);
        let mut batch = indices[..indices.rank() - 1].iter().copied();
        let size = |axis: usize| {
            if self.offset_dims.contains(&axis) { slice.next() } else { batch.next() }
        };
        let shape: Option<Shape> = (0..rank).map(size).collect();
        Ok(shape.expect("offset_dims and the axes of the indices add up to the rank"))
    }

    /// Returns true if an operand axis is part of the result's slices.
    fn is_kept(&self, axis: usize) -> bool {
        !self.collapsed_slice_dims.contains(&axis) && !self.operand_batching_dims.contains(&axis)
    }

    /// Returns the sharding rule: result axes correspond to axes of the indices, and to operand
    /// axes that slices contain whole.
    pub(super) fn sharding_rule(
        &self,
        operand: &Shape,
        slice: &[usize],
        rank: usize,
    ) -> ShardingRule {
        let mut along = vec![Vec::new(); rank];
        let slice_axes = (0..operand.rank()).filter(|&axis| self.is_kept(axis));
        for (axis, &to) in slice_axes.zip(&self.offset_dims) {
            if slice[axis] == operand[axis] {
                along[to].push((0, axis));
            }
        }
        for (axis, to) in self.batch_dims(rank).into_iter().enumerate() {
            along[to].push((1, axis));
            let with = self.start_indices_batching_dims.iter().position(|&own| own == axis);
            along[to].extend(with.map(|index| (0, self.operand_batching_dims[index])));
        }
        ShardingRule::one(along)
    }

    /// Returns the result axes that do not run within a slice: the axes of the indices but the
    /// last.
    pub(super) fn batch_dims(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|axis| !self.offset_dims.contains(axis)).collect()
    }
}

impl fmt::Display for GatherDimensionNumbers {
    /// Returns the lists of the StableHLO attribute, without `index_vector_dim`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&attribute_lists(&[
            ("offset_dims", &self.offset_dims),
            ("collapsed_slice_dims", &self.collapsed_slice_dims),
            ("operand_batching_dims", &self.operand_batching_dims),
            ("start_indices_batching_dims", &self.start_indices_batching_dims),
            ("start_index_map", &self.start_index_map),
        ]))
    }
}
