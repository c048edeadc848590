//! Arrays of positions.

use super::super::{nonzero, stack};
use crate::core::{Array, DType, RuleError, Shape, trace};
use crate::primitives::{
    broadcasted_iota as iota, convert_element_type, le, ones, reshape, slice, sub,
};

/// Position arrays `[n]`, one for each of `rank` axes, of the main diagonal: `i32`.
#[track_caller]
pub fn diag_indices(n: usize, rank: usize) -> Vec<Array> {
    vec![iota(DType::I32, [n], 0); rank]
}

/// As [`diag_indices`] for the axes of `x`. Throws `Op` (shape) if they are fewer than two or of
/// different sizes.
#[track_caller]
pub fn diag_indices_from(x: &Array) -> Vec<Array> {
    let equal = x.shape().windows(2).all(|pair| pair[0] == pair[1]);
    if x.rank() < 2 || !equal {
        let message = format!("takes at least two axes of one size, got {}", x.shape());
        trace::throw_operands("diag_indices_from", RuleError::shape(message), &[x]);
    }
    diag_indices(x.shape()[0], x.rank())
}

/// Rows and columns where `mask` says so, row-major; `count` of them.
#[track_caller]
fn matrix_positions(mask: &Array, count: usize) -> (Array, Array) {
    let mut found = nonzero(mask, count, 0);
    let columns = found.swap_remove(1);
    (found.swap_remove(0), columns)
}

/// Where `column - row <= offset` in a matrix of shape `[rows, columns]`, and at how many places.
#[track_caller]
fn lower(rows: usize, columns: usize, offset: isize) -> (Array, usize) {
    let row = iota(DType::I32, [rows, columns], 0);
    let column = iota(DType::I32, [rows, columns], 1);
    let in_row = |row: usize| (row as isize + offset + 1).clamp(0, columns as isize) as usize;
    (le(sub(&column, &row), offset as i32), (0..rows).map(in_row).sum())
}

/// Rows and columns, `i32`, of the elements on and below diagonal `offset` of a matrix of shape `[rows,
/// columns]`, row by row.
///
/// ```
/// use oxidax::prelude::*;
/// let (rows, columns) = eval_shape(|| tril_indices(4, 4, -1), ())?;
/// assert_eq!((rows.size(), columns.size()), (6, 6));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn tril_indices(rows: usize, columns: usize, offset: isize) -> (Array, Array) {
    let (mask, count) = lower(rows, columns, offset);
    matrix_positions(&mask, count)
}

/// Rows and columns, `i32`, of the elements on and above diagonal `offset` of a matrix of shape `[rows,
/// columns]`, row by row.
#[track_caller]
pub fn triu_indices(rows: usize, columns: usize, offset: isize) -> (Array, Array) {
    let (below, count) = lower(rows, columns, offset - 1);
    matrix_positions(&!below, rows * columns - count)
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

/// As [`tril_indices`] for the shape of the matrix `x`. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn tril_indices_from(x: &Array, offset: isize) -> (Array, Array) {
    let (rows, columns) = matrix_shape("tril_indices_from", x);
    tril_indices(rows, columns, offset)
}

/// As [`triu_indices`] for the shape of the matrix `x`. Throws `Op` (shape) for other ranks.
#[track_caller]
pub fn triu_indices_from(x: &Array, offset: isize) -> (Array, Array) {
    let (rows, columns) = matrix_shape("triu_indices_from", x);
    triu_indices(rows, columns, offset)
}

/// Rows and columns where a function such as [`triu`](super::super::triu) leaves ones of a matrix of
/// shape `[n, n]`; `size` of them, zeros if there are fewer.
#[track_caller]
pub fn mask_indices(
    n: usize,
    mask: impl Fn(&Array, isize) -> Array,
    offset: isize,
    size: usize,
) -> (Array, Array) {
    matrix_positions(&mask(&ones([n, n], DType::I32), offset), size)
}

/// Index arrays that pick the elements at every combination of the vectors' positions: vector `i` along
/// axis `i`, size 1 along the others. Throws `Op` (shape) for an operand that is not a vector.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [5, 6]);
/// let corner = |x: Array| {
///     let at = ix_([&arange(2), &arange(3)]);
///     x.index(i![&at[0], &at[1]])
/// };
/// assert_eq!(eval_shape(corner, x)?.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ix_<'a>(vectors: impl AsRef<[&'a Array]>) -> Vec<Array> {
    let vectors = vectors.as_ref();
    if let Some(other) = vectors.iter().find(|x| x.rank() != 1) {
        let message = format!("takes vectors, got {}", other.aval());
        trace::throw_operands("ix_", RuleError::shape(message), vectors);
    }
    let mut open = Vec::with_capacity(vectors.len());
    for (axis, x) in vectors.iter().enumerate() {
        let mut shape = vec![1; vectors.len()];
        shape[axis] = x.size();
        open.push(reshape(x, shape));
    }
    open
}

/// Each element's position along every axis, `i32[rank, …]`: for `[2, 3]` a `[2, 2, 3]`.
#[track_caller]
pub fn indices(shape: impl Into<Shape>) -> Array {
    let shape = shape.into();
    if shape.rank() == 0 {
        return crate::primitives::zeros([0], DType::I32);
    }
    let mut along = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        along.push(iota(DType::I32, shape.clone(), axis));
    }
    stack(along.iter().collect::<Vec<_>>(), 0)
}

/// What `f` makes of the position arrays of `shape`, one for each axis, in `dtype`: `f` gets whole
/// arrays, as in NumPy, not one position at a time.
#[track_caller]
pub fn fromfunction(f: impl Fn(&[Array]) -> Array, shape: impl Into<Shape>, dtype: DType) -> Array {
    let shape = shape.into();
    let mut along = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        along.push(convert_element_type(&iota(DType::I32, shape.clone(), axis), dtype));
    }
    f(&along)
}

/// The first `size` elements of a vector.
#[track_caller]
pub(in crate::ops) fn first(x: &Array, size: usize) -> Array {
    slice(x, &[0], &[size], &[1])
}
