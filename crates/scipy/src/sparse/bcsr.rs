//! [`Bcsr`]: batched compressed sparse rows.

use super::bcoo::{Bcoo, FromDenseOptions};
use super::entries::{column, each_batch, gather_at, scatter_at};
use super::{SparseArray, expect_permutation};
use crate::operands::{throw_shape, throw_value};
use oxidax::core::Loc;
use oxidax::ops::{SearchsortedOptions, Side};
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;

/// A sparse array in batched compressed row format.
///
/// The axes are batch axes, then rows and columns, then dense axes. The entries of row `r` are
/// `indptr[r]..indptr[r + 1]`; entries from `indptr[n_rows]` on are not used.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{Bcsr, SparseArray};
/// let m = Bcsr::fromdense(&array![[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]);
/// assert_eq!(m.indptr.to_vec::<i32>()?, [0, 1, 2, 2]);
/// assert_eq!(m.matmul(&array![1.0, 10.0]).to_vec::<f32>()?, [20.0, 3.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "BCSR")]
#[derive(Clone, Debug, Tree)]
pub struct Bcsr {
    /// The data of the entries: `[batch…, nse, dense…]`.
    pub data: Array,
    /// The columns of the entries: integers `[batch…, nse]`.
    pub indices: Array,
    /// The first entry of each row, and the number of entries: integers `[batch…, n_rows + 1]`.
    pub indptr: Array,
    #[tree(static)]
    pub(super) n_columns: usize,
    #[tree(static)]
    pub(super) n_dense: usize,
}

/// Returns the row of each entry, from the rows' first entries. Entries that are not used have a
/// row out of range.
#[track_caller]
pub(super) fn rows_of(indptr: &Array, nse: usize) -> Array {
    let n_rows = indptr.size() - 1;
    if n_rows == 0 {
        return zeros(([nse], indptr.dtype()));
    }
    let ends = slice_in_dim(indptr, 1, n_rows as isize + 1, 1, 0);
    let options = SearchsortedOptions { side: Side::Right, ..Default::default() };
    searchsorted_with(&ends, iota(indptr.dtype(), nse), options).astype(indptr.dtype())
}

/// Returns the rows' first entries, from the sorted rows of entries. Rows out of range do not
/// count.
#[track_caller]
pub(super) fn pointers_of(rows: &Array, n_rows: usize) -> Array {
    let ones = ones_like(rows);
    let counts = scatter_at(&ones, &rows.expand_dims(-1), &[n_rows]);
    pad(cumsum(&counts, 0).astype(rows.dtype()), [(1, 0)])
}

impl Bcsr {
    /// Creates an array of a shape from data `[batch…, nse, dense…]`, columns `[batch…, nse]` and
    /// the rows' first entries `[batch…, n_rows + 1]`.
    ///
    /// Throws `Op` (shape) for arrays that do not fit each other or the shape, and `Op` (value) for
    /// indices that are not integers.
    #[track_caller]
    pub fn new(data: &Array, indices: &Array, indptr: &Array, shape: impl Into<Shape>) -> Bcsr {
        const NAME: &str = "Bcsr";
        let shape = shape.into();
        if !indices.dtype().is_integer() || !indptr.dtype().is_integer() {
            let message =
                format!("indices must be integers, got {} and {}", indices.dtype(), indptr.dtype());
            throw_value(NAME, message, &[]);
        }
        let n_batch = indices.rank().saturating_sub(1);
        let fits = indices.rank() >= 1
            && data.rank() > n_batch
            && shape.rank() == data.rank() + 1
            && data.shape()[..=n_batch] == **indices.shape()
            && shape[..n_batch] == data.shape()[..n_batch]
            && shape[n_batch + 2..] == data.shape()[n_batch + 1..]
            && indptr.rank() == n_batch + 1
            && indptr.shape()[..n_batch] == shape[..n_batch]
            && indptr.shape()[n_batch] == shape[n_batch] + 1;
        if !fits {
            let message = format!(
                "data [batch…, nse, dense…], columns [batch…, nse] and pointers \
                 [batch…, n_rows + 1] do not fit the shape {shape}: {}, {} and {}",
                data.shape(),
                indices.shape(),
                indptr.shape()
            );
            throw_shape(NAME, message, &[data, indices, indptr]);
        }
        Bcsr {
            data: data.clone(),
            indices: indices.clone(),
            indptr: indptr.clone(),
            n_columns: shape[n_batch + 1],
            n_dense: data.rank() - n_batch - 1,
        }
    }

    /// Creates an array from the elements of a concrete dense one that are not 0.
    ///
    /// Throws `Op` (shape) for an array of rank below 2.
    #[doc(alias = "bcsr_fromdense")]
    #[track_caller]
    pub fn fromdense(x: &Array) -> Bcsr {
        Bcsr::fromdense_with(x, FromDenseOptions::default())
    }

    /// Creates an array from the elements of a dense one that are not 0, with the options of
    /// [`Bcoo::fromdense_with`]. Two axes must be neither batch nor dense axes.
    #[doc(alias = "bcsr_fromdense")]
    #[track_caller]
    pub fn fromdense_with(x: &Array, options: FromDenseOptions) -> Bcsr {
        Bcsr::from_bcoo(&Bcoo::fromdense_with(x, options))
    }

    /// Converts from coordinate format, whose entries are sorted.
    ///
    /// Throws `Op` (shape) unless two axes are sparse.
    #[track_caller]
    pub fn from_bcoo(x: &Bcoo) -> Bcsr {
        let &[n_rows, n_columns] = &x.sparse_shape[..] else {
            let message = format!("needs two sparse axes, got {}", x.n_sparse());
            throw_shape("Bcsr::from_bcoo", message, &[&x.data]);
        };
        Loc::caller().scope(|| {
            let x = if x.indices_sorted() { x.clone() } else { x.sort_indices() };
            let operands = vec![x.indices.clone()];
            let list = each_batch(x.n_batch(), operands, |operands| {
                let rows = column(&operands[0], 0);
                vec![column(&operands[0], 1), pointers_of(&rows, n_rows)]
            });
            let [indices, indptr] = &list[..] else { unreachable!("there are two results") };
            Bcsr {
                data: x.data.clone(),
                indices: indices.clone(),
                indptr: indptr.clone(),
                n_columns,
                n_dense: x.n_dense,
            }
        })
    }

    /// Converts to coordinate format.
    #[track_caller]
    pub fn to_bcoo(&self) -> Bcoo {
        Loc::caller().scope(|| {
            let n_batch = self.n_batch();
            let operands = vec![self.indices.clone(), self.indptr.clone()];
            let list = each_batch(n_batch, operands, |operands| {
                let [columns, indptr] = operands else { unreachable!("there are two operands") };
                let rows = rows_of(indptr, columns.size()).astype(columns.dtype());
                vec![stack([&rows, columns], -1)]
            });
            let sizes = vec![self.indptr.shape()[n_batch] - 1, self.n_columns];
            Bcoo::of(self.data.clone(), list[0].clone(), sizes, self.n_dense)
        })
    }

    /// Returns the number of batch axes.
    pub fn n_batch(&self) -> usize {
        self.data.rank() - 1 - self.n_dense
    }

    /// Returns the number of sparse axes, 2.
    pub fn n_sparse(&self) -> usize {
        2
    }

    /// Returns the number of dense axes.
    pub fn n_dense(&self) -> usize {
        self.n_dense
    }

    /// Adds entries with equal indices. See [`Bcoo::sum_duplicates`].
    #[doc(alias = "bcsr_sum_duplicates")]
    #[track_caller]
    pub fn sum_duplicates(&self) -> Bcsr {
        Bcsr::from_bcoo(&self.to_bcoo().sum_duplicates())
    }

    /// Adds entries with equal indices. See [`Bcoo::sum_duplicates_to`].
    #[track_caller]
    pub fn sum_duplicates_to(&self, nse: usize) -> Bcsr {
        Bcsr::from_bcoo(&self.to_bcoo().sum_duplicates_to(nse))
    }

    /// Returns entries with these indices and the elements of `x` there. See [`Bcoo::extract`].
    #[doc(alias = "bcsr_extract")]
    #[track_caller]
    pub fn extract(&self, x: &Array) -> Bcsr {
        if *x.shape() != self.shape() {
            let message = format!("takes an array {}, got {}", self.shape(), x.shape());
            throw_shape("Bcsr::extract", message, &[x]);
        }
        let operands = vec![x.clone(), self.to_bcoo().indices];
        let data = each_batch(self.n_batch(), operands, |operands| {
            vec![gather_at(&operands[0], &operands[1])]
        });
        Bcsr { data: data[0].clone(), ..self.clone() }
    }

    /// Permutes the axes, which stay in their groups. See [`Bcoo::transpose`].
    #[track_caller]
    pub fn transpose(&self, permutation: &[usize]) -> Bcsr {
        expect_permutation("Bcsr::transpose", permutation, self.ndim());
        Bcsr::from_bcoo(&self.to_bcoo().transpose(permutation))
    }

    /// Returns the transposed array, with all axes of each group in reverse order.
    #[doc(alias = "T")]
    #[track_caller]
    pub fn t(&self) -> Bcsr {
        Bcsr::from_bcoo(&self.to_bcoo().t())
    }

    /// Broadcasts to a shape. See [`Bcoo::broadcast_in_dim`]; two axes must remain sparse.
    #[doc(alias = "bcsr_broadcast_in_dim")]
    #[track_caller]
    pub fn broadcast_in_dim(
        &self,
        shape: impl Into<Shape>,
        broadcast_dimensions: &[usize],
    ) -> Bcsr {
        let wide = self.to_bcoo().broadcast_in_dim(shape, broadcast_dimensions);
        // New axes in front of the rows are batch axes, those behind the columns dense axes.
        let rows = broadcast_dimensions[self.n_batch()];
        let n_dense = wide.ndim() - rows.min(wide.ndim() - 2) - 2;
        Bcsr::from_bcoo(&wide.update_layout(rows, n_dense))
    }

    /// Concatenates arrays along a batch axis, the rows or the columns. See [`Bcoo::concatenate`].
    #[doc(alias = "bcsr_concatenate")]
    #[track_caller]
    pub fn concatenate<'a>(arrays: impl IntoIterator<Item = &'a Bcsr>, dimension: usize) -> Bcsr {
        let arrays: Vec<Bcoo> = arrays.into_iter().map(Bcsr::to_bcoo).collect();
        Bcsr::from_bcoo(&Bcoo::concatenate(&arrays, dimension))
    }

    /// Returns the product with a dense array, which is dense. See [`Bcoo::dot_general`].
    #[doc(alias = "bcsr_dot_general")]
    #[track_caller]
    pub fn dot_general(&self, rhs: &Array, axes: &DotGeneral) -> Array {
        self.to_bcoo().dot_general(rhs, axes)
    }

    /// Returns the matrix product with a dense array. See [`Bcoo::matmul`].
    #[doc(alias = "__matmul__")]
    #[track_caller]
    pub fn matmul(&self, rhs: &Array) -> Array {
        self.to_bcoo().matmul(rhs)
    }

    /// Sums over axes, which are dropped: a sparse array in coordinate format. See
    /// [`Bcoo::reduce_sum`].
    #[doc(alias = "sum")]
    #[track_caller]
    pub fn reduce_sum(&self, axes: &[usize]) -> Bcoo {
        self.to_bcoo().reduce_sum(axes)
    }

    /// Replaces the data by those that `f` returns for them. See [`Bcoo::map_data`].
    #[track_caller]
    pub fn map_data(&self, f: impl FnOnce(&Array) -> Array) -> Bcsr {
        let data = f(&self.data);
        if data.shape() != self.data.shape() {
            let message = format!("data {} became {}", self.data.shape(), data.shape());
            throw_shape("Bcsr::map_data", message, &[&self.data]);
        }
        Bcsr { data, ..self.clone() }
    }
}

impl SparseArray for Bcsr {
    fn shape(&self) -> Shape {
        let n_batch = self.n_batch();
        let matrix = [self.indptr.shape()[n_batch] - 1, self.n_columns];
        let (batch, dense) = (&self.data.shape()[..n_batch], &self.data.shape()[n_batch + 1..]);
        [batch, &matrix, dense].concat().into()
    }
    fn dtype(&self) -> DType {
        self.data.dtype()
    }
    fn nse(&self) -> usize {
        self.data.shape()[self.n_batch()]
    }
    #[doc(alias = "bcsr_todense")]
    #[track_caller]
    fn todense(&self) -> Array {
        self.to_bcoo().todense()
    }
}
