//! Arrays made from nothing: ranges, identities, grids, one-hot rows.

use crate::core::{Array, DType, RuleError, Scalar, Shape, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    ArrayLike, add, broadcast_in_dim, concatenate, convert_element_type, convert_to, div, eq,
    fill_of, inexact, iota, mul, promote_inexact, reshape, scalar, sub,
};

/// `0, 1, …` up to but without `stop`: `i32` for an integer, `f32` for a float. Empty if `stop` is
/// not positive. [`arange_step`] has a start and a step.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| arange(5), ())?.aval().to_string(), "i32[5]");
/// assert_eq!(eval_shape(|| arange_step(0.0, 1.0, 0.25), ())?.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn arange(stop: impl Into<Scalar>) -> Array {
    arange_step(Scalar::Int(0), stop, Scalar::Int(1))
}

/// `start, start + step, …` up to but without `stop`: `i32` if all three are integers, else `f32`.
/// Throws `Op` (value) for a step of zero, bounds that are not finite and complex numbers.
#[track_caller]
pub fn arange_step(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
) -> Array {
    let (start, stop, step) = (start.into(), stop.into(), step.into());
    let refuse = |message: String| RuleError::value(message);
    let all = [start, stop, step];
    let length = if all.iter().any(|value| matches!(value, Scalar::Complex(..))) {
        Err(refuse(format!("takes real numbers, got {start:?}, {stop:?}, {step:?}")))
    } else if step.as_f64() == 0.0 || all.iter().any(|value| !value.as_f64().is_finite()) {
        let (start, stop, step) = (start.as_f64(), stop.as_f64(), step.as_f64());
        Err(refuse(format!("no range from {start} to {stop} in steps of {step}")))
    } else {
        Ok(((stop.as_f64() - start.as_f64()) / step.as_f64()).ceil().max(0.0) as usize)
    };
    let length = match length {
        Ok(length) => length,
        Err(error) => trace::throw_operands("arange", error, &[]),
    };
    let whole = all.iter().all(|value| !matches!(value, Scalar::Float(_)));
    let dtype = if whole { DType::I32 } else { DType::F32 };
    let mut range = iota(if whole { DType::I32 } else { DType::I32 }, [length], 0);
    if !whole {
        range = convert_element_type(&range, dtype);
    }
    if step.as_f64() != 1.0 {
        range = mul(&range, fill_of(step, range.aval()));
    }
    match start.as_f64() == 0.0 {
        true => range,
        false => add(&range, fill_of(start, range.aval())),
    }
}

/// `num` numbers at equal distances from `start` to `stop`, both included, along a new first axis:
/// `[num, …]` for operands of shape `[…]`. Integers become floats. One number is `start`.
#[track_caller]
pub fn linspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    let [start, stop] = promote_inexact("linspace", [start.like(), stop.like()]);
    let (start, stop) =
        (convert_to(&start, start.dtype(), false), convert_to(&stop, stop.dtype(), false));
    let shape = start.shape().insert(0, num);
    let inner: Vec<usize> = (1..=start.rank()).collect();
    if num < 2 {
        return broadcast_in_dim(&start, shape, &inner);
    }
    let part = start.dtype().real();
    // The last one is put there as it is, without rounding.
    let steps = convert_element_type(&iota(DType::I32, [num - 1], 0), part);
    let share = div(&steps, Scalar::Float((num - 1) as f64));
    let open = start.shape().insert(0, num - 1);
    let share = convert_element_type(&broadcast_in_dim(&share, open.clone(), &[0]), start.dtype());
    let one_less = sub(fill_of(Scalar::Int(1), share.aval()), &share);
    let low = mul(broadcast_in_dim(&start, open.clone(), &inner), one_less);
    let high = mul(broadcast_in_dim(&stop, open, &inner), share);
    let last = reshape(&stop, stop.shape().insert(0, 1));
    concatenate(&[&add(low, high), &last], 0)
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
