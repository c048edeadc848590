//! Arrays made from nothing: ranges, identities, grids, one-hot rows.

use crate::core::{Array, DType, RuleError, Scalar, Shape, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    ArrayLike, Like, abs, add, arange_step, broadcast_in_dim, broadcasted_iota as iota,
    concatenate, convert_element_type, div, eq, exp, fill_of, log, mul, pow, promote_inexact,
    reshape, sign, sub,
};

/// `0, 1, …` up to but without `stop`: `i32` for an integer, `f32` for a float. Empty if `stop` is
/// not positive. [`arange_step`] has a start and a step.
///
/// Throws `Op` (value) for a number that is not finite.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| arange(5), ())?.aval().to_string(), "i32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn arange(stop: impl Into<Scalar>) -> Array {
    arange_step(0, stop, 1)
}

/// `num` numbers at equal distances from `start` to `stop`, both included, along a new first axis:
/// `[num, …]` for operands of shape `[…]`. Integers become floats. One number is `start`.
/// [`linspace_open`] leaves `stop` out.
///
/// Throws `Op` for operands that do not broadcast.
#[track_caller]
pub fn linspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    let [start, stop] = strong_ends(start.like(), stop.like());
    if num < 2 {
        let inner: Vec<usize> = (1..=start.rank()).collect();
        return broadcast_in_dim(&start, start.shape().insert(0, num), &inner);
    }
    // The last one is put there as it is, without rounding.
    let open = spread(&start, &stop, num - 1, num - 1);
    concatenate(&[&open, &reshape(&stop, stop.shape().insert(0, 1))], 0)
}

/// `num` numbers at equal distances from `start` towards `stop`, which would be the next, along a
/// new first axis. Integers become floats.
///
/// Throws `Op` for operands that do not broadcast.
#[track_caller]
pub fn linspace_open(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    let [start, stop] = strong_ends(start.like(), stop.like());
    spread(&start, &stop, num, num)
}

/// Both ends in one float dtype that does not give way.
#[track_caller]
fn strong_ends(start: Like<'_>, stop: Like<'_>) -> [Array; 2] {
    let [start, stop] = promote_inexact("linspace", [start, stop]);
    [convert_element_type(&start, start.dtype()), convert_element_type(&stop, stop.dtype())]
}

/// `start + i/parts · (stop - start)` for the first `num` values of `i`.
#[track_caller]
fn spread(start: &Array, stop: &Array, num: usize, parts: usize) -> Array {
    let shape = start.shape().insert(0, num);
    let inner: Vec<usize> = (1..=start.rank()).collect();
    let part = start.dtype().real();
    let steps = convert_element_type(&iota(DType::I32, [num], 0), part);
    let share = div(&steps, Scalar::Float(parts as f64));
    let share = convert_element_type(&broadcast_in_dim(&share, shape.clone(), &[0]), start.dtype());
    let rest = sub(fill_of(Scalar::Int(1), share.aval()), &share);
    // Both ends are weighted, so that neither is lost beside a much larger one.
    let low = mul(broadcast_in_dim(start, shape.clone(), &inner), rest);
    let high = mul(broadcast_in_dim(stop, shape, &inner), share);
    add(low, high)
}

/// `num` numbers from `base^start` to `base^stop`, both included, whose logarithms lie at equal
/// distances: `[num, …]` for operands of shape `[…]`. NumPy's base is 10.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| logspace(0.0, 3.0, 4, 10.0), ())?.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logspace(
    start: impl ArrayLike,
    stop: impl ArrayLike,
    num: usize,
    base: impl ArrayLike,
) -> Array {
    pow(base, linspace(start, stop, num))
}

/// `num` numbers from `start` to `stop`, both included, each the same multiple of the one before:
/// `[num, …]` for operands of shape `[…]`. NaN if real operands differ in sign or are 0.
#[track_caller]
pub fn geomspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    let [start, stop] = promote_inexact("geomspace", [start.like(), stop.like()]);
    // Between negative numbers the logarithms are those of their magnitudes.
    let sign = match start.dtype().is_complex() {
        true => div(&start, convert_element_type(&abs(&start), start.dtype())),
        false => sign(&start),
    };
    let (low, high) = (div(&start, &sign), div(&stop, &sign));
    let inner = exp(&linspace(log(&low), log(&high), num));
    let middle = mul(&sign, inner);
    if num < 2 {
        return middle;
    }
    // Both ends as they are, without rounding.
    let between = super::axis_slice::slice_axis(&middle, 0, 1, num - 1);
    let first = reshape(&start, start.shape().insert(0, 1));
    let last = reshape(&stop, stop.shape().insert(0, 1));
    concatenate(&[&first, &between, &last], 0)
}

/// The identity matrix of shape `[n, n]`.
#[doc(alias = "identity")]
#[track_caller]
pub fn eye(n: usize, dtype: DType) -> Array {
    eye_offset(n, n, 0, dtype)
}

/// A matrix of shape `[rows, columns]` with ones on diagonal `offset` (0 is the main one, positive
/// ones lie above it) and zeros elsewhere.
#[track_caller]
pub fn eye_offset(rows: usize, columns: usize, offset: isize, dtype: DType) -> Array {
    let row = iota(DType::I32, [rows, columns], 0);
    let column = iota(DType::I32, [rows, columns], 1);
    convert_element_type(&eq(sub(&column, &row), offset as i32), dtype)
}

/// How [`meshgrid`] orders the first two axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// Axis `i` of the results is that of vector `i`: matrix indices.
    #[default]
    Ij,
    /// The first two are exchanged: Cartesian coordinates, as NumPy does by default.
    Xy,
}

/// Coordinate arrays of the grid that `vectors` span: result `i` has the elements of vector `i`
/// along its axis and repeats along the others. Throws `Op` (shape) for an operand that is not a
/// vector.
#[track_caller]
pub fn meshgrid<'a>(vectors: impl AsRef<[&'a Array]>, indexing: Indexing) -> Vec<Array> {
    let vectors = vectors.as_ref();
    if let Some(other) = vectors.iter().find(|x| x.rank() != 1) {
        let message = format!("takes vectors, got {}", other.aval());
        trace::throw_operands("meshgrid", RuleError::shape(message), vectors);
    }
    let place = |index: usize| match indexing {
        Indexing::Xy if index < 2 && vectors.len() > 1 => 1 - index,
        _ => index,
    };
    let mut shape = vec![0; vectors.len()];
    for (index, x) in vectors.iter().enumerate() {
        shape[place(index)] = x.size();
    }
    let mut grids = Vec::with_capacity(vectors.len());
    for (index, x) in vectors.iter().enumerate() {
        grids.push(broadcast_in_dim(x, shape.as_slice(), &[place(index)]));
    }
    grids
}

/// For each class index in `x` a row of `num_classes` numbers along a new last axis: 1 at the
/// index, 0 elsewhere, and all 0 for an index out of range. `f32`; see [`one_hot_axis`].
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|labels: Array| one_hot(&labels, 10), Aval::new(DType::I32, [128]))?;
/// assert_eq!(y.aval().to_string(), "f32[128,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn one_hot(x: &Array, num_classes: usize) -> Array {
    one_hot_axis(x, num_classes, -1, DType::F32)
}

/// As [`one_hot`], with the new axis at position `axis` of the result and of another dtype. Throws
/// `Op` (shape) for an axis out of range.
#[track_caller]
pub fn one_hot_axis(x: &Array, num_classes: usize, axis: isize, dtype: DType) -> Array {
    let axis = match resolve_axis(axis, x.rank() + 1) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands("one_hot", error, &[x]),
    };
    // Class numbers may not fit into a narrow integer.
    let wide = match x.dtype() {
        narrow if narrow.is_bool() || narrow.is_integer() && narrow.bits() < 32 => DType::I32,
        other => other,
    };
    let shape: Shape = x.shape().insert(axis, num_classes);
    let own: Vec<usize> = (0..=x.rank()).filter(|&other| other != axis).collect();
    let classes = iota(wide, shape.clone(), axis);
    let x = broadcast_in_dim(&convert_element_type(x, wide), shape, &own);
    convert_element_type(&eq(x, classes), dtype)
}
