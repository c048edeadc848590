//! Rearranging: stacking, splitting, repeating, rolling, diagonals and triangles.

use crate::core::{Array, DType, RuleError, Shape, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    broadcast_in_dim, broadcasted_iota as iota, concatenate, le, ne, reshape, rev, slice, sub,
    where_, zeros_like,
};

#[track_caller]
pub(super) fn axis_of(name: &str, axis: isize, rank: usize, x: &Array) -> usize {
    match resolve_axis(axis, rank) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// `x` between two positions of one axis.
#[track_caller]
pub(super) fn part(x: &Array, axis: usize, from: usize, to: usize) -> Array {
    if from == 0 && to == x.shape()[axis] {
        return x.clone();
    }
    let mut starts = vec![0; x.rank()];
    let mut limits = x.shape().to_vec();
    (starts[axis], limits[axis]) = (from, to);
    slice(x, &starts, &limits, &vec![1; x.rank()])
}

/// Joins arrays of one shape along a new axis at position `axis` (negative: from the back of the
/// result). Dtypes are promoted. Throws `Op` (shape) if there is no array or shapes differ.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2, 3]);
/// let y = eval_shape(|x: Array| stack([&x, &x, &x], -1), x)?;
/// assert_eq!(y.aval().to_string(), "f32[2,3,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn stack<'a>(arrays: impl AsRef<[&'a Array]>, axis: isize) -> Array {
    let arrays = arrays.as_ref();
    let Some(first) = arrays.first() else {
        trace::throw_operands("stack", RuleError::value("takes at least one array, got 0"), &[]);
    };
    if let Some(other) = arrays.iter().find(|other| other.shape() != first.shape()) {
        let message = format!("shapes differ: {} and {}", first.shape(), other.shape());
        trace::throw_operands("stack", RuleError::shape(message), arrays);
    }
    let axis = axis_of("stack", axis, first.rank() + 1, first);
    let mut layers = Vec::new();
    for x in arrays {
        layers.push(reshape(x, x.shape().insert(axis, 1)));
    }
    concatenate(&layers.iter().collect::<Vec<_>>(), axis as isize)
}

/// Splits `x` into `parts` equal parts along `axis`. Throws `Op` (shape) if its size is not a
/// multiple of `parts`; [`split_at`] takes parts of any size.
#[track_caller]
pub fn split(x: &Array, parts: usize, axis: isize) -> Vec<Array> {
    let at = axis_of("split", axis, x.rank(), x);
    let size = x.shape()[at];
    if parts == 0 || !size.is_multiple_of(parts) {
        let message = format!("axis {at} of size {size} does not split into {parts} equal parts");
        let error = RuleError::shape(message).help("give the positions with `split_at`");
        trace::throw_operands("split", error, &[x]);
    }
    let step = size / parts;
    let mut pieces = Vec::with_capacity(parts);
    for index in 0..parts {
        pieces.push(part(x, at, index * step, (index + 1) * step));
    }
    pieces
}

/// Splits `x` along `axis` before each of `positions`, which must not decrease: one part more than
/// there are positions. Throws `Op` (shape) for positions beyond the axis.
#[track_caller]
pub fn split_at(x: &Array, positions: &[usize], axis: isize) -> Vec<Array> {
    let at = axis_of("split_at", axis, x.rank(), x);
    let size = x.shape()[at];
    if !positions.is_sorted() || positions.last().is_some_and(|&last| last > size) {
        let message = format!(
            "positions {positions:?} must not decrease nor pass the size {size} of axis {at}"
        );
        trace::throw_operands("split_at", RuleError::shape(message), &[x]);
    }
    let mut pieces = Vec::with_capacity(positions.len() + 1);
    let mut from = 0;
    for &to in positions.iter().chain([&size]) {
        pieces.push(part(x, at, from, to));
        from = to;
    }
    pieces
}

/// `x` repeated as a whole, `repeats[i]` times along axis `i`; axes are aligned at the last, as in
/// broadcasting, and missing ones on either side count as 1.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| tile(&x, &[4, 1, 2]), Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[4,2,6]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn tile(x: &Array, repeats: &[usize]) -> Array {
    let rank = x.rank().max(repeats.len());
    let size = |axis: usize| (axis + x.rank()).checked_sub(rank).map_or(1, |own| x.shape()[own]);
    let times =
        |axis: usize| (axis + repeats.len()).checked_sub(rank).map_or(1, |own| repeats[own]);
    // Each axis becomes a pair (repeat, element), which is flattened.
    let pairs: Vec<usize> = (0..rank).flat_map(|axis| [times(axis), size(axis)]).collect();
    let own: Vec<usize> = (rank - x.rank()..rank).map(|axis| 2 * axis + 1).collect();
    let shape: Shape = (0..rank).map(|axis| times(axis) * size(axis)).collect();
    reshape(&broadcast_in_dim(x, pairs, &own), shape)
}

/// `x` with each element along `axis` repeated `repeats` times in a row.
#[track_caller]
pub fn repeat(x: &Array, repeats: usize, axis: isize) -> Array {
    let at = axis_of("repeat", axis, x.rank(), x);
    let spread = x.shape().insert(at + 1, repeats);
    let own: Vec<usize> = (0..=x.rank()).filter(|&axis| axis != at + 1).collect();
    let mut shape = x.shape().to_vec();
    shape[at] *= repeats;
    reshape(&broadcast_in_dim(x, spread, &own), shape)
}

/// `x` with its elements moved `shift` places towards higher indices along `axis`, those that fall
/// off the end coming in at the start; negative shifts go the other way.
#[track_caller]
pub fn roll(x: &Array, shift: isize, axis: isize) -> Array {
    let at = axis_of("roll", axis, x.rank(), x);
    let size = x.shape()[at];
    if size == 0 {
        return x.clone();
    }
    let cut = (-shift).rem_euclid(size as isize) as usize;
    match cut {
        0 => x.clone(),
        _ => concatenate(&[&part(x, at, cut, size), &part(x, at, 0, cut)], at as isize),
    }
}

/// Differences of neighbours along `axis`: `x[i + 1] - x[i]`, one fewer than there are elements. For
/// booleans whether they differ.
#[track_caller]
pub fn diff(x: &Array, axis: isize) -> Array {
    let at = axis_of("diff", axis, x.rank(), x);
    let size = x.shape()[at];
    let (later, earlier) = (part(x, at, size.min(1), size), part(x, at, 0, size.max(1) - 1));
    if x.dtype().is_bool() { ne(later, earlier) } else { sub(later, earlier) }
}

/// `x` with the order of its elements reversed along `axes`.
#[track_caller]
pub fn flip(x: &Array, axes: impl Into<super::Axes>) -> Array {
    let axes = axes.into().resolve("flip", x);
    rev(x, &super::axes::signed(&axes))
}

/// `x` with two axes exchanged; negative ones count from the back.
#[track_caller]
pub fn swapaxes(x: &Array, first: isize, second: isize) -> Array {
    let (a, b) =
        (axis_of("swapaxes", first, x.rank(), x), axis_of("swapaxes", second, x.rank(), x));
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(a, b);
    crate::primitives::transpose(x, &order)
}

/// The elements `x[…, i, …, i + offset, …]` along two different axes, as a last axis.
#[track_caller]
pub(super) fn diagonal_of(x: &Array, offset: isize, first: usize, second: usize) -> Array {
    let last = x.rank() as isize - 1;
    // The two axes go to the end, first before second.
    let x = move_axis(x, first, last as usize);
    let second = if second > first { second - 1 } else { second };
    let x = move_axis(&x, second, last as usize);
    let rank = x.rank();
    let (rows, columns) = (x.shape()[rank - 2], x.shape()[rank - 1]);
    let (down, right) = match offset < 0 {
        true => (offset.unsigned_abs(), 0),
        false => (0, offset.unsigned_abs()),
    };
    let n = rows.saturating_sub(down).min(columns.saturating_sub(right));
    // Flattened row-major, neighbours on the diagonal are one row and one column apart.
    let mut flat = x.shape()[..rank - 2].to_vec();
    flat.push(rows * columns);
    let x = reshape(&x, flat.clone());
    let mut starts = vec![0; rank - 1];
    let mut limits = flat;
    let mut strides = vec![1; rank - 1];
    let start = down * columns + right;
    starts[rank - 2] = if n == 0 { 0 } else { start };
    limits[rank - 2] = if n == 0 { 0 } else { start + (n - 1) * (columns + 1) + 1 };
    strides[rank - 2] = columns + 1;
    slice(&x, &starts, &limits, &strides)
}

/// The diagonal `x[…, i, i + offset]` of the last two axes: `[…, m, n] → […, k]`. Throws `Op`
/// (shape) for arrays of rank below 2.
#[track_caller]
pub fn diagonal(x: &Array, offset: isize) -> Array {
    if x.rank() < 2 {
        let message = format!("takes an array of rank 2 and more, got {}", x.rank());
        trace::throw_operands("diagonal", RuleError::shape(message), &[x]);
    }
    diagonal_of(x, offset, x.rank() - 2, x.rank() - 1)
}

/// Sum of the diagonal `x[…, i, i + offset]` of the last two axes.
#[track_caller]
pub fn trace(x: &Array, offset: isize) -> Array {
    diagonal(x, offset).sum_axes(-1)
}

/// Whether `column - row <= offset` in a matrix of shape `[rows, columns]`.
#[track_caller]
fn lower_triangle(rows: usize, columns: usize, offset: isize) -> Array {
    let row = iota(DType::I32, [rows, columns], 0);
    let column = iota(DType::I32, [rows, columns], 1);
    le(sub(&column, &row), offset as i32)
}

#[track_caller]
fn triangle(name: &str, x: &Array, offset: isize) -> Array {
    if x.rank() < 2 {
        let message = format!("takes an array of rank 2 and more, got {}", x.rank());
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
    let (rows, columns) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
    let mask = lower_triangle(rows, columns, offset);
    broadcast_in_dim(&mask, x.shape(), &[x.rank() - 2, x.rank() - 1])
}

/// The lower triangle of the last two axes, zero above diagonal `offset`: 0 is the main one,
/// positive ones lie above it. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn tril(x: &Array, offset: isize) -> Array {
    where_(&triangle("tril", x, offset), x, zeros_like(x))
}

/// The upper triangle of the last two axes, zero below diagonal `offset`: 0 is the main one,
/// positive ones lie above it. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn triu(x: &Array, offset: isize) -> Array {
    where_(&triangle("triu", x, offset - 1), zeros_like(x), x)
}

/// A matrix of shape `[rows, columns]` with ones on and below diagonal `offset`, zeros above.
#[track_caller]
pub fn tri(rows: usize, columns: usize, offset: isize, dtype: DType) -> Array {
    crate::primitives::convert_element_type(&lower_triangle(rows, columns, offset), dtype)
}
