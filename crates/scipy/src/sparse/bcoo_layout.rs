//! Changes of the layout of [`Bcoo`]: transposition, and axes between batch, sparse and dense.

use super::bcoo::Bcoo;
use super::entries::{all_indices, column, columns, dropped, each_batch, masked};
use super::{SparseArray, expect_permutation};
use crate::operands::throw_value;
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;

impl Bcoo {
    /// Permutes the axes. Batch, sparse and dense axes stay in their groups.
    ///
    /// Throws `Op` (value) for a list that is not a permutation, and `Op` (unsupported) if an axis
    /// leaves its group.
    #[doc(alias = "bcoo_transpose")]
    #[track_caller]
    pub fn transpose(&self, permutation: &[usize]) -> Bcoo {
        expect_permutation("Bcoo::transpose", permutation, self.ndim());
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let group =
            |axis: usize| usize::from(axis >= n_batch) + usize::from(axis >= n_batch + n_sparse);
        if permutation.iter().enumerate().any(|(to, &from)| group(to) != group(from)) {
            let error = RuleError::unsupported(format!(
                "the permutation {permutation:?} moves axes between {n_batch} batch axes, \
                 {n_sparse} sparse axes and {} dense axes",
                self.n_dense
            ));
            let error = error.help("change the groups with `update_layout` first");
            throw_operands("Bcoo::transpose", error, &[&self.data, &self.indices]);
        }
        let batch = permutation[..n_batch].to_vec();
        let sparse: Vec<usize> =
            permutation[n_batch..n_batch + n_sparse].iter().map(|axis| axis - n_batch).collect();
        let dense = permutation[n_batch + n_sparse..].iter().map(|axis| axis + 1 - n_sparse);
        let of_data: Vec<usize> = batch.iter().copied().chain([n_batch]).chain(dense).collect();
        let of_indices: Vec<usize> = batch.iter().copied().chain([n_batch, n_batch + 1]).collect();
        let data = transpose(&self.data, &of_data);
        let indices = columns(&transpose(&self.indices, &of_indices), &sparse);
        let is_same = sparse.iter().copied().eq(0..n_sparse);
        let sparse_shape = sparse.iter().map(|&axis| self.sparse_shape[axis]).collect();
        Bcoo::of(data, indices, sparse_shape, self.n_dense)
            .promise(is_same && self.indices_sorted, self.unique_indices)
    }

    /// Returns the transposed array, with all axes of each group in reverse order.
    #[doc(alias = "T")]
    #[track_caller]
    pub fn t(&self) -> Bcoo {
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        let groups = [0..n_batch, n_batch..n_batch + n_sparse, n_batch + n_sparse..self.ndim()];
        let permutation: Vec<usize> = groups.into_iter().flat_map(|group| group.rev()).collect();
        self.transpose(&permutation)
    }

    /// Changes the numbers of batch and dense axes. The axes between them are sparse.
    ///
    /// Fewer batch and dense axes have more entries. More of them have zeros among the data: `nse`
    /// entries for each batch, or along each new dense axis.
    ///
    /// Throws `Op` (value) for more batch and dense axes than there are axes.
    #[doc(alias = "bcoo_update_layout")]
    #[track_caller]
    pub fn update_layout(&self, n_batch: usize, n_dense: usize) -> Bcoo {
        if n_batch + n_dense > self.ndim() {
            let message = format!(
                "{n_batch} batch axes and {n_dense} dense axes of an array of rank {}",
                self.ndim()
            );
            throw_value("Bcoo::update_layout", message, &[&self.data, &self.indices]);
        }
        Loc::caller().scope(|| {
            let mut x = self.clone();
            // More sparse axes come first, so that there are enough for the others.
            while x.n_batch() > n_batch {
                x = x.batch_to_sparse();
            }
            if x.n_dense > n_dense {
                x = x.dense_to_sparse(n_dense);
            }
            while x.n_batch() < n_batch {
                x = x.sparse_to_batch();
            }
            while x.n_dense < n_dense {
                x = x.sparse_to_dense();
            }
            x
        })
    }

    /// Makes the last batch axis the first sparse axis.
    #[track_caller]
    fn batch_to_sparse(&self) -> Bcoo {
        let n_batch = self.n_batch() - 1;
        let size = self.data.shape()[n_batch];
        let operands = vec![self.data.clone(), self.indices.clone()];
        let list = each_batch(n_batch, operands, |operands| {
            let [data, indices] = operands else { unreachable!("there are two operands") };
            let nse = indices.shape()[1];
            let rows = size * nse;
            let rest = data.shape()[2..].iter().copied();
            let data = reshape(data, [rows].into_iter().chain(rest).collect::<Vec<_>>());
            let count = indices.shape()[2];
            let own = broadcasted_iota(indices.dtype(), [size, nse, 1], 0);
            let indices = concatenate([&own, indices], -1);
            vec![data, reshape(&indices, [rows, count + 1])]
        });
        let sparse_shape = [size].into_iter().chain(self.sparse_shape.iter().copied()).collect();
        Bcoo::of_list(list, sparse_shape, self.n_dense)
            .promise(self.indices_sorted, self.unique_indices)
    }

    /// Makes the first dense axes sparse axes, until `n_dense` are left.
    #[track_caller]
    fn dense_to_sparse(&self, n_dense: usize) -> Bcoo {
        let sizes = self.dense_shape()[..self.n_dense - n_dense].to_vec();
        let n: usize = sizes.iter().product();
        let list = self.each(|data, indices| {
            let (nse, count) = (indices.shape()[0], indices.shape()[1]);
            let rest = data.shape()[1 + sizes.len()..].iter().copied();
            let data = reshape(data, [nse * n].into_iter().chain(rest).collect::<Vec<_>>());
            let rows = broadcast_to(&indices.expand_dims(1), [nse, n, count]);
            let within = all_indices(&sizes, indices.dtype());
            let within = broadcast_to(&within.expand_dims(0), [nse, n, sizes.len()]);
            let indices = concatenate([&rows, &within], -1);
            [data, reshape(&indices, [nse * n, count + sizes.len()])]
        });
        let sparse_shape = self.sparse_shape.iter().chain(&sizes).copied().collect();
        Bcoo::of_list(list, sparse_shape, n_dense).promise(self.indices_sorted, self.unique_indices)
    }

    /// Makes the first sparse axis the last batch axis. Each batch has all entries; those of other
    /// batches are out of range.
    #[track_caller]
    fn sparse_to_batch(&self) -> Bcoo {
        let (size, rest) = (self.sparse_shape[0], self.sparse_shape[1..].to_vec());
        let list = self.each(|data, indices| {
            let own: Vec<usize> = (1..indices.shape()[1]).collect();
            let (first, others) = (column(indices, 0), columns(indices, &own));
            let one = |batch: Array| {
                let kept = eq(&first, batch.astype(first.dtype()));
                (masked(data, &kept), dropped(&others, &kept, &rest))
            };
            let (data, indices) = vmap(one).apply(iota(DType::I32, size));
            [data, indices]
        });
        Bcoo::of_list(list, rest.clone(), self.n_dense)
    }

    /// Makes the last sparse axis the first dense axis. Entries are 0 except at their index.
    #[track_caller]
    fn sparse_to_dense(&self) -> Bcoo {
        let last = self.n_sparse() - 1;
        let size = self.sparse_shape[last];
        let list = self.each(|data, indices| {
            let at = column(indices, last);
            let is_own = eq(at.expand_dims(-1), iota(at.dtype(), size));
            let mut shape = is_own.shape().to_vec();
            shape.resize(data.rank() + 1, 1);
            let wide = data.expand_dims(1);
            let data = where_(reshape(&is_own, shape), &wide, zeros_like(&wide));
            let others: Vec<usize> = (0..last).collect();
            [data, columns(indices, &others)]
        });
        Bcoo::of_list(list, self.sparse_shape[..last].to_vec(), self.n_dense + 1)
    }

    /// Returns the array as entries without batch and dense axes.
    #[track_caller]
    pub(super) fn flat(&self) -> Bcoo {
        self.update_layout(0, 0)
    }
}
