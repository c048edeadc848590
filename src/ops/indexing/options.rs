//! Options of indexed reads and updates.

use super::index::Index;
use crate::core::{Array, DType, Scalar};
use crate::primitives::{GatherOptions, GatherScatterMode, ScatterOptions, index_of};

/// Options of [`Array::at_with`], [`take_along_axis_with`](super::take_along_axis_with) and
/// [`put_along_axis_with`](crate::ops::put_along_axis_with).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexOptions {
    /// The treatment of indices out of range, also of static ones. With `None`, the default,
    /// [`At::get`](super::At::get) clamps array indices and rejects static ones, updates drop
    /// array indices and reject static ones, and `take_along_axis` fills.
    pub mode: Option<GatherScatterMode>,
    /// The value that [`GatherScatterMode::FillOrDrop`] fills with. `None` is NaN, the smallest
    /// value of a signed integer dtype, the largest of an unsigned one, or true.
    pub fill_value: Option<Scalar>,
    /// Promises that no element is indexed twice. The default is false.
    pub unique_indices: bool,
    /// Promises that the index vectors are in lexicographic order. The default is false.
    pub indices_are_sorted: bool,
    /// Counts negative elements of index arrays from the end. The default is true; otherwise they
    /// are out of range.
    pub wrap_negative_indices: bool,
}

impl Default for IndexOptions {
    fn default() -> Self {
        IndexOptions {
            mode: None,
            fill_value: None,
            unique_indices: false,
            indices_are_sorted: false,
            wrap_negative_indices: true,
        }
    }
}

impl IndexOptions {
    /// Returns the options of a gather whose mode is `default` unless it is set.
    pub(super) fn gather(&self, default: GatherScatterMode) -> GatherOptions {
        GatherOptions {
            mode: self.mode.unwrap_or(default),
            fill_value: self.fill_value,
            unique_indices: self.unique_indices,
            indices_are_sorted: self.indices_are_sorted,
        }
    }

    /// Returns the options of a scatter, which drops updates out of range unless the mode is set.
    pub(super) fn scatter(&self) -> ScatterOptions {
        ScatterOptions {
            mode: self.mode.unwrap_or_default(),
            unique_indices: self.unique_indices,
            indices_are_sorted: self.indices_are_sorted,
        }
    }

    /// Replaces static indices that are out of range by index arrays, to which the mode applies.
    pub(super) fn with_dynamic(&self, indices: Vec<Index>, x: &Array) -> Vec<Index> {
        if self.mode.is_none() {
            return indices;
        }
        let n_before = |end: usize| {
            indices[..end].iter().filter(|index| !matches!(index, Index::NewAxis)).count()
        };
        let ellipsis = indices.iter().position(|index| matches!(index, Index::Ellipsis));
        let axis = |position: usize| match ellipsis {
            Some(ellipsis) if position > ellipsis => {
                let after = n_before(indices.len()) - n_before(position);
                x.rank().checked_sub(after)
            }
            _ => Some(n_before(position)),
        };
        let replaced = |(position, index): (usize, &Index)| match index {
            &Index::At(at) => {
                let size = axis(position).and_then(|axis| x.shape().get(axis).copied());
                let in_range =
                    size.is_none_or(|size| (-(size as isize)..size as isize).contains(&at));
                if in_range {
                    Index::At(at)
                } else {
                    Index::Array(index_of(Scalar::Int(at as i128), DType::I64))
                }
            }
            other => other.clone(),
        };
        indices.iter().enumerate().map(replaced).collect()
    }
}

/// Treatment of indices out of range by [`take_with`](super::take_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeMode {
    /// Negative indices count from the end; other indices out of range give the fill value.
    #[default]
    Fill,
    /// Clips to the nearest index; negative indices become 0.
    Clip,
    /// Takes indices modulo the size.
    Wrap,
}

/// Options of [`take_with`](super::take_with).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TakeOptions {
    /// The treatment of indices out of range. The default is [`TakeMode::Fill`].
    pub mode: TakeMode,
    /// The value that [`TakeMode::Fill`] fills with. `None` is NaN, the smallest value of a signed
    /// integer dtype, the largest of an unsigned one, or true.
    pub fill_value: Option<Scalar>,
    /// Promises that no index occurs twice. The default is false.
    pub unique_indices: bool,
    /// Promises that the indices are in increasing order. The default is false.
    pub indices_are_sorted: bool,
}

impl TakeOptions {
    /// Returns the options of the gather.
    pub(super) fn gather(&self) -> GatherOptions {
        let mode = match self.mode {
            TakeMode::Fill => GatherScatterMode::FillOrDrop,
            TakeMode::Clip => GatherScatterMode::Clip,
            TakeMode::Wrap => GatherScatterMode::PromiseInBounds,
        };
        GatherOptions {
            mode,
            fill_value: self.fill_value,
            unique_indices: self.unique_indices,
            indices_are_sorted: self.indices_are_sorted,
        }
    }
}
