//! The correspondence of axes of a scatter's operands.

use crate::core::{RuleResult, Shape, ShardingRule};
use crate::ensure_shape;
use crate::primitives::gather::{
    GatherDimensionNumbers, attribute_lists, ensure_addressing, ensure_increasing,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The correspondence of axes of a scatter's operands.
///
/// As in StableHLO, with the index vectors along the last axis of the indices (`index_vector_dim`).
/// The inverse of [`GatherDimensionNumbers`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScatterDimensionNumbers {
    /// The axes of the updates that run within a window, increasing.
    pub update_window_dims: Vec<usize>,
    /// The operand axes of window size 1 that the updates omit, increasing.
    pub inserted_window_dims: Vec<usize>,
    /// For each component of an index vector, the operand axis that it indexes.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The operand axes that are paired with axes of the indices, increasing.
    pub operand_batching_dims: Vec<usize>,
    /// For each operand batching axis, the axis of the indices.
    pub scatter_indices_batching_dims: Vec<usize>,
}

impl ScatterDimensionNumbers {
    const NAMES: [&str; 4] = [
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "operand_batching_dims",
        "scatter_indices_batching_dims",
    ];

    /// Returns the numbers of the scatter that is the transpose of a gather.
    pub(in crate::primitives) fn undoing(gather: &GatherDimensionNumbers) -> Self {
        ScatterDimensionNumbers {
            update_window_dims: gather.offset_dims.clone(),
            inserted_window_dims: gather.collapsed_slice_dims.clone(),
            scatter_dims_to_operand_dims: gather.start_index_map.clone(),
            operand_batching_dims: gather.operand_batching_dims.clone(),
            scatter_indices_batching_dims: gather.start_indices_batching_dims.clone(),
        }
    }

    /// Returns the numbers of the gather that is the transpose of the scatter.
    pub(super) fn undone(&self) -> GatherDimensionNumbers {
        GatherDimensionNumbers {
            offset_dims: self.update_window_dims.clone(),
            collapsed_slice_dims: self.inserted_window_dims.clone(),
            start_index_map: self.scatter_dims_to_operand_dims.clone(),
            operand_batching_dims: self.operand_batching_dims.clone(),
            start_indices_batching_dims: self.scatter_indices_batching_dims.clone(),
        }
    }

    /// Returns the sharding rule. Result axes correspond to those of the operand. Batching axes
    /// correspond to those of the indices and updates too, and axes that windows contain whole to
    /// those of the updates. Along their other axes each device combines its updates.
    pub(super) fn sharding_rule(&self, operand: &Shape, updates: &Shape) -> ShardingRule {
        let mut along: Vec<Vec<(usize, usize)>> =
            (0..operand.rank()).map(|axis| vec![(0, axis)]).collect();
        let is_window = |axis: &usize| self.update_window_dims.contains(axis);
        let batch: Vec<usize> = (0..updates.rank()).filter(|axis| !is_window(axis)).collect();
        let pairs = self.operand_batching_dims.iter().zip(&self.scatter_indices_batching_dims);
        for (&axis, &of_indices) in pairs {
            along[axis].extend([(1, of_indices), (2, batch[of_indices])]);
        }
        let kept = (0..operand.rank()).filter(|axis| {
            !self.inserted_window_dims.contains(axis) && !self.operand_batching_dims.contains(axis)
        });
        for (axis, &of_updates) in kept.zip(&self.update_window_dims) {
            if operand[axis] == updates[of_updates] {
                along[axis].push((2, of_updates));
            }
        }
        ShardingRule::one(along).combining()
    }

    /// Returns the size of a window along each operand axis.
    pub(super) fn window_sizes(&self, operand: &Shape, updates: &Shape) -> Vec<usize> {
        let mut windows = self.update_window_dims.iter().map(|&axis| updates[axis]);
        let dropped = |axis| {
            self.inserted_window_dims.contains(&axis) || self.operand_batching_dims.contains(&axis)
        };
        let size = |axis| match dropped(axis) {
            // An empty batching axis has no slice of size 1.
            true => operand[axis].min(1),
            false => windows.next().unwrap_or(0),
        };
        (0..operand.rank()).map(size).collect()
    }

    /// Checks the numbers against the shapes of the operands.
    pub(super) fn check(
        &self,
        operand: &Shape,
        indices: &Shape,
        updates: &Shape,
    ) -> RuleResult<()> {
        ensure_addressing(
            operand,
            indices,
            Self::NAMES,
            &self.inserted_window_dims,
            &self.scatter_dims_to_operand_dims,
            [&self.operand_batching_dims, &self.scatter_indices_batching_dims],
        )?;
        let windows = &self.update_window_dims;
        ensure_increasing("update_window_dims", windows, updates.rank())?;
        let n_dropped = self.inserted_window_dims.len() + self.operand_batching_dims.len();
        ensure_shape!(
            operand.rank() == windows.len() + n_dropped,
            "windows have {} axes and leave out {n_dropped}, the operand has {}",
            windows.len(),
            operand.rank()
        );
        let batch: Shape =
            (0..updates.rank()).filter(|a| !windows.contains(a)).map(|a| updates[a]).collect();
        ensure_shape!(
            batch[..] == indices[..indices.rank() - 1],
            "the updates' axes outside of windows have sizes {batch}, the indices {indices}"
        );
        let sizes = Shape::new(&self.window_sizes(operand, updates));
        ensure_shape!(
            sizes.iter().zip(operand.iter()).all(|(a, b)| a <= b),
            "a window of shape {sizes} does not fit in {operand}"
        );
        Ok(())
    }
}

impl fmt::Display for ScatterDimensionNumbers {
    /// Returns the lists of the StableHLO attribute, without `index_vector_dim`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&attribute_lists(&[
            ("update_window_dims", &self.update_window_dims),
            ("inserted_window_dims", &self.inserted_window_dims),
            ("input_batching_dims", &self.operand_batching_dims),
            ("scatter_indices_batching_dims", &self.scatter_indices_batching_dims),
            ("scatter_dims_to_operand_dims", &self.scatter_dims_to_operand_dims),
        ]))
    }
}
