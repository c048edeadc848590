//! Entries of sparse arrays without batch axes: rows of indices with one slice of data each.
//!
//! An entry whose index is out of range does not belong to the array. Such entries pad arrays with
//! a fixed number of entries; their indices are the sizes of the axes.

use oxidax::core::{Scalar, bind1};
use oxidax::prelude::*;
use oxidax::primitives::{
    Combiner, Gather, GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers,
};

/// Applies `f` to the examples along the first `n_batch` axes of the operands, and restores these
/// axes in the results.
#[track_caller]
pub(super) fn each_batch(
    n_batch: usize,
    operands: Vec<Array>,
    f: impl Fn(&[Array]) -> Vec<Array>,
) -> Vec<Array> {
    if n_batch == 0 {
        return f(&operands);
    }
    let batch = operands[0].shape()[..n_batch].to_vec();
    let size: usize = batch.iter().product();
    let flat: Vec<Array> = operands
        .iter()
        .map(|x| {
            let shape: Vec<usize> =
                [size].into_iter().chain(x.shape()[n_batch..].iter().copied()).collect();
            reshape(x, shape)
        })
        .collect();
    let results = vmap(|operands: Vec<Array>| f(&operands)).apply(flat);
    let restored = results.iter().map(|x| {
        let shape: Vec<usize> = batch.iter().chain(&x.shape()[1..]).copied().collect();
        reshape(x, shape)
    });
    restored.collect()
}

/// Returns sizes as a vector of indices.
#[track_caller]
pub(super) fn index_row(sizes: &[usize], dtype: DType) -> Array {
    if sizes.is_empty() {
        return zeros(([0], dtype));
    }
    let entries: Vec<Array> = sizes.iter().map(|&size| full(([1], dtype), size as i64)).collect();
    concatenate(&entries, 0)
}

/// Returns column `index` of rows of indices.
#[track_caller]
pub(super) fn column(indices: &Array, index: usize) -> Array {
    squeeze(&slice_in_dim(indices, index as isize, index as isize + 1, 1, -1), &[-1])
}

/// Returns columns of rows of indices.
#[track_caller]
pub(super) fn columns(indices: &Array, which: &[usize]) -> Array {
    let count = indices.shape()[indices.rank() - 1];
    if which.iter().copied().eq(0..count) {
        return indices.clone();
    }
    let parts: Vec<Array> = which
        .iter()
        .map(|&index| slice_in_dim(indices, index as isize, index as isize + 1, 1, -1))
        .collect();
    if parts.is_empty() {
        return slice_in_dim(indices, 0, 0, 1, -1);
    }
    concatenate(&parts, -1)
}

/// Returns the rows whose indices are in range: `bool[n]`.
#[track_caller]
pub(super) fn in_range(indices: &Array, sizes: &[usize]) -> Array {
    if sizes.is_empty() {
        return full((vec![indices.shape()[0]], DType::Bool), true);
    }
    let bounds = index_row(sizes, indices.dtype());
    let is_inside = logical_and(ge(indices, 0), lt(indices, bounds));
    is_inside.all_axes(-1)
}

/// Sets the data of rows that are not kept to 0.
#[track_caller]
pub(super) fn masked(data: &Array, kept: &Array) -> Array {
    let mut shape = vec![1; data.rank()];
    shape[0] = kept.size();
    where_(reshape(kept, shape), data, zeros_like(data))
}

/// Sets the indices of rows that are not kept to the sizes.
#[track_caller]
pub(super) fn dropped(indices: &Array, kept: &Array, sizes: &[usize]) -> Array {
    where_(kept.expand_dims(-1), indices, index_row(sizes, indices.dtype()))
}

/// Returns the slices of `x` at rows of indices of its first axes: `[n, rest…]`. Slices out of
/// range are 0.
#[track_caller]
pub(super) fn gather_at(x: &Array, indices: &Array) -> Array {
    let (n, count) = (indices.shape()[0], indices.shape()[1]);
    let shape: Vec<usize> = [n].into_iter().chain(x.shape()[count..].iter().copied()).collect();
    if count == 0 {
        return broadcast_to(&x.expand_dims(0), shape);
    }
    if x.size() == 0 {
        return zeros((shape, x.dtype()));
    }
    let mut slice_sizes = x.shape().to_vec();
    slice_sizes[..count].fill(1);
    let gather = Gather {
        dimension_numbers: GatherDimensionNumbers {
            offset_dims: (1..=x.rank() - count).collect(),
            collapsed_slice_dims: (0..count).collect(),
            start_index_map: (0..count).collect(),
            ..GatherDimensionNumbers::default()
        },
        slice_sizes,
        unique_indices: false,
        indices_are_sorted: false,
        mode: GatherScatterMode::FillOrDrop,
        fill_value: Some(Scalar::Int(0)),
    };
    bind1(gather, [x, indices])
}

/// Adds slices at rows of indices to zeros of the sizes. Rows out of range are dropped.
#[track_caller]
pub(super) fn scatter_at(data: &Array, indices: &Array, sizes: &[usize]) -> Array {
    if data.dtype() == DType::Bool {
        let counts = scatter_at(&data.astype(DType::I32), indices, sizes);
        return gt(&counts, 0);
    }
    if sizes.is_empty() {
        return data.sum_axes(0).astype(data.dtype());
    }
    let shape: Vec<usize> = sizes.iter().chain(&data.shape()[1..]).copied().collect();
    let start = zeros((shape, data.dtype()));
    scatter_into(&start, data, indices, Combiner::Add)
}

/// Combines slices at rows of indices into `start`. Rows out of range are dropped.
#[track_caller]
pub(super) fn scatter_into(
    start: &Array,
    data: &Array,
    indices: &Array,
    combiner: Combiner,
) -> Array {
    if start.size() == 0 || data.size() == 0 {
        return start.clone();
    }
    let count = indices.shape()[1];
    let numbers = ScatterDimensionNumbers {
        update_window_dims: (1..data.rank()).collect(),
        inserted_window_dims: (0..count).collect(),
        scatter_dims_to_operand_dims: (0..count).collect(),
        ..ScatterDimensionNumbers::default()
    };
    scatter(start, indices, data, combiner, &numbers, GatherScatterMode::FillOrDrop)
}

/// Returns the indices of all elements of an array of the sizes, in row-major order.
#[track_caller]
pub(super) fn all_indices(sizes: &[usize], dtype: DType) -> Array {
    let n: usize = sizes.iter().product();
    if sizes.is_empty() || n == 0 {
        return zeros(([n, sizes.len()], dtype));
    }
    let each: Vec<Array> = (0..sizes.len())
        .map(|axis| reshape(&broadcasted_iota(dtype, sizes, axis), [n, 1]))
        .collect();
    concatenate(&each, 1)
}

/// Sorts rows of indices lexicographically, and returns them with their positions before.
#[track_caller]
fn sorted_rows(indices: &Array) -> (Array, Array) {
    let (n, count) = (indices.shape()[0], indices.shape()[1]);
    let positions = iota(DType::I32, n);
    if count == 0 {
        return (indices.clone(), positions);
    }
    let mut operands: Vec<Array> = (0..count).map(|index| column(indices, index)).collect();
    operands.push(positions);
    let mut sorted = sort_multi(&operands, 0, count);
    let positions = sorted.pop().expect("positions are the last operand");
    (stack(&sorted, -1), positions)
}

/// Sorts entries by their indices.
#[track_caller]
pub(super) fn sorted_entries(data: &Array, indices: &Array) -> [Array; 2] {
    let (indices, positions) = sorted_rows(indices);
    [take(data, &positions, 0), indices]
}

/// Sorts entries, and returns with them the number of each entry's group of equal indices, and the
/// entries that begin a group in range.
#[track_caller]
fn groups(data: &Array, indices: &Array, sizes: &[usize]) -> (Array, Array, Array, Array) {
    let kept = in_range(indices, sizes);
    let [data, indices] = sorted_entries(&masked(data, &kept), &dropped(indices, &kept, sizes));
    let n = indices.shape()[0];
    let begins = if n == 0 {
        zeros(([0], DType::Bool))
    } else {
        let (before, after) = (
            slice_in_dim(&indices, 0, n as isize - 1, 1, 0),
            slice_in_dim(&indices, 1, n as isize, 1, 0),
        );
        let differs = ne(before, after).any_axes(-1);
        concatenate([full(([1], DType::Bool), true), differs], 0)
    };
    let numbers = cumsum(&begins.astype(DType::I32), 0) - 1;
    let begins_inside = logical_and(&begins, in_range(&indices, sizes));
    (data, indices, numbers, begins_inside)
}

/// Returns the number of different indices in range.
#[track_caller]
pub(super) fn count_distinct(indices: &Array, sizes: &[usize]) -> Array {
    let data = zeros((vec![indices.shape()[0]], DType::I32));
    groups(&data, indices, sizes).3.astype(DType::I32).sum()
}

/// Adds the data of entries with equal indices. Returns `nse` entries, sorted, padded behind.
#[track_caller]
pub(super) fn summed_entries(
    data: &Array,
    indices: &Array,
    sizes: &[usize],
    nse: usize,
) -> [Array; 2] {
    let (data, indices, numbers, _) = groups(data, indices, sizes);
    let numbers = numbers.expand_dims(-1);
    let start = broadcast_to(&index_row(sizes, indices.dtype()), [nse, sizes.len()]);
    // All indices of a group are equal, and none is larger than the sizes.
    [scatter_at(&data, &numbers, &[nse]), scatter_into(&start, &indices, &numbers, Combiner::Min)]
}
