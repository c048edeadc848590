//! Gathering elements by integer arrays.

use super::options::{IndexOptions, TakeMode, TakeOptions};
use crate::core::{Array, DType, RuleError, Scalar, Shape, trace};
use crate::ops::IndexMode;
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    GatherDimensionNumbers, GatherOptions, GatherScatterMode, add, broadcast_to,
    convert_element_type, fill_of, gather_with, lt, reshape, where_, zeros_like,
};

/// Converts indices to signed integers of 32 bits and more.
#[track_caller]
pub(super) fn signed_indices(indices: &Array) -> Array {
    let dtype = match indices.dtype() {
        narrow if narrow.bits() < 32 => DType::I32,
        unsigned if unsigned.is_unsigned() => DType::I64,
        other => other,
    };
    convert_element_type(indices, dtype)
}

/// Converts indices to signed integers and adds the size to negative ones.
#[track_caller]
pub(super) fn wrap_negative(indices: &Array, size: usize) -> Array {
    let is_unsigned = indices.dtype().is_unsigned();
    let indices = signed_indices(indices);
    if is_unsigned {
        return indices;
    }
    let end = fill_of(Scalar::Int(size as i128), indices.aval());
    where_(lt(&indices, zeros_like(&indices)), add(&indices, end), &indices)
}

/// Gathers slices of `x` along `axes` at the index vectors in the last axis of `indices`. The
/// result has the other axes of `x`, and before axis `position` the leading axes of `indices`.
#[track_caller]
pub(super) fn gather_axes(
    x: &Array,
    axes: &[usize],
    indices: &Array,
    position: usize,
    options: GatherOptions,
) -> Array {
    let n_index_axes = indices.rank() - 1;
    let rank = x.rank() - axes.len() + n_index_axes;
    let numbers = GatherDimensionNumbers {
        offset_dims: (0..rank)
            .filter(|&axis| axis < position || axis >= position + n_index_axes)
            .collect(),
        collapsed_slice_dims: axes.to_vec(),
        start_index_map: axes.to_vec(),
        ..Default::default()
    };
    let size = |axis: usize| if axes.contains(&axis) { 1 } else { x.shape()[axis] };
    let slice_sizes: Vec<usize> = (0..x.rank()).map(size).collect();
    gather_with(x, indices, &numbers, &slice_sizes, options)
}

#[track_caller]
fn expect_indices(name: &str, x: &Array, indices: &Array, axis: isize) -> usize {
    let checked = resolve_axis(axis, x.rank()).and_then(|axis| {
        if !indices.dtype().is_integer() {
            return Err(RuleError::dtype(format!(
                "indices must be integers, got {}",
                indices.aval()
            )));
        }
        if x.shape()[axis] == 0 && indices.size() > 0 {
            return Err(RuleError::shape(format!(
                "axis {axis} is empty, so {} elements cannot be gathered from it",
                indices.size()
            )));
        }
        Ok(axis)
    });
    match checked {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &[x, indices]),
    }
}

/// Returns the slices of `x` along `axis` at `indices`. The axes of `indices` replace that axis:
/// `[a…, n, b…]` at `[i…]` gives `[a…, i…, b…]`.
///
/// Without an axis, `take(&x, &indices, None)`, the elements of the flattened array are taken.
/// Negative indices count from the end. An index out of range gives NaN, the lowest value of signed
/// integers, the highest of unsigned ones, or true; [`Array::index`] clamps instead, and
/// [`take_with`] has a choice. Throws `Op` for an axis out of range and indices that are not
/// integers.
///
/// ```
/// use oxidax::prelude::*;
/// let (table, tokens) = (Aval::new(DType::BF16, [50257, 768]), Aval::new(DType::I32, [8, 128]));
/// let x = eval_shape(|table: Array, tokens: Array| take(&table, &tokens, 0), (table, tokens))?;
/// assert_eq!(x.aval().to_string(), "bf16[8,128,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn take(x: &Array, indices: &Array, axis: impl Into<Option<isize>>) -> Array {
    take_with(x, indices, axis, TakeOptions::default())
}

/// Returns the slices of `x` along `axis` at `indices`, as [`take`], with another treatment of
/// indices out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, ids) = (array![1.0, 2.0, 3.0], array![0, 4, -1]);
/// let taken = |mode| take_with(&x, &ids, 0, TakeOptions { mode, ..Default::default() });
/// assert_eq!(taken(TakeMode::Clip).to_vec::<f32>()?, [1.0, 3.0, 1.0]);
/// assert_eq!(taken(TakeMode::Wrap).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn take_with(
    x: &Array,
    indices: &Array,
    axis: impl Into<Option<isize>>,
    options: TakeOptions,
) -> Array {
    let axis = axis.into();
    let x = &if axis.is_none() { reshape(x, [x.size()]) } else { x.clone() };
    take_along(x, indices, axis.unwrap_or(0), options)
}

#[track_caller]
fn take_along(x: &Array, indices: &Array, axis: isize, options: TakeOptions) -> Array {
    let axis = expect_indices("take", x, indices, axis);
    let size = x.shape()[axis];
    let mut shape = x.shape()[..axis].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&x.shape()[axis + 1..]);
    if size == 0 {
        return fill_of(Scalar::Int(0), &x.aval().with_shape(shape));
    }
    let indices = match options.mode {
        TakeMode::Fill => wrap_negative(indices, size),
        TakeMode::Clip => signed_indices(indices),
        TakeMode::Wrap => IndexMode::Wrap.apply(&signed_indices(indices), size),
    };
    let column = reshape(&indices, indices.shape().insert(indices.rank(), 1));
    gather_axes(x, &[axis], &column, axis, options.gather())
}

/// Returns, for each element of `indices`, the element of `x` at that index along `axis` and at the
/// same indices along the other axes: the scores of labels, for example, or the order of `argsort`.
///
/// `x` and `indices` have the same rank, and their other axes broadcast. Negative indices and
/// indices out of range are treated as in [`take`]. Throws `Op` for other ranks, sizes that do not
/// broadcast, an axis out of range and indices that are not integers.
///
/// ```
/// use oxidax::prelude::*;
/// let (scores, labels) = (Aval::new(DType::F32, [128, 10]), Aval::new(DType::I32, [128, 1]));
/// let x = eval_shape(
///     |scores: Array, labels: Array| take_along_axis(&scores, &labels, -1),
///     (scores, labels),
/// )?;
/// assert_eq!(x.aval().to_string(), "f32[128,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn take_along_axis(x: &Array, indices: &Array, axis: impl Into<Option<isize>>) -> Array {
    take_along_axis_with(x, indices, axis, IndexOptions::default())
}

/// Returns elements along an axis, as [`take_along_axis`], with another treatment of indices out of
/// range, and promises about the indices.
///
/// ```
/// use oxidax::prelude::*;
/// let options = IndexOptions { fill_value: Some(0.0.into()), ..Default::default() };
/// let y = take_along_axis_with(&array![1.0, 2.0], &array![1, 2], 0, options);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn take_along_axis_with(
    x: &Array,
    indices: &Array,
    axis: impl Into<Option<isize>>,
    options: IndexOptions,
) -> Array {
    let axis = axis.into();
    let x = &if axis.is_none() { reshape(x, [x.size()]) } else { x.clone() };
    elements_along(x, indices, axis.unwrap_or(0), options)
}

#[track_caller]
fn elements_along(x: &Array, indices: &Array, axis: isize, options: IndexOptions) -> Array {
    let axis = expect_indices("take_along_axis", x, indices, axis);
    let (size, count) = (x.shape()[axis], indices.shape().get(axis).copied().unwrap_or(0));
    let others = |shape: &Shape| -> Shape {
        shape.iter().enumerate().map(|(other, &n)| if other == axis { 1 } else { n }).collect()
    };
    let joint = (x.rank() == indices.rank())
        .then(|| others(x.shape()).broadcast(&others(indices.shape())))
        .flatten();
    let Some(joint) = joint else {
        let message = format!(
            "{} and indices {} must agree or be 1 in every axis but {axis}",
            x.shape(),
            indices.shape()
        );
        trace::throw_operands("take_along_axis", RuleError::shape(message), &[x, indices]);
    };
    let with = |size: usize| joint.remove(axis).insert(axis, size);
    if size == 0 {
        return fill_of(Scalar::Int(0), &x.aval().with_shape(with(count)));
    }
    let indices = if options.wrap_negative_indices {
        wrap_negative(indices, size)
    } else {
        signed_indices(indices)
    };
    let indices = broadcast_to(&indices, with(count));
    let x = broadcast_to(x, with(size));
    let column = reshape(&indices, indices.shape().insert(indices.rank(), 1));
    let batch: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
    let numbers = GatherDimensionNumbers {
        collapsed_slice_dims: vec![axis],
        start_index_map: vec![axis],
        operand_batching_dims: batch.clone(),
        start_indices_batching_dims: batch,
        ..Default::default()
    };
    let options = options.gather(GatherScatterMode::FillOrDrop);
    gather_with(&x, &column, &numbers, &vec![1; x.rank()], options)
}
