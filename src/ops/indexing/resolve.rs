//! Resolution of an index: slices and reshapes first, then one gather for all index arrays.

use super::index::Index;
use super::mask::{with_mask_axis, without_masks};
use super::options::IndexOptions;
use super::take::{gather_axes, signed_indices, wrap_negative};
use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::{
    GatherScatterMode, broadcast_to, concatenate, dynamic_slice, reshape, rev, slice,
};

/// Action of an index on one axis of the sliced array.
#[derive(Clone)]
pub(super) enum AxisAction {
    /// The axis stays.
    Keep,
    /// The axis is dropped; the value is the static index.
    Drop(usize),
    /// A new axis of size 1 is inserted.
    Insert,
    /// Elements are gathered along the axis by an index array.
    Gather(Array),
}

/// Slice of one axis: start, limit and stride of the primitive, and a flag to reverse the result.
#[derive(Clone)]
pub(super) struct AxisSlice {
    pub(super) start: usize,
    pub(super) limit: usize,
    pub(super) stride: usize,
    pub(super) reversed: bool,
}

impl AxisSlice {
    fn whole(size: usize) -> AxisSlice {
        AxisSlice { start: 0, limit: size, stride: 1, reversed: false }
    }

    /// Applies Python's rule: negative bounds count from the end, and bounds beyond the axis are
    /// clipped.
    fn python(size: usize, start: Option<isize>, stop: Option<isize>, step: isize) -> AxisSlice {
        let n = size as isize;
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let resolve = |bound: Option<isize>, default: isize| match bound {
            Some(bound) => (if bound < 0 { bound + n } else { bound }).clamp(low, high),
            None => default,
        };
        let (start, stop) = if step > 0 {
            (resolve(start, low), resolve(stop, high))
        } else {
            (resolve(start, high), resolve(stop, low))
        };
        let distance = if step > 0 { stop - start } else { start - stop };
        if distance <= 0 {
            return AxisSlice { start: 0, limit: 0, stride: 1, reversed: false };
        }
        let stride = step.unsigned_abs();
        let count = (distance as usize).div_ceil(stride);
        let last = start + (count as isize - 1) * step;
        let (first, end) = if step > 0 { (start, last) } else { (last, start) };
        AxisSlice { start: first as usize, limit: end as usize + 1, stride, reversed: step < 0 }
    }
}

/// Replaces the ellipsis by whole axes, so that every axis has an entry.
fn expanded(indices: &[Index], rank: usize) -> Result<Vec<Index>, RuleError> {
    let ellipses = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
    if ellipses > 1 {
        return Err(RuleError::value(format!("takes one ellipsis, got {ellipses}")));
    }
    let n_indexed =
        indices.iter().filter(|index| !matches!(index, Index::Ellipsis | Index::NewAxis)).count();
    if n_indexed > rank {
        return Err(RuleError::shape(format!("{n_indexed} indices for an array of rank {rank}")));
    }
    let whole =
        || std::iter::repeat_n(Index::Slice { start: None, stop: None, step: 1 }, rank - n_indexed);
    let mut full = Vec::new();
    for index in indices {
        match index {
            Index::Ellipsis => full.extend(whole()),
            other => full.push(other.clone()),
        }
    }
    if ellipses == 0 {
        full.extend(whole());
    }
    Ok(full)
}

/// Resolves an index to a slice of each axis and the actions on the sliced array.
pub(super) fn resolve(
    indices: &[Index],
    x: &Array,
) -> Result<(Vec<AxisSlice>, Vec<AxisAction>), RuleError> {
    let (mut slices, mut actions) = (Vec::new(), Vec::new());
    for index in expanded(&without_masks(indices, x)?, x.rank())? {
        let axis = slices.len();
        let size = x.shape().get(axis).copied().unwrap_or(0);
        match index {
            Index::NewAxis => actions.push(AxisAction::Insert),
            Index::At(index) => {
                let from_start = if index < 0 { index + size as isize } else { index };
                let start = usize::try_from(from_start).ok().filter(|&start| start < size);
                let start = start.ok_or_else(|| {
                    RuleError::value(format!(
                        "index {index} is out of range for axis {axis} of size {size}"
                    ))
                })?;
                slices.push(AxisSlice { start, limit: start + 1, stride: 1, reversed: false });
                actions.push(AxisAction::Drop(start));
            }
            Index::Slice { step: 0, .. } => {
                return Err(RuleError::value(format!("the slice of axis {axis} has step 0")));
            }
            Index::Slice { start, stop, step } => {
                slices.push(AxisSlice::python(size, start, stop, step));
                actions.push(AxisAction::Keep);
            }
            Index::Array(array) => {
                check_index_array(&array, axis)?;
                if size == 0 && array.size() > 0 {
                    return Err(RuleError::shape(format!(
                        "axis {axis} is empty, so {} elements cannot be gathered from it",
                        array.size()
                    )));
                }
                slices.push(AxisSlice::whole(size));
                actions.push(AxisAction::Gather(array));
            }
            Index::Ellipsis => {}
        }
    }
    Ok((slices, actions))
}

fn check_index_array(array: &Array, axis: usize) -> Result<(), RuleError> {
    if array.dtype().is_integer() {
        return Ok(());
    }
    let message = format!("axis {axis} is indexed by {}, indices must be integers", array.aval());
    Err(RuleError::dtype(message))
}

/// Indexing.
impl Array {
    /// Returns the indexed elements, by the rules of NumPy and JAX. Write the index with
    /// [`i!`](crate::i): `x.index(i![0, .., -3.., None])`.
    ///
    /// Axes without an entry stay whole. Several index arrays broadcast against each other and
    /// select together. Their axes replace the first of them, or come first if other entries are
    /// between them. Elements of index arrays may be negative; those out of range are clamped to
    /// the nearest index, also in derivatives. A static index out of range is an error, where JAX
    /// clamps it. A concrete mask of the sizes of one or several axes selects the elements at which
    /// it is true; a traced one is an error, because the shape would depend on it. A scalar mask
    /// adds an axis of size 1, or of size 0 if it is false.
    ///
    /// Throws `Op` for too many entries, static indices out of range, and traced masks.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = array![[1.0, -2.0], [-3.0, 4.0]];
    /// assert_eq!(x.index(i![x.greater(0.0)]).to_vec::<f32>()?, [1.0, 4.0]);
    /// assert_eq!(x.index(i![&array![false, true], ::-1]).to_vec::<f32>()?, [4.0, -3.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "getitem")]
    #[track_caller]
    pub fn index(&self, indices: impl AsRef<[Index]>) -> Array {
        if let Some((indices, x)) = with_mask_axis(indices.as_ref(), self) {
            return x.index(indices);
        }
        match resolve(indices.as_ref(), self) {
            Ok((slices, actions)) => {
                let options = IndexOptions::default();
                self.gather_resolved(&slices, &actions, GatherScatterMode::Clip, options)
            }
            Err(error) => trace::throw_operands("index", error, &[self]),
        }
    }

    /// Returns the elements of a resolved index; `mode` handles indices out of range unless the
    /// options do.
    #[track_caller]
    pub(super) fn gather_resolved(
        &self,
        slices: &[AxisSlice],
        actions: &[AxisAction],
        mode: GatherScatterMode,
        options: IndexOptions,
    ) -> Array {
        let sliced = self.slice_axes(slices);
        let reshaped = reshape(&sliced, shape_after(sliced.shape(), actions));
        if !actions.iter().any(|action| matches!(action, AxisAction::Gather(_))) {
            return reshaped;
        }
        let plan = gather_plan(&reshaped, actions, options);
        let options = options.gather(mode);
        gather_axes(&reshaped, &plan.axes, &plan.indices, plan.position, options)
    }

    #[track_caller]
    pub(super) fn slice_axes(&self, slices: &[AxisSlice]) -> Array {
        let starts: Vec<usize> = slices.iter().map(|slice| slice.start).collect();
        let limits: Vec<usize> = slices.iter().map(|slice| slice.limit).collect();
        let strides: Vec<usize> = slices.iter().map(|slice| slice.stride).collect();
        let whole = starts.iter().all(|&start| start == 0)
            && limits == self.shape().dims()
            && strides.iter().all(|&stride| stride == 1);
        let sliced = if whole {
            self.clone()
        } else if trace::are_operands() {
            // One executable serves every start.
            let spans: Vec<usize> = slices.iter().map(|slice| slice.limit - slice.start).collect();
            let block = dynamic_slice(self, &starts, &spans);
            if strides.iter().all(|&stride| stride == 1) {
                block
            } else {
                slice(&block, &vec![0; spans.len()], &spans, &strides)
            }
        } else {
            slice(self, &starts, &limits, &strides)
        };
        let reversed: Vec<isize> = (0..slices.len())
            .filter(|&axis| slices[axis].reversed)
            .map(|axis| axis as isize)
            .collect();
        if reversed.is_empty() { sliced } else { rev(&sliced, &reversed) }
    }
}

/// Returns the shape after dropping and inserting axes, before index arrays are applied.
pub(super) fn shape_after(x: &Shape, actions: &[AxisAction]) -> Shape {
    let mut axis = 0;
    let mut shape = Vec::new();
    for action in actions {
        match action {
            AxisAction::Insert => shape.push(1),
            AxisAction::Drop(_) => axis += 1,
            AxisAction::Keep | AxisAction::Gather(_) => {
                shape.push(x[axis]);
                axis += 1;
            }
        }
    }
    shape.into()
}

/// One gather that applies all index arrays.
pub(super) struct GatherPlan {
    /// The indexed axes.
    pub(super) axes: Vec<usize>,
    /// The index vectors, along the last axis.
    pub(super) indices: Array,
    /// The axis of the result at which the axes of the index arrays are inserted.
    pub(super) position: usize,
}

/// Broadcasts all index arrays and joins them. `x` has the axes that `actions` keep, insert or
/// gather.
#[track_caller]
pub(super) fn gather_plan(x: &Array, actions: &[AxisAction], options: IndexOptions) -> GatherPlan {
    // Static indices count as index arrays in the rule that orders the axes of the result.
    let advanced: Vec<usize> = (0..actions.len())
        .filter(|&entry| matches!(actions[entry], AxisAction::Gather(_) | AxisAction::Drop(_)))
        .collect();
    let adjacent = advanced.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let (mut arrays, mut axes) = (Vec::new(), Vec::new());
    let (mut axis, mut before_first) = (0, 0);
    for (entry, action) in actions.iter().enumerate() {
        if entry == advanced[0] {
            before_first = axis;
        }
        match action {
            AxisAction::Drop(_) => {}
            AxisAction::Keep | AxisAction::Insert => axis += 1,
            AxisAction::Gather(array) => {
                arrays.push(if options.wrap_negative_indices {
                    wrap_negative(array, x.shape()[axis])
                } else {
                    signed_indices(array)
                });
                axes.push(axis);
                axis += 1;
            }
        }
    }
    let mut joint = Shape::scalar();
    for array in &arrays {
        joint = match joint.broadcast(array.shape()) {
            Some(joint) => joint,
            None => {
                let shapes: Vec<String> = arrays.iter().map(|a| a.shape().to_string()).collect();
                let message = format!("index arrays do not broadcast: {}", shapes.join(", "));
                trace::throw_operands("index", RuleError::shape(message), &[x])
            }
        };
    }
    let column = joint.insert(joint.rank(), 1);
    let mut columns = Vec::new();
    for array in &arrays {
        columns.push(reshape(&broadcast_to(array, &joint), column.clone()));
    }
    let indices = concatenate(columns.iter().collect::<Vec<_>>(), -1);
    GatherPlan { axes, indices, position: if adjacent { before_first } else { 0 } }
}
