//! [`Coo`], [`Csr`] and [`Csc`]: sparse matrices.

use super::SparseArray;
use super::bcoo::{Bcoo, FromDenseOptions};
use super::bcsr::{pointers_of, rows_of};
use super::entries::column;
use crate::operands::throw_shape;
use oxidax::core::Loc;
use oxidax::prelude::*;

/// A sparse matrix of entries with a row and a column each. Entries with equal indices are added
/// up.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::Coo;
/// let m = Coo::new(&array![2.0, 3.0], &array![0, 1], &array![1, 0], [2, 2]);
/// assert_eq!(m.matvec(&array![1.0, 10.0]).to_vec::<f32>()?, [20.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "COO")]
#[derive(Clone, Debug, Tree)]
pub struct Coo {
    /// The data of the entries: `[nse]`.
    pub data: Array,
    /// The rows of the entries: integers `[nse]`.
    pub row: Array,
    /// The columns of the entries: integers `[nse]`.
    pub col: Array,
    #[tree(static)]
    shape: [usize; 2],
}

/// A sparse matrix of compressed rows: row `r` has the entries `indptr[r]..indptr[r + 1]`.
#[doc(alias = "CSR")]
#[derive(Clone, Debug, Tree)]
pub struct Csr {
    /// The data of the entries: `[nse]`.
    pub data: Array,
    /// The columns of the entries: integers `[nse]`.
    pub indices: Array,
    /// The first entry of each row, and the number of entries: integers `[n_rows + 1]`.
    pub indptr: Array,
    #[tree(static)]
    n_columns: usize,
}

/// A sparse matrix of compressed columns: column `c` has the entries `indptr[c]..indptr[c + 1]`.
#[doc(alias = "CSC")]
#[derive(Clone, Debug, Tree)]
pub struct Csc {
    /// The data of the entries: `[nse]`.
    pub data: Array,
    /// The rows of the entries: integers `[nse]`.
    pub indices: Array,
    /// The first entry of each column, and the number of entries: integers `[n_columns + 1]`.
    pub indptr: Array,
    #[tree(static)]
    n_rows: usize,
}

/// Checks that data and indices are vectors of one length.
#[track_caller]
fn expect_vectors(name: &str, vectors: &[&Array]) {
    if vectors.iter().any(|x| x.rank() != 1 || x.size() != vectors[0].size()) {
        let shapes: Vec<String> = vectors.iter().map(|x| x.shape().to_string()).collect();
        let message = format!("takes vectors of one length, got {}", shapes.join(", "));
        throw_shape(name, message, vectors);
    }
}

/// Checks that there is one pointer more than lines.
#[track_caller]
fn expect_pointers(name: &str, indptr: &Array, n_lines: usize) {
    if indptr.shape().dims() != [n_lines + 1] {
        let message = format!("needs {} pointers, got {}", n_lines + 1, indptr.shape());
        throw_shape(name, message, &[indptr]);
    }
}

/// Converts a dense matrix to sorted entries.
#[track_caller]
fn entries_of(name: &str, x: &Array, nse: Option<usize>) -> Bcoo {
    if x.rank() != 2 {
        throw_shape(name, format!("takes a matrix, got {}", x.shape()), &[x]);
    }
    Bcoo::fromdense_with(x, FromDenseOptions { nse, ..FromDenseOptions::default() })
}

impl Coo {
    /// Creates a matrix from data, rows and columns.
    ///
    /// Throws `Op` (shape) unless these are vectors of one length.
    #[track_caller]
    pub fn new(data: &Array, row: &Array, col: &Array, shape: [usize; 2]) -> Coo {
        expect_vectors("Coo", &[data, row, col]);
        Coo { data: data.clone(), row: row.clone(), col: col.clone(), shape }
    }

    /// Creates a matrix from the elements of a dense one that are not 0. Their number is counted if
    /// `nse` is `None`, which needs a concrete matrix.
    ///
    /// Throws `Op` (shape) unless `x` is a matrix.
    #[doc(alias = "coo_fromdense")]
    #[track_caller]
    pub fn fromdense(x: &Array, nse: Option<usize>) -> Coo {
        Coo::from_bcoo(&entries_of("Coo::fromdense", x, nse))
    }

    /// Converts a matrix from batched coordinate format.
    ///
    /// Throws `Op` (shape) unless it is a matrix.
    #[track_caller]
    pub fn from_bcoo(x: &Bcoo) -> Coo {
        if x.ndim() != 2 {
            throw_shape("Coo::from_bcoo", format!("takes a matrix, got {}", x.shape()), &[&x.data]);
        }
        let x = x.flat();
        let shape = [x.sparse_shape[0], x.sparse_shape[1]];
        Coo { row: column(&x.indices, 0), col: column(&x.indices, 1), data: x.data, shape }
    }

    /// Converts the matrix to batched coordinate format.
    #[track_caller]
    pub fn to_bcoo(&self) -> Bcoo {
        let indices = stack([&self.row, &self.col], -1);
        Bcoo::of(self.data.clone(), indices, self.shape.to_vec(), 0)
    }

    /// Returns the transposed matrix.
    #[doc(alias = "T")]
    #[track_caller]
    pub fn transpose(&self) -> Coo {
        let [n, m] = self.shape;
        Coo { data: self.data.clone(), row: self.col.clone(), col: self.row.clone(), shape: [m, n] }
    }
}

impl Csr {
    /// Creates a matrix from data, columns, and the rows' first entries.
    ///
    /// Throws `Op` (shape) unless data and columns are vectors of one length and there is one
    /// pointer more than rows.
    #[track_caller]
    pub fn new(data: &Array, indices: &Array, indptr: &Array, shape: [usize; 2]) -> Csr {
        expect_vectors("Csr", &[data, indices]);
        expect_pointers("Csr", indptr, shape[0]);
        let (data, indices, indptr) = (data.clone(), indices.clone(), indptr.clone());
        Csr { data, indices, indptr, n_columns: shape[1] }
    }

    /// Creates a matrix from the elements of a dense one that are not 0. See [`Coo::fromdense`].
    #[doc(alias = "csr_fromdense")]
    #[track_caller]
    pub fn fromdense(x: &Array, nse: Option<usize>) -> Csr {
        Csr::from_bcoo(&entries_of("Csr::fromdense", x, nse))
    }

    /// Converts a matrix from batched coordinate format, whose entries are sorted.
    ///
    /// Throws `Op` (shape) unless it is a matrix.
    #[track_caller]
    pub fn from_bcoo(x: &Bcoo) -> Csr {
        if x.ndim() != 2 {
            throw_shape("Csr::from_bcoo", format!("takes a matrix, got {}", x.shape()), &[&x.data]);
        }
        Loc::caller().scope(|| {
            let x = x.flat();
            let x = if x.indices_sorted() { x } else { x.sort_indices() };
            let indptr = pointers_of(&column(&x.indices, 0), x.sparse_shape[0]);
            let n_columns = x.sparse_shape[1];
            Csr { indices: column(&x.indices, 1), data: x.data, indptr, n_columns }
        })
    }

    /// Converts the matrix to batched coordinate format.
    #[track_caller]
    pub fn to_bcoo(&self) -> Bcoo {
        let rows = rows_of(&self.indptr, self.data.size()).astype(self.indices.dtype());
        let indices = stack([&rows, &self.indices], -1);
        Bcoo::of(self.data.clone(), indices, self.shape().to_vec(), 0)
    }

    /// Returns the transposed matrix, which has compressed columns.
    #[doc(alias = "T")]
    pub fn transpose(&self) -> Csc {
        let Csr { data, indices, indptr, n_columns } = self.clone();
        Csc { data, indices, indptr, n_rows: n_columns }
    }
}

impl Csc {
    /// Creates a matrix from data, rows, and the columns' first entries.
    ///
    /// Throws `Op` (shape) unless data and rows are vectors of one length and there is one pointer
    /// more than columns.
    #[track_caller]
    pub fn new(data: &Array, indices: &Array, indptr: &Array, shape: [usize; 2]) -> Csc {
        expect_vectors("Csc", &[data, indices]);
        expect_pointers("Csc", indptr, shape[1]);
        let (data, indices, indptr) = (data.clone(), indices.clone(), indptr.clone());
        Csc { data, indices, indptr, n_rows: shape[0] }
    }

    /// Creates a matrix from the elements of a dense one that are not 0. See [`Coo::fromdense`].
    #[track_caller]
    pub fn fromdense(x: &Array, nse: Option<usize>) -> Csc {
        if x.rank() != 2 {
            throw_shape("Csc::fromdense", format!("takes a matrix, got {}", x.shape()), &[x]);
        }
        Csr::fromdense(&x.t(), nse).transpose()
    }

    /// Converts a matrix from batched coordinate format, whose entries are sorted.
    ///
    /// Throws `Op` (shape) unless it is a matrix.
    #[track_caller]
    pub fn from_bcoo(x: &Bcoo) -> Csc {
        if x.ndim() != 2 {
            throw_shape("Csc::from_bcoo", format!("takes a matrix, got {}", x.shape()), &[&x.data]);
        }
        Csr::from_bcoo(&x.flat().transpose(&[1, 0])).transpose()
    }

    /// Converts the matrix to batched coordinate format.
    #[track_caller]
    pub fn to_bcoo(&self) -> Bcoo {
        self.transpose().to_bcoo().transpose(&[1, 0])
    }

    /// Returns the transposed matrix, which has compressed rows.
    #[doc(alias = "T")]
    pub fn transpose(&self) -> Csr {
        let Csc { data, indices, indptr, n_rows } = self.clone();
        Csr { data, indices, indptr, n_columns: n_rows }
    }
}

impl SparseArray for Coo {
    fn shape(&self) -> Shape {
        self.shape.into()
    }
    fn dtype(&self) -> DType {
        self.data.dtype()
    }
    fn nse(&self) -> usize {
        self.data.size()
    }
    #[doc(alias = "coo_todense")]
    #[track_caller]
    fn todense(&self) -> Array {
        self.to_bcoo().todense()
    }
}

impl SparseArray for Csr {
    fn shape(&self) -> Shape {
        [self.indptr.size() - 1, self.n_columns].into()
    }
    fn dtype(&self) -> DType {
        self.data.dtype()
    }
    fn nse(&self) -> usize {
        self.data.size()
    }
    #[doc(alias = "csr_todense")]
    #[track_caller]
    fn todense(&self) -> Array {
        self.to_bcoo().todense()
    }
}

impl SparseArray for Csc {
    fn shape(&self) -> Shape {
        [self.n_rows, self.indptr.size() - 1].into()
    }
    fn dtype(&self) -> DType {
        self.data.dtype()
    }
    fn nse(&self) -> usize {
        self.data.size()
    }
    #[track_caller]
    fn todense(&self) -> Array {
        self.to_bcoo().todense()
    }
}
