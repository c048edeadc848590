//! Shapes of [`Bcoo`]: reshaping, broadcasting, joining, slicing, reversing.

use super::bcoo::Bcoo;
use super::entries::{all_indices, column, columns, dropped, in_range, index_row, masked};
use super::{SparseArray, expect_axes};
use crate::operands::{throw_shape, throw_value};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;

/// Multiplies sizes from the back: the distances of neighbours in row-major order.
fn strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis];
    }
    strides
}

impl Bcoo {
    /// Returns the array with another shape and the elements in row-major order.
    ///
    /// Batch axes stay batch axes if the new shape begins with as many elements; otherwise they
    /// become sparse.
    ///
    /// Throws `Op` (shape) for another number of elements, and `Op` (unsupported) for dense axes.
    #[doc(alias = "bcoo_reshape")]
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Bcoo {
        const NAME: &str = "Bcoo::reshape";
        let shape = shape.into();
        if shape.size() != self.shape().size() {
            let message = format!("{} has other elements than {shape}", self.shape());
            throw_shape(NAME, message, &[&self.data]);
        }
        if self.n_dense > 0 {
            let error = RuleError::unsupported(format!("{} axes are dense", self.n_dense))
                .help("make them sparse with `update_layout`");
            throw_operands(NAME, error, &[&self.data]);
        }
        let batch: usize = self.batch_shape().iter().product();
        let n_batch = if self.n_batch() == 0 {
            Some(0)
        } else {
            (1..=shape.rank()).find(|&n| shape[..n].iter().product::<usize>() == batch)
        };
        let Some(n_batch) = n_batch else {
            return self.update_layout(0, 0).reshape(shape);
        };
        let (old, new) = (self.sparse_shape.clone(), shape[n_batch..].to_vec());
        let list = self.each(|data, indices| {
            let kept = in_range(indices, &old);
            let n = indices.shape()[0];
            let mut flat = zeros((vec![n], indices.dtype()));
            for (axis, stride) in strides(&old).into_iter().enumerate() {
                flat += column(indices, axis) * stride as i32;
            }
            let parts: Vec<Array> = strides(&new)
                .into_iter()
                .zip(&new)
                .map(|(stride, &size)| {
                    rem(div_floor(&flat, stride.max(1)), full_like(&flat, size.max(1) as i64))
                })
                .collect();
            let rows = if parts.is_empty() { columns(indices, &[]) } else { stack(&parts, -1) };
            [masked(data, &kept), dropped(&rows, &kept, &new)]
        });
        let with_batch = |x: &Array, skip: usize| {
            let rest = x.shape()[skip..].iter();
            reshape(x, shape[..n_batch].iter().chain(rest).copied().collect::<Vec<_>>())
        };
        let skip = self.n_batch();
        let list = list.iter().map(|x| with_batch(x, skip)).collect();
        Bcoo::of_list(list, new.clone(), 0).promise(self.indices_sorted, self.unique_indices)
    }

    /// Broadcasts to a shape: axis `i` becomes axis `broadcast_dimensions[i]`, which has the same
    /// size, unless axis `i` has size 1.
    ///
    /// New axes in front of a batch axis are batch axes, those behind a dense axis dense axes, and
    /// the others sparse axes, which multiply the number of entries.
    ///
    /// Throws `Op` (value) unless the dimensions increase, and `Op` (shape) for sizes that differ.
    #[doc(alias = "bcoo_broadcast_in_dim")]
    #[track_caller]
    pub fn broadcast_in_dim(
        &self,
        shape: impl Into<Shape>,
        broadcast_dimensions: &[usize],
    ) -> Bcoo {
        const NAME: &str = "Bcoo::broadcast_in_dim";
        let (shape, own, to) = (shape.into(), self.shape(), broadcast_dimensions);
        let increases = to.windows(2).all(|pair| pair[0] < pair[1]);
        if to.len() != own.rank() || !increases || to.iter().any(|&axis| axis >= shape.rank()) {
            let message =
                format!("the {} axes need increasing axes of {shape}, got {to:?}", own.rank());
            throw_value(NAME, message, &[&self.data]);
        }
        if own.iter().zip(to).any(|(&size, &axis)| size != shape[axis] && size != 1) {
            throw_shape(NAME, format!("{own} does not broadcast to {shape} by {to:?}"), &[]);
        }
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let new_batch = if n_batch == 0 { 0 } else { to[n_batch - 1] + 1 };
        let dense_start = to.get(n_batch + n_sparse).copied().unwrap_or(shape.rank());
        let new_sparse = shape[new_batch..dense_start].to_vec();
        let sources: Vec<Option<usize>> = (new_batch..dense_start)
            .map(|axis| (0..n_sparse).find(|&from| to[n_batch + from] == axis))
            .map(|from| from.filter(|&from| self.sparse_shape[from] != 1))
            .zip(&new_sparse)
            .map(|(from, &size)| {
                // An axis of size 1 that stays as it is has index 0 like a new axis of size 1.
                debug_assert!(from.is_none_or(|from| self.sparse_shape[from] == size));
                from
            })
            .collect();
        let free: Vec<usize> =
            (0..new_sparse.len()).filter(|&axis| sources[axis].is_none()).collect();
        let free_sizes: Vec<usize> = free.iter().map(|&axis| new_sparse[axis]).collect();
        let n: usize = free_sizes.iter().product();
        Loc::caller().scope(|| {
            let list = self.each(|data, indices| {
                let (nse, kept) = (indices.shape()[0], in_range(indices, &self.sparse_shape));
                let grid = all_indices(&free_sizes, indices.dtype());
                let parts: Vec<Array> = (0..new_sparse.len())
                    .map(|axis| {
                        let (values, shape) = match sources[axis] {
                            Some(from) => (column(indices, from), [nse, 1]),
                            None => {
                                let own = free.iter().position(|&free| free == axis);
                                (column(&grid, own.expect("the axis is free")), [1, n])
                            }
                        };
                        reshape(&broadcast_to(&reshape(&values, shape), [nse, n]), [nse * n])
                    })
                    .collect();
                let repeated = |x: &Array| {
                    let rest: Vec<usize> = x.shape()[1..].to_vec();
                    let wide: Vec<usize> = [nse, n].iter().chain(&rest).copied().collect();
                    let flat: Vec<usize> = [nse * n].iter().chain(&rest).copied().collect();
                    reshape(&broadcast_to(&x.expand_dims(1), wide), flat)
                };
                let rows = if parts.is_empty() {
                    repeated(&columns(indices, &[]))
                } else {
                    stack(&parts, -1)
                };
                let data = repeated(&masked(data, &kept));
                [data, dropped(&rows, &repeated(&kept), &new_sparse)]
            });
            let spread = |x: &Array, tail: &[usize], tail_axes: Vec<usize>| {
                let target: Vec<usize> = shape[..new_batch]
                    .iter()
                    .copied()
                    .chain([x.shape()[n_batch]])
                    .chain(tail.iter().copied())
                    .collect();
                let axes: Vec<usize> =
                    to[..n_batch].iter().copied().chain([new_batch]).chain(tail_axes).collect();
                broadcast_in_dim(x, target, &axes)
            };
            let dense_axes = to[n_batch + n_sparse..].iter();
            let dense_axes = dense_axes.map(|axis| new_batch + 1 + axis - dense_start).collect();
            let data = spread(&list[0], &shape[dense_start..], dense_axes);
            let indices = spread(&list[1], &[new_sparse.len()], vec![new_batch + 1]);
            Bcoo::of(data, indices, new_sparse.clone(), shape.rank() - dense_start)
        })
    }

    /// Concatenates arrays along a batch or a sparse axis. The numbers of batch and dense axes are
    /// those of the first one.
    ///
    /// Throws `Op` (value) without arrays, `Op` (shape) for arrays that differ along other axes,
    /// and `Op` (unsupported) for a dense axis.
    #[doc(alias = "bcoo_concatenate")]
    #[track_caller]
    pub fn concatenate<'a>(arrays: impl IntoIterator<Item = &'a Bcoo>, dimension: usize) -> Bcoo {
        const NAME: &str = "Bcoo::concatenate";
        let arrays: Vec<&Bcoo> = arrays.into_iter().collect();
        let Some(&first) = arrays.first() else {
            throw_value(NAME, "takes at least one array, got 0".into(), &[]);
        };
        let without = |x: &Bcoo| {
            let mut shape = x.shape().to_vec();
            shape.get_mut(dimension).map(|size| std::mem::replace(size, 0));
            shape
        };
        for other in &arrays {
            if without(first) != without(other) || dimension >= first.ndim() {
                let message = format!(
                    "{} and {} do not join along axis {dimension}",
                    first.shape(),
                    other.shape()
                );
                throw_shape(NAME, message, &[&first.data, &other.data]);
            }
        }
        let (n_batch, n_dense) = (first.n_batch(), first.n_dense);
        let alike: Vec<Bcoo> = arrays.iter().map(|x| x.update_layout(n_batch, n_dense)).collect();
        if dimension >= n_batch + first.n_sparse() {
            let error = RuleError::unsupported(format!("axis {dimension} is dense"))
                .help("make it sparse with `update_layout`");
            throw_operands(NAME, error, &[&first.data]);
        }
        Loc::caller().scope(|| {
            if dimension < n_batch {
                let most = alike.iter().map(SparseArray::nse).max().unwrap_or(0);
                let padded: Vec<Bcoo> = alike.iter().map(|x| x.padded(most)).collect();
                let data: Vec<&Array> = padded.iter().map(|x| &x.data).collect();
                let indices: Vec<&Array> = padded.iter().map(|x| &x.indices).collect();
                let axis = dimension as isize;
                return Bcoo::of(
                    concatenate(data, axis),
                    concatenate(indices, axis),
                    first.sparse_shape.clone(),
                    n_dense,
                );
            }
            let axis = dimension - n_batch;
            let mut sizes = first.sparse_shape.clone();
            sizes[axis] = alike.iter().map(|x| x.sparse_shape[axis]).sum();
            let mut start = 0;
            let moved: Vec<Bcoo> = alike
                .iter()
                .map(|x| {
                    let mut offset = vec![0; sizes.len()];
                    offset[axis] = start;
                    start += x.sparse_shape[axis];
                    let list = x.each(|data, indices| {
                        let kept = in_range(indices, &x.sparse_shape);
                        let rows = indices + index_row(&offset, indices.dtype());
                        [masked(data, &kept), dropped(&rows, &kept, &sizes)]
                    });
                    Bcoo::of_list(list, sizes.clone(), n_dense)
                })
                .collect();
            let data: Vec<&Array> = moved.iter().map(|x| &x.data).collect();
            let indices: Vec<&Array> = moved.iter().map(|x| &x.indices).collect();
            let axis = n_batch as isize;
            Bcoo::of(concatenate(data, axis), concatenate(indices, axis), sizes.clone(), n_dense)
        })
    }

    /// Adds entries out of range, until each batch has `nse`.
    #[track_caller]
    fn padded(&self, nse: usize) -> Bcoo {
        let missing = nse.saturating_sub(self.nse());
        let list = self.each(|data, indices| {
            let more = |x: &Array, row: &Array| {
                let rest = x.shape()[1..].iter().copied();
                let shape: Vec<usize> = [missing].into_iter().chain(rest).collect();
                concatenate([x, &broadcast_to(row, shape)], 0)
            };
            let outside = index_row(&self.sparse_shape, indices.dtype());
            [more(data, &zeros((Vec::<usize>::new(), data.dtype()))), more(indices, &outside)]
        });
        Bcoo::of_list(list, self.sparse_shape.clone(), self.n_dense)
    }

    /// Removes axes of size 1.
    ///
    /// Throws `Op` (shape) for an axis of another size.
    #[doc(alias = "bcoo_squeeze")]
    #[track_caller]
    pub fn squeeze(&self, dimensions: &[usize]) -> Bcoo {
        const NAME: &str = "Bcoo::squeeze";
        expect_axes(NAME, dimensions, self.ndim());
        let shape = self.shape();
        if let Some(&axis) = dimensions.iter().find(|&&axis| shape[axis] != 1) {
            throw_shape(NAME, format!("axis {axis} of {shape} does not have size 1"), &[]);
        }
        self.without_axes(dimensions)
    }

    /// Drops axes: entries out of range along them are lost, and the others keep their other
    /// indices.
    #[track_caller]
    pub(super) fn without_axes(&self, dimensions: &[usize]) -> Bcoo {
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let kept_axes: Vec<usize> =
            (0..n_sparse).filter(|axis| !dimensions.contains(&(axis + n_batch))).collect();
        let sizes: Vec<usize> = kept_axes.iter().map(|&axis| self.sparse_shape[axis]).collect();
        let list = self.each(|data, indices| {
            let kept = in_range(indices, &self.sparse_shape);
            [masked(data, &kept), dropped(&columns(indices, &kept_axes), &kept, &sizes)]
        });
        let batch: Vec<isize> =
            dimensions.iter().filter(|&&axis| axis < n_batch).map(|&axis| axis as isize).collect();
        let dense = dimensions.iter().filter(|&&axis| axis >= n_batch + n_sparse);
        let dense: Vec<isize> = dense.map(|&axis| (axis + 1 - n_sparse) as isize).collect();
        let data = squeeze(&list[0], &[batch.clone(), dense.clone()].concat());
        let n_dense = self.n_dense - dense.len();
        Bcoo::of(data, squeeze(&list[1], &batch), sizes, n_dense)
    }

    /// Returns the elements from `start_indices` up to `limit_indices`, with strides. The number of
    /// entries stays.
    ///
    /// Throws `Op` (shape) for ranges that do not fit, and `Op` (value) for a stride of 0.
    #[doc(alias = "bcoo_slice")]
    #[track_caller]
    pub fn slice(
        &self,
        start_indices: &[usize],
        limit_indices: &[usize],
        strides: &[usize],
    ) -> Bcoo {
        const NAME: &str = "Bcoo::slice";
        let shape = self.shape();
        let n_axes = shape.rank();
        let is_range = |axis: usize| {
            start_indices[axis] <= limit_indices[axis] && limit_indices[axis] <= shape[axis]
        };
        if [start_indices, limit_indices, strides].iter().any(|list| list.len() != n_axes)
            || !(0..n_axes).all(is_range)
        {
            let message =
                format!("{start_indices:?} to {limit_indices:?} is not a part of {shape}");
            throw_shape(NAME, message, &[&self.data]);
        }
        if strides.contains(&0) {
            throw_value(NAME, format!("strides {strides:?} must be positive"), &[]);
        }
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let behind = n_batch + n_sparse;
        let around = |list: &[usize], middle: usize, tail: &[usize]| -> Vec<usize> {
            list[..n_batch].iter().copied().chain([middle]).chain(tail.iter().copied()).collect()
        };
        let nse = self.nse();
        let data = slice(
            &self.data,
            &around(start_indices, 0, &start_indices[behind..]),
            &around(limit_indices, nse, &limit_indices[behind..]),
            &around(strides, 1, &strides[behind..]),
        );
        let indices = slice(
            &self.indices,
            &around(start_indices, 0, &[0]),
            &around(limit_indices, nse, &[n_sparse]),
            &around(strides, 1, &[1]),
        );
        let part = Bcoo::of(data, indices, self.sparse_shape.clone(), self.n_dense)
            .promise(self.indices_sorted, self.unique_indices);
        let (starts, limits) = (&start_indices[n_batch..behind], &limit_indices[n_batch..behind]);
        let strides = &strides[n_batch..behind];
        let ranges = starts.iter().zip(limits).zip(strides);
        let sizes: Vec<usize> =
            ranges.map(|((start, limit), stride)| (limit - start).div_ceil(*stride)).collect();
        part.within(
            &starts.iter().map(|&start| scalar(start as i64)).collect::<Vec<_>>(),
            strides,
            &sizes,
        )
    }

    /// Returns a part of given sizes from the start indices, which may be traced. As in
    /// [`dynamic_slice`](oxidax::primitives::dynamic_slice), starts are moved so that the part is
    /// within the array.
    ///
    /// Throws `Op` (shape) unless there are a start and a size for each axis, which fit.
    #[doc(alias = "bcoo_dynamic_slice")]
    #[track_caller]
    pub fn dynamic_slice(&self, start_indices: &[Array], slice_sizes: &[usize]) -> Bcoo {
        const NAME: &str = "Bcoo::dynamic_slice";
        let shape = self.shape();
        let fits = slice_sizes.iter().zip(shape.iter()).all(|(part, size)| part <= size);
        if start_indices.len() != shape.rank() || slice_sizes.len() != shape.rank() || !fits {
            let message = format!(
                "{} starts and sizes {slice_sizes:?} are not a part of {shape}",
                start_indices.len()
            );
            throw_shape(NAME, message, &[&self.data]);
        }
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let behind = n_batch + n_sparse;
        let starts: Vec<Array> = start_indices
            .iter()
            .zip(shape.iter().zip(slice_sizes))
            .map(|(start, (&size, &part))| clip(start, 0, (size - part) as i64).astype(DType::I32))
            .collect();
        let zero = || scalar(0).astype(DType::I32);
        let of_batch = || starts[..n_batch].iter().cloned().chain([zero()]);
        let sizes_of = |tail: &[usize]| -> Vec<usize> {
            let head = slice_sizes[..n_batch].iter().copied();
            head.chain([self.nse()]).chain(tail.iter().copied()).collect()
        };
        let of_data: Vec<Array> = of_batch().chain(starts[behind..].iter().cloned()).collect();
        let of_indices: Vec<Array> = of_batch().chain([zero()]).collect();
        let data = dynamic_slice(&self.data, of_data, sizes_of(&slice_sizes[behind..]));
        let indices = dynamic_slice(&self.indices, of_indices, sizes_of(&[n_sparse]));
        let part = Bcoo::of(data, indices, self.sparse_shape.clone(), self.n_dense)
            .promise(self.indices_sorted, self.unique_indices);
        part.within(&starts[n_batch..behind], &vec![1; n_sparse], &slice_sizes[n_batch..behind])
    }

    /// Keeps the entries whose indices are `start + stride * i` for `i` within the sizes.
    #[track_caller]
    fn within(&self, starts: &[Array], strides: &[usize], sizes: &[usize]) -> Bcoo {
        if self.n_sparse() == 0 {
            return self.clone();
        }
        Loc::caller().scope(|| {
            let list = self.each(|data, indices| {
                let mut kept = in_range(indices, &self.sparse_shape);
                let mut parts = Vec::with_capacity(starts.len());
                for (axis, start) in starts.iter().enumerate() {
                    let offset = column(indices, axis) - start.astype(indices.dtype());
                    let stride = strides[axis];
                    let step = full_like(&offset, stride as i64);
                    kept = logical_and(&kept, eq(rem(&offset, step), 0));
                    parts.push(div_floor(&offset, stride));
                }
                let rows = stack(&parts, -1);
                kept = logical_and(&kept, in_range(&rows, sizes));
                [masked(data, &kept), dropped(&rows, &kept, sizes)]
            });
            Bcoo::of_list(list, sizes.to_vec(), self.n_dense).promise(false, self.unique_indices)
        })
    }

    /// Reverses axes.
    ///
    /// Throws `Op` (value) for an axis out of range.
    #[doc(alias = "bcoo_rev")]
    #[track_caller]
    pub fn rev(&self, dimensions: &[usize]) -> Bcoo {
        expect_axes("Bcoo::rev", dimensions, self.ndim());
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let behind = n_batch + n_sparse;
        let batch: Vec<isize> =
            dimensions.iter().filter(|&&axis| axis < n_batch).map(|&axis| axis as isize).collect();
        let dense = dimensions.iter().filter(|&&axis| axis >= behind);
        let dense: Vec<isize> = dense.map(|&axis| (axis + 1 - n_sparse) as isize).collect();
        let data = rev(&self.data, &[batch.clone(), dense].concat());
        let turned =
            Bcoo::of(data, rev(&self.indices, &batch), self.sparse_shape.clone(), self.n_dense);
        if n_sparse == 0 {
            return turned;
        }
        let sizes = &self.sparse_shape;
        let list = turned.each(|data, indices| {
            let kept = in_range(indices, sizes);
            let parts: Vec<Array> = (0..n_sparse)
                .map(|axis| {
                    let own = column(indices, axis);
                    if dimensions.contains(&(axis + n_batch)) {
                        sub(sizes[axis] as i32 - 1, own).astype(indices.dtype())
                    } else {
                        own
                    }
                })
                .collect();
            [masked(data, &kept), dropped(&stack(&parts, -1), &kept, sizes)]
        });
        Bcoo::of_list(list, sizes.clone(), self.n_dense).promise(false, self.unique_indices)
    }
}

/// Divides indices by a stride, rounding down.
#[track_caller]
fn div_floor(x: &Array, stride: usize) -> Array {
    if stride == 1 { x.clone() } else { floor_divide(x, full_like(x, stride as i64)) }
}
