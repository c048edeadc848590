//! [`Bcoo`]: batched coordinate format.

use super::entries::{
    count_distinct, each_batch, gather_at, in_range, index_row, scatter_at, sorted_entries,
    summed_entries,
};
use super::{SparseArray, traced_count};
use crate::operands::{throw_shape, throw_value};
use oxidax::core::Loc;
use oxidax::prelude::*;

/// A sparse array in batched coordinate format: entries with an index and data each.
///
/// The axes are `n_batch` batch axes, then `n_sparse` axes that indices count along, then `n_dense`
/// axes of which entries have all elements. Each batch has `nse` entries. Entries with equal
/// indices are added up; entries out of range are dropped.
///
/// `Bcoo` is a tree with the leaves `data` and `indices`: `vmap` maps over the first batch axis,
/// and derivatives by `data` are in [`sparse::grad`](super::grad()).
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{Bcoo, SparseArray};
/// let m = Bcoo::fromdense(&array![[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]);
/// assert_eq!(m.nse(), 3);
/// assert_eq!(m.matmul(&array![1.0, 10.0, 100.0]).to_vec::<f32>()?, [20.0, 301.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "BCOO")]
#[derive(Clone, Debug, Tree)]
pub struct Bcoo {
    /// The data of the entries: `[batch…, nse, dense…]`.
    pub data: Array,
    /// The indices of the entries: integers `[batch…, nse, n_sparse]`.
    pub indices: Array,
    #[tree(static)]
    pub(super) sparse_shape: Vec<usize>,
    #[tree(static)]
    pub(super) n_dense: usize,
    #[tree(static)]
    pub(super) indices_sorted: bool,
    #[tree(static)]
    pub(super) unique_indices: bool,
}

/// Options of [`Bcoo::fromdense_with`] and [`Bcsr::fromdense_with`](super::Bcsr::fromdense_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromDenseOptions {
    /// The number of entries of each batch; counted if `None`, which needs a concrete array.
    pub nse: Option<usize>,
    /// The number of batch axes. The default is 0.
    pub n_batch: usize,
    /// The number of dense axes. The default is 0.
    pub n_dense: usize,
    /// The dtype of indices. The default is `i32`.
    pub index_dtype: DType,
}

impl Default for FromDenseOptions {
    fn default() -> Self {
        FromDenseOptions { nse: None, n_batch: 0, n_dense: 0, index_dtype: DType::I32 }
    }
}

/// Construction and conversion.
impl Bcoo {
    /// Creates an array of a shape from data `[batch…, nse, dense…]` and indices `[batch…, nse,
    /// n_sparse]`. Batch axes of size 1 broadcast.
    ///
    /// Throws `Op` (shape) for arrays that do not fit each other or the shape, and `Op` (value) for
    /// indices that are not integers.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_scipy::sparse::{Bcoo, SparseArray};
    /// let m = Bcoo::new(&array![1.0, 2.0], &array![[0, 1], [2, 0]], [3, 2]);
    /// assert_eq!(m.todense().to_vec::<f32>()?, [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn new(data: &Array, indices: &Array, shape: impl Into<Shape>) -> Bcoo {
        const NAME: &str = "Bcoo";
        let shape = shape.into();
        if !indices.dtype().is_integer() {
            throw_value(NAME, format!("indices must be integers, got {}", indices.aval()), &[]);
        }
        let mismatch = || {
            let message = format!(
                "data [batch…, nse, dense…] and indices [batch…, nse, n_sparse] do not fit the \
                 shape {shape}: {} and {}",
                data.shape(),
                indices.shape()
            );
            throw_shape(NAME, message, &[data, indices])
        };
        if indices.rank() < 2 || data.rank() + 1 < indices.rank() {
            mismatch()
        }
        let (n_batch, n_sparse) = (indices.rank() - 2, indices.shape()[indices.rank() - 1]);
        let n_dense = data.rank() - n_batch - 1;
        if shape.rank() != n_batch + n_sparse + n_dense
            || data.shape()[n_batch] != indices.shape()[n_batch]
            || data.shape()[n_batch + 1..] != shape[n_batch + n_sparse..]
        {
            mismatch()
        }
        let fits = |x: &Array| {
            x.shape()[..n_batch]
                .iter()
                .zip(shape.iter())
                .all(|(&own, &size)| own == size || own == 1)
        };
        if !fits(data) || !fits(indices) {
            mismatch()
        }
        let broadcast = |x: &Array| {
            let rest = x.shape()[n_batch..].iter();
            let target: Vec<usize> = shape[..n_batch].iter().chain(rest).copied().collect();
            broadcast_to(x, target)
        };
        let sparse_shape = shape[n_batch..n_batch + n_sparse].to_vec();
        Bcoo::of(broadcast(data), broadcast(indices), sparse_shape, n_dense)
    }

    /// Creates an array from parts that fit.
    pub(super) fn of(
        data: Array,
        indices: Array,
        sparse_shape: Vec<usize>,
        n_dense: usize,
    ) -> Bcoo {
        Bcoo { data, indices, sparse_shape, n_dense, indices_sorted: false, unique_indices: false }
    }

    /// Creates an array from its parts: data and indices in a list.
    pub(super) fn of_list(list: Vec<Array>, sparse_shape: Vec<usize>, n_dense: usize) -> Bcoo {
        let mut list = list.into_iter();
        let mut next = || list.next().expect("a sparse array has data and indices");
        Bcoo::of(next(), next(), sparse_shape, n_dense)
    }

    /// States that the indices are sorted, and that none occurs twice, as the caller knows.
    #[must_use]
    pub fn promise(self, indices_sorted: bool, unique_indices: bool) -> Bcoo {
        Bcoo { indices_sorted, unique_indices, ..self }
    }

    /// Creates an array from the elements of a concrete dense one that are not 0.
    ///
    /// Throws `Op` (unsupported) for a traced array: use [`Bcoo::fromdense_with`] and state the
    /// number of entries.
    #[doc(alias = "bcoo_fromdense")]
    #[track_caller]
    pub fn fromdense(x: &Array) -> Bcoo {
        Bcoo::fromdense_with(x, FromDenseOptions::default())
    }

    /// Creates an array from the elements of a dense one that are not 0, with options. An entry has
    /// all elements along the dense axes, if one of them is not 0.
    ///
    /// If there are more elements than entries, the last ones are lost.
    ///
    /// Throws `Op` (value) for more batch and dense axes than the array has.
    #[doc(alias = "bcoo_fromdense")]
    #[track_caller]
    pub fn fromdense_with(x: &Array, options: FromDenseOptions) -> Bcoo {
        let FromDenseOptions { nse, n_batch, n_dense, index_dtype } = options;
        if n_batch + n_dense > x.rank() {
            let message = format!(
                "{n_batch} batch axes and {n_dense} dense axes of an array of rank {}",
                x.rank()
            );
            throw_value("Bcoo::fromdense", message, &[x]);
        }
        let sparse_shape = x.shape()[n_batch..x.rank() - n_dense].to_vec();
        Loc::caller().scope(|| {
            let dense_axes: Vec<isize> = (1..=n_dense as isize).map(|axis| -axis).collect();
            let mut is_entry = ne(x, zeros_like(x));
            if n_dense > 0 {
                is_entry = reduce_or(&is_entry, &dense_axes);
            }
            let nse = nse.unwrap_or_else(|| {
                let sparse_axes: Vec<isize> =
                    (n_batch as isize..is_entry.rank() as isize).collect();
                let counts = reduce_sum(&is_entry.astype(DType::I32), &sparse_axes);
                traced_count("Bcoo::fromdense", &counts)
            });
            let list = each_batch(n_batch, vec![x.clone(), is_entry], |operands| {
                let [x, is_entry] = operands else { unreachable!("there are two operands") };
                let indices = entry_indices(is_entry, nse, index_dtype);
                vec![gather_at(x, &indices), indices]
            });
            Bcoo::of_list(list, sparse_shape, n_dense).promise(true, true)
        })
    }

    /// Returns the number of batch axes.
    pub fn n_batch(&self) -> usize {
        self.data.rank() - 1 - self.n_dense
    }

    /// Returns the number of sparse axes.
    pub fn n_sparse(&self) -> usize {
        self.sparse_shape.len()
    }

    /// Returns the number of dense axes.
    pub fn n_dense(&self) -> usize {
        self.n_dense
    }

    /// Returns true if the indices are known to be sorted.
    pub fn indices_sorted(&self) -> bool {
        self.indices_sorted
    }

    /// Returns true if no index is known to occur twice.
    pub fn unique_indices(&self) -> bool {
        self.unique_indices
    }

    /// Returns the sizes of the batch axes.
    pub(super) fn batch_shape(&self) -> &[usize] {
        &self.data.shape()[..self.n_batch()]
    }

    /// Returns the sizes of the dense axes.
    pub(super) fn dense_shape(&self) -> &[usize] {
        &self.data.shape()[self.n_batch() + 1..]
    }

    /// Applies `f` to data and indices of each batch.
    #[track_caller]
    pub(super) fn each(&self, f: impl Fn(&Array, &Array) -> [Array; 2]) -> Vec<Array> {
        let operands = vec![self.data.clone(), self.indices.clone()];
        each_batch(self.n_batch(), operands, |operands| f(&operands[0], &operands[1]).to_vec())
    }

    /// Converts the data to a dtype.
    #[track_caller]
    pub fn astype(&self, dtype: DType) -> Bcoo {
        self.map_data(|data| data.astype(dtype))
    }

    /// Replaces the data by those that `f` returns for them. `f` should map 0 to 0, and must keep
    /// the shape.
    #[track_caller]
    pub fn map_data(&self, f: impl FnOnce(&Array) -> Array) -> Bcoo {
        let data = f(&self.data);
        if data.shape() != self.data.shape() {
            let message = format!("data {} became {}", self.data.shape(), data.shape());
            throw_shape("Bcoo::map_data", message, &[&self.data]);
        }
        Bcoo { data, ..self.clone() }
    }

    /// Sorts the entries of each batch by their indices.
    #[doc(alias = "bcoo_sort_indices")]
    #[track_caller]
    pub fn sort_indices(&self) -> Bcoo {
        let list = self.each(sorted_entries);
        Bcoo::of_list(list, self.sparse_shape.clone(), self.n_dense)
            .promise(true, self.unique_indices)
    }

    /// Adds entries with equal indices. The result is sorted, and has as many entries as the batch
    /// with most of them; traced arrays keep their number of entries.
    #[doc(alias = "bcoo_sum_duplicates")]
    #[track_caller]
    pub fn sum_duplicates(&self) -> Bcoo {
        let most = self.sparse_shape.iter().product::<usize>().min(self.nse());
        if self.indices.is_traced() {
            return self.sum_duplicates_to(most);
        }
        let counts = each_batch(self.n_batch(), vec![self.indices.clone()], |operands| {
            vec![count_distinct(&operands[0], &self.sparse_shape)]
        });
        self.sum_duplicates_to(traced_count("Bcoo::sum_duplicates", &counts[0]))
    }

    /// Adds entries with equal indices. The result is sorted, and has `nse` entries: others are
    /// lost, and missing ones are out of range.
    #[doc(alias = "nse")]
    #[track_caller]
    pub fn sum_duplicates_to(&self, nse: usize) -> Bcoo {
        let sizes = &self.sparse_shape;
        let list = self.each(|data, indices| summed_entries(data, indices, sizes, nse));
        Bcoo::of_list(list, sizes.clone(), self.n_dense).promise(true, true)
    }

    /// Returns entries with these indices and the elements of `x` there, which has the shape of
    /// this array. Duplicates all have the element.
    ///
    /// Throws `Op` (shape) for another shape.
    #[doc(alias = "bcoo_extract")]
    #[track_caller]
    pub fn extract(&self, x: &Array) -> Bcoo {
        if *x.shape() != self.shape() {
            let message = format!("takes an array {}, got {}", self.shape(), x.shape());
            throw_shape("Bcoo::extract", message, &[x]);
        }
        let operands = vec![x.clone(), self.indices.clone()];
        let data = each_batch(self.n_batch(), operands, |operands| {
            vec![gather_at(&operands[0], &operands[1])]
        });
        Bcoo { data: data[0].clone(), ..self.clone() }
    }

    /// Returns the entries that are in range: `bool[batch…, nse]`.
    #[track_caller]
    pub fn is_entry(&self) -> Array {
        let results = each_batch(self.n_batch(), vec![self.indices.clone()], |operands| {
            vec![in_range(&operands[0], &self.sparse_shape)]
        });
        results[0].clone()
    }
}

/// Returns the indices of the true elements, `nse` of them, padded by the sizes.
#[track_caller]
pub(super) fn entry_indices(is_entry: &Array, nse: usize, dtype: DType) -> Array {
    let sizes = is_entry.shape().to_vec();
    if sizes.is_empty() {
        return zeros(([nse, 0], dtype));
    }
    let found = stack(nonzero(is_entry, nse, -1), -1);
    where_(lt(&found, 0), index_row(&sizes, found.dtype()), &found).astype(dtype)
}

impl SparseArray for Bcoo {
    fn shape(&self) -> Shape {
        let parts = [self.batch_shape(), &self.sparse_shape, self.dense_shape()];
        parts.concat().into()
    }
    fn dtype(&self) -> DType {
        self.data.dtype()
    }
    fn nse(&self) -> usize {
        self.data.shape()[self.n_batch()]
    }
    #[doc(alias = "bcoo_todense")]
    #[track_caller]
    fn todense(&self) -> Array {
        let operands = vec![self.data.clone(), self.indices.clone()];
        let results = each_batch(self.n_batch(), operands, |operands| {
            vec![scatter_at(&operands[0], &operands[1], &self.sparse_shape)]
        });
        results[0].clone()
    }
}
