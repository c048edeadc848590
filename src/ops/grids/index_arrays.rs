//! Arrays of indices.

use super::super::{nonzero, stack};
use super::triangles::lower_triangle;
use crate::core::{Array, Aval, DType, IntoAval, Loc, RuleError, Shape, trace};
use crate::primitives::{
    ArrayList, broadcasted_iota as iota, convert_element_type, ones, references, reshape, slice,
    zeros,
};

/// Returns the indices `[n]` of the main diagonal, `i32`, one array for each of `ndim` axes.
#[track_caller]
pub fn diag_indices(n: usize, ndim: usize) -> Vec<Array> {
    vec![iota(DType::I32, [n], 0); ndim]
}

/// Returns [`diag_indices`] for the axes of `x`. Throws `Op` (shape) for arrays of rank below 2 and
/// for axes that differ in size.
#[track_caller]
pub fn diag_indices_from(x: &Array) -> Vec<Array> {
    Loc::caller().scope(|| {
        let equal_sizes = x.shape().windows(2).all(|pair| pair[0] == pair[1]);
        if x.rank() < 2 || !equal_sizes {
            let message = format!("takes at least two axes of one size, got {}", x.shape());
            trace::throw_operands("diag_indices_from", RuleError::shape(message), &[x]);
        }
        diag_indices(x.shape()[0], x.rank())
    })
}

/// Returns the rows and columns of the first `count` true elements of a matrix, in row-major order.
#[track_caller]
fn matrix_indices(mask: &Array, count: usize) -> (Array, Array) {
    let mut indices = nonzero(mask, count, 0);
    let columns = indices.swap_remove(1);
    (indices.swap_remove(0), columns)
}

/// Returns the number of elements of a matrix of shape `[rows, columns]` for which
/// `column - row <= offset`.
fn lower_count(rows: usize, columns: usize, offset: isize) -> usize {
    let in_row = |row: usize| (row as isize + offset + 1).clamp(0, columns as isize) as usize;
    (0..rows).map(in_row).sum()
}

/// Returns the rows and columns, `i32`, of the elements on and below diagonal `offset` of a matrix
/// of shape `[rows, columns]`, row by row.
///
/// ```
/// use oxidax::prelude::*;
/// let (rows, columns) = eval_shape(|| tril_indices(4, 4, -1), ())?;
/// assert_eq!((rows.size(), columns.size()), (6, 6));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn tril_indices(rows: usize, columns: usize, offset: isize) -> (Array, Array) {
    let mask = lower_triangle(rows, columns, offset);
    matrix_indices(&mask, lower_count(rows, columns, offset))
}

/// Returns the rows and columns, `i32`, of the elements on and above diagonal `offset` of a matrix
/// of shape `[rows, columns]`, row by row.
#[track_caller]
pub fn triu_indices(rows: usize, columns: usize, offset: isize) -> (Array, Array) {
    let below = lower_triangle(rows, columns, offset - 1);
    matrix_indices(&!below, rows * columns - lower_count(rows, columns, offset - 1))
}

#[track_caller]
fn matrix_shape(name: &str, x: &Array) -> (usize, usize) {
    match *x.shape().dims() {
        [rows, columns] => (rows, columns),
        _ => {
            let message = format!("takes a matrix, got {}", x.shape());
            trace::throw_operands(name, RuleError::shape(message), &[x])
        }
    }
}

/// Returns [`tril_indices`] for the shape of the matrix `x`. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn tril_indices_from(x: &Array, offset: isize) -> (Array, Array) {
    let (rows, columns) = matrix_shape("tril_indices_from", x);
    tril_indices(rows, columns, offset)
}

/// Returns [`triu_indices`] for the shape of the matrix `x`. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn triu_indices_from(x: &Array, offset: isize) -> (Array, Array) {
    let (rows, columns) = matrix_shape("triu_indices_from", x);
    triu_indices(rows, columns, offset)
}

/// Returns the rows and columns at which `mask_func`, for example [`triu`](super::super::triu),
/// leaves ones of a matrix of shape `[n, n]`: `size` of them, padded with zeros.
#[track_caller]
pub fn mask_indices(
    n: usize,
    mask_func: impl Fn(&Array, isize) -> Array,
    offset: isize,
    size: usize,
) -> (Array, Array) {
    matrix_indices(&mask_func(&ones(([n, n], DType::I32)), offset), size)
}

/// Returns index arrays that select every combination of the vectors' indices: vector `i` along
/// axis
/// `i`, with size 1 along the other axes. Throws `Op` (shape) for an operand that is not a vector.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [5, 6]);
/// let corner = |x: Array| {
///     let indices = ix_([&arange(2), &arange(3)]);
///     x.index(i![&indices[0], &indices[1]])
/// };
/// assert_eq!(eval_shape(corner, x)?.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ix_<F>(vectors: impl ArrayList<F>) -> Vec<Array> {
    let vectors = vectors.into_arrays();
    if let Some(other) = vectors.iter().find(|x| x.rank() != 1) {
        let message = format!("takes vectors, got {}", other.aval());
        trace::throw_operands("ix_", RuleError::shape(message), &references(&vectors));
    }
    let mut grid = Vec::with_capacity(vectors.len());
    for (axis, x) in vectors.iter().enumerate() {
        let mut shape = vec![1; vectors.len()];
        shape[axis] = x.size();
        grid.push(reshape(x, shape));
    }
    grid
}

/// Returns the index of each element along every axis, `i32[rank, …]`: `[2, 2, 3]` for `[2, 3]`.
#[track_caller]
pub fn indices(shape: impl Into<Shape>) -> Array {
    indices_with(shape, IndicesOptions::default())
}

/// Options of [`indices_with`] and [`sparse_indices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndicesOptions {
    /// The dtype of the indices. The default is `i32`.
    pub dtype: DType,
}

impl Default for IndicesOptions {
    fn default() -> Self {
        IndicesOptions { dtype: DType::I32 }
    }
}

/// Returns the index of each element along every axis, as [`indices`], in another dtype.
#[track_caller]
pub fn indices_with(shape: impl Into<Shape>, options: IndicesOptions) -> Array {
    let shape = shape.into();
    if shape.rank() == 0 {
        return zeros(([0], options.dtype));
    }
    let mut arrays = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        arrays.push(iota(options.dtype, shape.clone(), axis));
    }
    stack(arrays.iter().collect::<Vec<_>>(), 0)
}

/// Returns the indices along each axis as arrays that broadcast to `shape`: `[2, 1]` and `[1, 3]`
/// for `[2, 3]`.
#[track_caller]
pub fn sparse_indices(shape: impl Into<Shape>, options: IndicesOptions) -> Vec<Array> {
    let shape = shape.into();
    let mut arrays = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        let mut sizes = vec![1; shape.rank()];
        sizes[axis] = shape[axis];
        arrays.push(iota(options.dtype, sizes, axis));
    }
    arrays
}

/// Calls `f` with the index arrays of `shape`, one for each axis, `f32` unless a dtype is given:
/// see [`IntoAval`]. `f` receives whole arrays, as in NumPy.
#[track_caller]
pub fn fromfunction(f: impl Fn(&[Array]) -> Array, shape: impl IntoAval) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let mut arrays = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        arrays.push(convert_element_type(&iota(DType::I32, shape.clone(), axis), dtype));
    }
    f(&arrays)
}

/// Returns the first `size` elements of a vector.
#[track_caller]
pub(in crate::ops) fn first(x: &Array, size: usize) -> Array {
    slice(x, &[0], &[size], &[1])
}
