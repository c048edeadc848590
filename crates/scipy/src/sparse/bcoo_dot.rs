//! Products of [`Bcoo`] with dense and sparse arrays.

use super::bcoo::Bcoo;
use super::entries::{columns, dropped, each_batch, gather_at, in_range, masked, scatter_at};
use super::{SparseArray, expect_axes};
use crate::operands::{throw_shape, throw_value};
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::primitives::{ConvGeneralDilated, DotGeneral, Padding};

/// Returns the axes that are neither contracted nor batched.
fn free(rank: usize, contracting: &[usize], batch: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !contracting.contains(axis) && !batch.contains(axis)).collect()
}

/// Checks that the axes of a product fit the shapes.
#[track_caller]
fn expect_product(name: &str, lhs: &Shape, rhs: &Shape, axes: &DotGeneral) {
    let DotGeneral { lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, .. } = axes;
    expect_axes(name, &[&lhs_contracting[..], lhs_batch].concat(), lhs.rank());
    expect_axes(name, &[&rhs_contracting[..], rhs_batch].concat(), rhs.rank());
    let counts = [lhs_contracting, lhs_batch].map(Vec::len);
    if counts != [rhs_contracting, rhs_batch].map(Vec::len) {
        throw_value(name, format!("the axes of both operands are not paired: {axes:?}"), &[]);
    }
    let pairs =
        lhs_contracting.iter().chain(lhs_batch).zip(rhs_contracting.iter().chain(rhs_batch));
    for (&l, &r) in pairs {
        if lhs[l] != rhs[r] {
            let message = format!(
                "sizes differ: lhs {lhs} axis {l} is {}, rhs {rhs} axis {r} is {}",
                lhs[l], rhs[r]
            );
            throw_shape(name, message, &[]);
        }
    }
}

/// Exchanges the operands of a product.
fn exchanged(axes: &DotGeneral) -> DotGeneral {
    DotGeneral {
        lhs_contracting: axes.rhs_contracting.clone(),
        rhs_contracting: axes.lhs_contracting.clone(),
        lhs_batch: axes.rhs_batch.clone(),
        rhs_batch: axes.lhs_batch.clone(),
        ..axes.clone()
    }
}

/// Returns the axes of a product of arrays as `matmul` multiplies them, without broadcasting of
/// batch axes.
#[track_caller]
fn matmul_axes(lhs: usize, rhs: usize) -> DotGeneral {
    if lhs == 0 || rhs == 0 {
        throw_shape("matmul", "takes arrays of rank 1 or more, got a scalar".into(), &[]);
    }
    let n_batch = if lhs > 1 && rhs > 1 { lhs.min(rhs) - 2 } else { 0 };
    DotGeneral {
        lhs_contracting: vec![lhs - 1],
        rhs_contracting: vec![rhs.saturating_sub(2)],
        lhs_batch: (0..n_batch).collect(),
        rhs_batch: (0..n_batch).collect(),
        ..DotGeneral::default()
    }
}

/// An operand of a product, whose batch axes are all batch axes of the product.
struct Operand {
    array: Bcoo,
    /// The axis of the original operand that each axis is.
    origins: Vec<usize>,
}

impl Operand {
    /// Makes the batch axes that are not in `kept` sparse, brings the others into the order of
    /// `kept`, and makes dense axes sparse if `used` contains one.
    #[track_caller]
    fn of(array: &Bcoo, kept: &[usize], used: &[usize]) -> Operand {
        let n_batch = array.n_batch();
        let others = (0..n_batch).filter(|axis| !kept.contains(axis));
        let origins: Vec<usize> =
            kept.iter().copied().chain(others).chain(n_batch..array.ndim()).collect();
        let is_dense = |axis: &usize| *axis >= n_batch + array.n_sparse();
        let n_dense = if used.iter().any(is_dense) { 0 } else { array.n_dense };
        let array = array.transpose(&origins).update_layout(kept.len(), n_dense);
        Operand { array, origins }
    }

    /// Returns the column of indices that an original axis is.
    fn column(&self, axis: usize) -> usize {
        let position = self.origins.iter().position(|&origin| origin == axis);
        position.expect("every axis is somewhere") - self.array.n_batch()
    }

    /// Returns the columns of indices that are not in `used`.
    fn free_columns(&self, used: &[usize]) -> Vec<usize> {
        (0..self.array.n_sparse()).filter(|column| !used.contains(column)).collect()
    }
}

impl Bcoo {
    /// Returns the product with a dense array, which is dense: `[batch…, own free axes…, free axes
    /// of rhs…]`, as [`dot_general`](oxidax::primitives::dot_general) does.
    ///
    /// Any axes may be contracted or batched. Batch axes of this array that are not batch axes of
    /// the product become sparse first.
    ///
    /// Throws `Op` (shape) for sizes that differ, and `Op` (value) for axes that are not paired.
    #[doc(alias = "bcoo_dot_general")]
    #[track_caller]
    pub fn dot_general(&self, rhs: &Array, axes: &DotGeneral) -> Array {
        expect_product("Bcoo::dot_general", &self.shape(), rhs.shape(), axes);
        Loc::caller().scope(|| self.dense_product(rhs, axes))
    }

    /// Returns the product of a dense array with this one, `[batch…, free axes of lhs…, own free
    /// axes…]`. See [`Bcoo::dot_general`].
    #[doc(alias = "bcoo_dot_general")]
    #[track_caller]
    pub fn rdot_general(&self, lhs: &Array, axes: &DotGeneral) -> Array {
        expect_product("Bcoo::rdot_general", lhs.shape(), &self.shape(), axes);
        Loc::caller().scope(|| {
            let product = self.dense_product(lhs, &exchanged(axes));
            let n_batch = axes.lhs_batch.len();
            let own = self.ndim() - axes.rhs_contracting.len() - n_batch;
            let rank = product.rank();
            let order: Vec<usize> =
                (0..n_batch).chain(n_batch + own..rank).chain(n_batch..n_batch + own).collect();
            transpose(&product, &order)
        })
    }

    fn dense_product(&self, rhs: &Array, axes: &DotGeneral) -> Array {
        let DotGeneral { lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, .. } = axes;
        let used = [&lhs_contracting[..], lhs_batch].concat();
        let kept: Vec<usize> =
            lhs_batch.iter().copied().filter(|&axis| axis < self.n_batch()).collect();
        let lhs = Operand::of(self, &kept, &used);
        let dtype = axes.preferred_element_type.unwrap_or_else(|| result_type([&self.data, rhs]));
        // Batch axes of the product that are sparse in this array are gathered and scattered.
        let pairs = || lhs_batch.iter().copied().zip(rhs_batch.iter().copied());
        let sparse_batch: Vec<(usize, usize)> =
            pairs().filter(|(l, _)| !kept.contains(l)).collect();
        let batch_columns: Vec<usize> = sparse_batch.iter().map(|&(l, _)| lhs.column(l)).collect();
        let contracted: Vec<usize> = lhs_contracting.iter().map(|&axis| lhs.column(axis)).collect();
        let gathered = [&batch_columns[..], &contracted].concat();
        let free_columns = lhs.free_columns(&gathered);
        let scattered = [&batch_columns[..], &free_columns].concat();
        let sizes: Vec<usize> =
            scattered.iter().map(|&column| lhs.array.sparse_shape[column]).collect();

        let rhs_free = free(rhs.rank(), rhs_contracting, rhs_batch);
        let order: Vec<usize> = kept
            .iter()
            .map(|&axis| pairs().find(|&(l, _)| l == axis).expect("kept axes are batch axes").1)
            .chain(sparse_batch.iter().map(|&(_, r)| r))
            .chain(rhs_contracting.iter().copied())
            .chain(rhs_free.iter().copied())
            .collect();
        let operands = vec![
            lhs.array.data.astype(dtype),
            lhs.array.indices.clone(),
            transpose(rhs, &order).astype(dtype),
        ];
        let n_free = rhs_free.len();
        let product = each_batch(kept.len(), operands, |operands| {
            let [data, indices, rhs] = operands else { unreachable!("there are three operands") };
            let rows = gather_at(rhs, &columns(indices, &gathered));
            let n_dense = data.rank() - 1;
            let wide = |x: &Array, front: usize, behind: usize| {
                let mut shape = vec![x.shape()[0]];
                shape.extend(vec![1; front]);
                shape.extend(&x.shape()[1..]);
                shape.extend(vec![1; behind]);
                reshape(x, shape)
            };
            let products = wide(data, 0, n_free) * wide(&rows, n_dense, 0);
            let products = if sizes.is_empty() || gathered.is_empty() {
                masked(&products, &in_range(indices, &lhs.array.sparse_shape))
            } else {
                products
            };
            vec![scatter_at(&products, &columns(indices, &scattered), &sizes)]
        });

        // The axes of the product, as axes of the operands.
        let n_kept = kept.len();
        let origin = |column: &usize| lhs.origins[column + n_kept];
        let behind = lhs.array.n_batch() + lhs.array.n_sparse();
        let found: Vec<usize> = kept
            .iter()
            .copied()
            .chain(scattered.iter().map(origin))
            .chain(lhs.origins[behind..].iter().copied())
            .collect();
        let lhs_free = free(self.ndim(), lhs_contracting, lhs_batch);
        let wanted = lhs_batch.iter().chain(&lhs_free);
        let position = |axis: &usize| found.iter().position(|own| own == axis);
        let order: Vec<usize> = wanted
            .map(|axis| position(axis).expect("the product has every free axis"))
            .chain(found.len()..found.len() + n_free)
            .collect();
        transpose(&product[0], &order)
    }

    /// Returns the product with another sparse array, which is sparse: `[batch…, own free axes…,
    /// free axes of rhs…]`.
    ///
    /// All pairs of entries of a batch are compared. The result has at most as many entries as
    /// there are pairs, sorted and without duplicates.
    ///
    /// Throws in the cases of [`Bcoo::dot_general`].
    #[doc(alias = "bcoo_spdot_general")]
    #[track_caller]
    pub fn spdot_general(&self, rhs: &Bcoo, axes: &DotGeneral) -> Bcoo {
        expect_product("Bcoo::spdot_general", &self.shape(), &rhs.shape(), axes);
        Loc::caller().scope(|| self.sparse_product(rhs, axes))
    }

    fn sparse_product(&self, rhs: &Bcoo, axes: &DotGeneral) -> Bcoo {
        let DotGeneral { lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, .. } = axes;
        let is_batched = lhs_batch.iter().all(|&axis| axis < self.n_batch())
            && rhs_batch.iter().all(|&axis| axis < rhs.n_batch());
        let kept = |batch: &[usize]| if is_batched { batch.to_vec() } else { Vec::new() };
        let left = Operand::of(&self.update_layout(self.n_batch(), 0), &kept(lhs_batch), &[]);
        let right = Operand::of(&rhs.update_layout(rhs.n_batch(), 0), &kept(rhs_batch), &[]);
        let matched = |operand: &Operand, batch: &[usize], contracting: &[usize]| {
            let of_batch = if is_batched { &[][..] } else { batch };
            let batch: Vec<usize> = of_batch.iter().map(|&axis| operand.column(axis)).collect();
            let contracted = contracting.iter().map(|&axis| operand.column(axis));
            (batch.clone(), batch.into_iter().chain(contracted).collect::<Vec<usize>>())
        };
        let (batch_columns, of_left) = matched(&left, lhs_batch, lhs_contracting);
        let (_, of_right) = matched(&right, rhs_batch, rhs_contracting);
        let left_free = left.free_columns(&of_left);
        let right_free = right.free_columns(&of_right);
        let left_out = [&batch_columns[..], &left_free].concat();
        let size = |operand: &Operand, column: usize| operand.array.sparse_shape[column];
        let sizes: Vec<usize> = left_out
            .iter()
            .map(|&column| size(&left, column))
            .chain(right_free.iter().map(|&column| size(&right, column)))
            .collect();
        let dtype =
            axes.preferred_element_type.unwrap_or_else(|| result_type([&self.data, &rhs.data]));
        let operands = vec![
            left.array.data.astype(dtype),
            left.array.indices.clone(),
            right.array.data.astype(dtype),
            right.array.indices.astype(left.array.indices.dtype()),
        ];
        let list = each_batch(left.array.n_batch(), operands, |operands| {
            let [data, indices, other_data, other_indices] = operands else {
                unreachable!("there are four operands")
            };
            let (n, m) = (data.size(), other_data.size());
            let keys = columns(indices, &of_left).expand_dims(1);
            let other_keys = columns(other_indices, &of_right).expand_dims(0);
            let mut is_pair = full(([n, m], DType::Bool), true);
            if !of_left.is_empty() {
                is_pair = eq(keys, other_keys).all_axes(-1);
            }
            let inside = in_range(indices, &left.array.sparse_shape).expand_dims(1);
            let other_inside = in_range(other_indices, &right.array.sparse_shape).expand_dims(0);
            let is_pair = logical_and(is_pair, logical_and(inside, other_inside));
            let is_pair = reshape(&is_pair, [n * m]);
            let products = reshape(&(data.expand_dims(1) * other_data.expand_dims(0)), [n * m]);
            let pairs = |rows: &Array, axis: isize| {
                let count = rows.shape()[1];
                let wide = broadcast_to(&rows.expand_dims(axis), [n, m, count]);
                reshape(&wide, [n * m, count])
            };
            let rows = concatenate(
                [
                    &pairs(&columns(indices, &left_out), 1),
                    &pairs(&columns(other_indices, &right_free), 0),
                ],
                -1,
            );
            vec![masked(&products, &is_pair), dropped(&rows, &is_pair, &sizes)]
        });
        let pairs = list[0].shape()[left.array.n_batch()];
        let nse = pairs.min(sizes.iter().product());
        Bcoo::of_list(list, sizes, 0).sum_duplicates_to(nse)
    }

    /// Returns the matrix product with a dense array. Batch axes must be equal.
    ///
    /// Throws in the cases of [`Bcoo::dot_general`], and `Op` (shape) for a scalar.
    #[doc(alias = "__matmul__")]
    #[track_caller]
    pub fn matmul(&self, rhs: &Array) -> Array {
        self.dot_general(rhs, &matmul_axes(self.ndim(), rhs.rank()))
    }

    /// Returns the matrix product of a dense array with this one. See [`Bcoo::matmul`].
    #[doc(alias = "__rmatmul__")]
    #[track_caller]
    pub fn rmatmul(&self, lhs: &Array) -> Array {
        self.rdot_general(lhs, &matmul_axes(lhs.rank(), self.ndim()))
    }

    /// Returns the matrix product with another sparse array. See [`Bcoo::spdot_general`].
    #[track_caller]
    pub fn matmul_sparse(&self, rhs: &Bcoo) -> Bcoo {
        self.spdot_general(rhs, &matmul_axes(self.ndim(), rhs.ndim()))
    }

    /// Convolves a sparse signal `[1, 1, n]` with a sparse kernel `[1, 1, m]`, as
    /// [`conv_general_dilated`](oxidax::primitives::conv_general_dilated) does.
    ///
    /// Throws `Op` (unsupported) for other shapes, strides, dilations or groups, as JAX does.
    #[doc(alias = "bcoo_conv_general_dilated")]
    #[track_caller]
    pub fn conv_general_dilated(&self, rhs: &Bcoo, options: &ConvGeneralDilated) -> Bcoo {
        const NAME: &str = "Bcoo::conv_general_dilated";
        let (n, m) = match (&self.shape()[..], &rhs.shape()[..]) {
            (&[1, 1, n], &[1, 1, m]) => (n, m),
            _ => (0, 0),
        };
        let is_plain = |list: &[usize]| list.iter().all(|&one| one == 1);
        let usual = ConvGeneralDilated::default();
        if m == 0
            || n == 0
            || ![&options.window_strides, &options.lhs_dilation, &options.rhs_dilation]
                .into_iter()
                .all(|list| is_plain(list))
            || (options.feature_group_count, options.batch_group_count) != (1, 1)
            || options.dimension_numbers != usual.dimension_numbers
        {
            let error = RuleError::unsupported(format!(
                "takes a signal [1, 1, n] and a kernel [1, 1, m] without strides, dilations and \
                 groups, got {} and {}",
                self.shape(),
                rhs.shape()
            ));
            let error = error.help("convolve `todense()`");
            throw_operands(NAME, error, &[&self.data, &rhs.data]);
        }
        let (low, high) = match &options.padding {
            Padding::Valid => (0, 0),
            Padding::Same => (((m - 1) / 2) as isize, (m / 2) as isize),
            Padding::SameLower => ((m / 2) as isize, ((m - 1) / 2) as isize),
            Padding::Explicit(pads) if pads.len() == 1 => pads[0],
            Padding::Explicit(pads) => {
                throw_value(NAME, format!("needs one pair of paddings, got {pads:?}"), &[])
            }
        };
        let size = (n as isize + low + high - m as isize + 1).max(0) as usize;
        let (left, right) = (self.flat(), rhs.flat());
        let dtype = result_type([&left.data, &right.data]);
        Loc::caller().scope(|| {
            let at = |x: &Bcoo| slice_in_dim(&x.indices, 2, 3, 1, -1).astype(DType::I32);
            let offsets = at(&left).expand_dims(1) - at(&right).expand_dims(0) + low as i32;
            let inside = logical_and(
                in_range(&left.indices, &left.sparse_shape).expand_dims(1),
                in_range(&right.indices, &right.sparse_shape).expand_dims(0),
            );
            let pairs = left.nse() * right.nse();
            let offsets = reshape(&offsets, [pairs, 1]);
            let kept = logical_and(reshape(&inside, [pairs]), in_range(&offsets, &[size]));
            let products = left.data.astype(dtype).expand_dims(1) * right.data.expand_dims(0);
            let products = masked(&reshape(&products, [pairs]), &kept);
            let rows = pad(&offsets, [(0, 0), (2, 0)]);
            let sizes = vec![1, 1, size];
            let rows = dropped(&rows, &kept, &sizes);
            Bcoo::of(products, rows, sizes, 0).sum_duplicates_to(pairs.min(size))
        })
    }
}

/// Returns the elements of the product of two dense arrays at indices `[batch…, nse, n_sparse]` of
/// its axes behind the batch axes of the indices: `[batch…, nse, other axes…]`.
///
/// If the indices count along all axes of the product, only these elements are computed.
///
/// Throws `Op` (shape) for indices with more axes than the product, and in the cases of
/// [`dot_general`](oxidax::primitives::dot_general).
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// use oxidax_scipy::sparse::bcoo_dot_general_sampled;
/// let (x, y) = (array![[1.0, 2.0], [3.0, 4.0]], array![[1.0, 0.0], [1.0, 1.0]]);
/// let (lhs_contracting, rhs_contracting) = (vec![1], vec![0]);
/// let axes = DotGeneral { lhs_contracting, rhs_contracting, ..Default::default() };
/// let sampled = bcoo_dot_general_sampled(&x, &y, &array![[0, 0], [1, 1]], &axes);
/// assert_eq!(sampled.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn bcoo_dot_general_sampled(
    lhs: &Array,
    rhs: &Array,
    indices: &Array,
    axes: &DotGeneral,
) -> Array {
    const NAME: &str = "bcoo_dot_general_sampled";
    expect_product(NAME, lhs.shape(), rhs.shape(), axes);
    let lhs_free = free(lhs.rank(), &axes.lhs_contracting, &axes.lhs_batch);
    let rhs_free = free(rhs.rank(), &axes.rhs_contracting, &axes.rhs_batch);
    let rank = axes.lhs_batch.len() + lhs_free.len() + rhs_free.len();
    let n_batch = indices.rank().saturating_sub(2);
    let is_known = indices.rank() >= 2 && n_batch + indices.shape()[n_batch + 1] <= rank;
    if !is_known {
        let message = format!("the product has {rank} axes, the indices are {}", indices.shape());
        throw_shape(NAME, message, &[lhs, rhs, indices]);
    }
    let n_sparse = indices.shape()[n_batch + 1];
    Loc::caller().scope(|| {
        if n_batch > 0 || n_sparse < rank {
            let product = dot_general(lhs, rhs, axes.clone());
            let results = each_batch(n_batch, vec![product, indices.clone()], |operands| {
                vec![gather_at(&operands[0], &operands[1])]
            });
            return results[0].clone();
        }
        let in_front = |x: &Array, batch: &[usize], free: &[usize], contracting: &[usize]| {
            transpose(x, &[batch, free, contracting].concat())
        };
        let dtype = axes.preferred_element_type.unwrap_or_else(|| result_type([lhs, rhs]));
        let n_axes = axes.lhs_batch.len();
        let behind = n_axes + lhs_free.len();
        let of_lhs: Vec<usize> = (0..behind).collect();
        let of_rhs: Vec<usize> = (0..n_axes).chain(behind..rank).collect();
        let left = in_front(lhs, &axes.lhs_batch, &lhs_free, &axes.lhs_contracting).astype(dtype);
        let right = in_front(rhs, &axes.rhs_batch, &rhs_free, &axes.rhs_contracting).astype(dtype);
        let rows = gather_at(&left, &columns(indices, &of_lhs));
        let others = gather_at(&right, &columns(indices, &of_rhs));
        let over: Vec<isize> = (1..rows.rank() as isize).collect();
        reduce_sum(&(rows * others), &over)
    })
}
