//! Basic indexing of [`Bcoo`].

use super::SparseArray;
use super::bcoo::Bcoo;
use crate::operands::{throw_shape, throw_value};
use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::primitives::GatherDimensionNumbers;

/// The part of one axis that an entry of an index selects.
struct AxisRange {
    start: usize,
    limit: usize,
    stride: usize,
    is_reversed: bool,
    is_dropped: bool,
}

impl AxisRange {
    /// Returns the part that an index or a slice selects from an axis.
    #[track_caller]
    fn of(index: &Index, size: usize, axis: usize) -> AxisRange {
        let n = size as isize;
        let from_end = |bound: isize| if bound < 0 { bound + n } else { bound };
        match *index {
            Index::At(at) => {
                let start = from_end(at);
                if !(0..n).contains(&start) {
                    let message = format!("index {at} is out of range for axis {axis} of size {n}");
                    throw_value("Bcoo::index", message, &[]);
                }
                let start = start as usize;
                let limit = start + 1;
                AxisRange { start, limit, stride: 1, is_reversed: false, is_dropped: true }
            }
            Index::Slice { start, stop, step } if step > 0 => {
                let start = from_end(start.unwrap_or(0)).clamp(0, n);
                let stop = from_end(stop.unwrap_or(n)).clamp(start, n);
                AxisRange {
                    start: start as usize,
                    limit: stop as usize,
                    stride: step as usize,
                    is_reversed: false,
                    is_dropped: false,
                }
            }
            Index::Slice { start, stop, step } if step < 0 => {
                let first = start.map_or(n - 1, from_end).clamp(-1, n - 1);
                let before = stop.map_or(-1, from_end).clamp(-1, first);
                let stride = step.unsigned_abs();
                let count = ((first - before) as usize).div_ceil(stride);
                // The same elements, counted from the smallest index.
                let start = if count == 0 { 0 } else { first as usize - (count - 1) * stride };
                let limit = if count == 0 { 0 } else { first as usize + 1 };
                AxisRange { start, limit, stride, is_reversed: true, is_dropped: false }
            }
            _ => throw_value("Bcoo::index", format!("{index:?} does not select a range"), &[]),
        }
    }
}

impl Bcoo {
    /// Returns the elements at an index of integers, ranges with steps, new axes and an ellipsis,
    /// as [`Array::index`](oxidax::core::Array::index) does. The number of entries stays.
    ///
    /// Throws `Op` (shape) for more entries than axes, `Op` (value) for an index out of range, and
    /// `Op` (unsupported) for arrays of indices.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_scipy::sparse::{self, SparseArray};
    /// let m = sparse::eye(4);
    /// assert_eq!(m.index(i![1, ::2]).todense().to_vec::<f32>()?, [0.0, 0.0]);
    /// assert_eq!(m.index(i![2, 2..]).todense().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "__getitem__")]
    #[track_caller]
    pub fn index(&self, indices: impl AsRef<[Index]>) -> Bcoo {
        const NAME: &str = "Bcoo::index";
        let shape = self.shape();
        let indices = indices.as_ref();
        if indices.iter().any(|index| matches!(index, Index::Array(_))) {
            let error = RuleError::unsupported("arrays of indices select no entries")
                .help("index `todense()`, or use `Bcoo::extract`");
            throw_operands(NAME, error, &[&self.data]);
        }
        let is_axis = |index: &&Index| matches!(index, Index::At(_) | Index::Slice { .. });
        let used = indices.iter().filter(is_axis).count();
        if used > shape.rank() {
            throw_shape(NAME, format!("{used} entries of an index for shape {shape}"), &[]);
        }
        let whole = Index::Slice { start: None, stop: None, step: 1 };
        let rest = vec![whole; shape.rank() - used];
        let mut entries: Vec<Index> = Vec::with_capacity(indices.len() + rest.len());
        let mut has_ellipsis = false;
        for index in indices {
            match index {
                Index::Ellipsis if has_ellipsis => {
                    throw_value(NAME, "an index has two ellipses".into(), &[])
                }
                Index::Ellipsis => {
                    has_ellipsis = true;
                    entries.extend(rest.iter().cloned());
                }
                other => entries.push(other.clone()),
            }
        }
        if !has_ellipsis {
            entries.extend(rest);
        }
        let axes: Vec<AxisRange> = entries
            .iter()
            .filter(is_axis)
            .enumerate()
            .map(|(axis, index)| AxisRange::of(index, shape[axis], axis))
            .collect();
        let list = |f: fn(&AxisRange) -> usize| axes.iter().map(f).collect::<Vec<_>>();
        let part =
            self.slice(&list(|one| one.start), &list(|one| one.limit), &list(|one| one.stride));
        let which = |f: fn(&AxisRange) -> bool| -> Vec<usize> {
            (0..axes.len()).filter(|&axis| f(&axes[axis])).collect()
        };
        let part = part.rev(&which(|one| one.is_reversed)).squeeze(&which(|one| one.is_dropped));
        let kept: Vec<&Index> =
            entries.iter().filter(|index| !matches!(index, Index::At(_))).collect();
        if kept.len() == part.ndim() {
            return part;
        }
        let is_new = |position: usize| matches!(kept[position], Index::NewAxis);
        let old: Vec<usize> = (0..kept.len()).filter(|&position| !is_new(position)).collect();
        let mut shape = vec![1; kept.len()];
        old.iter().zip(part.shape().iter()).for_each(|(&to, &size)| shape[to] = size);
        part.broadcast_in_dim(shape, &old)
    }

    /// Returns one slice at start indices, a vector that may be traced, without the collapsed axes.
    ///
    /// Throws `Op` (unsupported) for more than one vector of start indices, as JAX does, and in the
    /// cases of [`Bcoo::dynamic_slice`].
    #[doc(alias = "bcoo_gather")]
    #[track_caller]
    pub fn gather(
        &self,
        start_indices: &Array,
        numbers: &GatherDimensionNumbers,
        slice_sizes: &[usize],
    ) -> Bcoo {
        const NAME: &str = "Bcoo::gather";
        if start_indices.rank() != 1 || !numbers.operand_batching_dims.is_empty() {
            let error = RuleError::unsupported(format!(
                "gathers one slice at a vector of start indices, got {}",
                start_indices.shape()
            ));
            throw_operands(NAME, error.help("gather from `todense()`"), &[start_indices]);
        }
        if start_indices.size() != numbers.start_index_map.len() {
            let message = format!(
                "{} start indices for axes {:?}",
                start_indices.size(),
                numbers.start_index_map
            );
            throw_shape(NAME, message, &[start_indices]);
        }
        let mut starts = vec![scalar(0).astype(DType::I32); self.ndim()];
        for (position, &axis) in numbers.start_index_map.iter().enumerate() {
            starts[axis] = start_indices.index(i![position]);
        }
        self.dynamic_slice(&starts, slice_sizes).squeeze(&numbers.collapsed_slice_dims)
    }
}
