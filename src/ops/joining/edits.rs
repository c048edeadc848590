//! Elements put in, taken out, and compared with their neighbours.

use super::super::arrange::part;
use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{broadcast_to, concatenate, convert_element_type, reshape, slice, zeros};

/// The elements of `x`, row-major and again from the start as often as it takes, under another shape.
/// Zeros if `x` is empty.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| resize(&x, [2, 4]), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn resize(x: &Array, shape: impl Into<Shape>) -> Array {
    let shape = shape.into();
    let (have, need) = (x.size(), shape.size());
    if have == 0 || need == 0 {
        return zeros(shape, x.dtype());
    }
    let whole = super::super::tile(&reshape(x, [have]), &[need.div_ceil(have)]);
    reshape(&slice(&whole, &[0], &[need], &[1]), shape)
}

/// Positions along an axis of size `size`, up to `limit`, counted from the front.
fn positions(given: &[isize], size: usize, limit: usize) -> Result<Vec<usize>, RuleError> {
    let place = |&position: &isize| {
        let from_start = if position < 0 { position + size as isize } else { position };
        usize::try_from(from_start).ok().filter(|&at| at < limit).ok_or_else(|| {
            RuleError::value(format!("position {position} is out of range for an axis of {size}"))
        })
    };
    given.iter().map(place).collect()
}

/// `x` without the slices at `positions` along `axis`; negative ones count from the back. The
/// positions are numbers of the program, so that the result has a known shape.
///
/// Throws `Op` (value) for positions out of range and `Op` (shape) for such an axis.
#[track_caller]
pub fn delete(x: &Array, positions_gone: impl AsRef<[isize]>, axis: isize) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let size = x.shape()[axis];
        Ok((axis, positions(positions_gone.as_ref(), size, size)?))
    });
    let (axis, mut gone) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("delete", error, &[x]),
    };
    gone.sort_unstable();
    gone.dedup();
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in gone.iter().copied().chain([x.shape()[axis]]) {
        if at > from {
            pieces.push(part(x, axis, from, at));
        }
        from = at + 1;
    }
    match pieces.is_empty() {
        true => part(x, axis, 0, 0),
        false => concatenate(&pieces, axis as isize),
    }
}

/// `x` with slices of `values` put in before `positions` along `axis`; negative ones count from the
/// back, the size of the axis stands for its end, and several at one position keep their order.
///
/// `values` broadcast to the shape of `x` with as many slices along `axis` as there are positions, and
/// take the dtype of `x`. Throws `Op` (value) for positions out of range and `Op` (shape) for values
/// that do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, v) = (Aval::new(DType::F32, [2, 3]), Aval::new(DType::F32, [2, 1]));
/// let y = eval_shape(|x: Array, v: Array| insert(&x, [0, 3], &v, 1), (x, v))?;
/// assert_eq!(y.aval().to_string(), "f32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn insert(
    x: &Array,
    positions_before: impl AsRef<[isize]>,
    values: &Array,
    axis: isize,
) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let size = x.shape()[axis];
        let places = positions(positions_before.as_ref(), size, size + 1)?;
        let shape = x.shape().remove(axis).insert(axis, places.len());
        if values.rank() > x.rank() || values.shape().broadcast(&shape).as_ref() != Some(&shape) {
            return Err(RuleError::shape(format!(
                "values {} do not broadcast to the {shape} elements to put in",
                values.aval()
            )));
        }
        Ok((axis, places, shape))
    });
    let (axis, places, shape) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("insert", error, &[x, values]),
    };
    let values = broadcast_to(&convert_element_type(values, x.dtype()), shape);
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&which| places[which]);
    let mut pieces = Vec::new();
    let mut from = 0;
    for which in order {
        if places[which] > from {
            pieces.push(part(x, axis, from, places[which]));
            from = places[which];
        }
        pieces.push(part(&values, axis, which, which + 1));
    }
    if from < x.shape()[axis] || pieces.is_empty() {
        pieces.push(part(x, axis, from, x.shape()[axis]));
    }
    concatenate(&pieces, axis as isize)
}

/// Differences of neighbours of the flattened array: `[n - 1]` for `n` elements.
#[track_caller]
pub fn ediff1d(x: &Array) -> Array {
    super::super::diff(&reshape(x, [x.size()]), 0)
}
