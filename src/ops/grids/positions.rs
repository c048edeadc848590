//! Positions in an array and in the same array flattened.

use super::super::{clip, floor_divide, remainder};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{ArrayLike, add, convert_element_type, lt, mul, where_, zeros_like};

/// What is done with a position out of range. JAX's `raise` has no place in a traced program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexMode {
    /// The nearest position counts; negative ones are 0.
    #[default]
    Clip,
    /// Positions start again at the end: modulo the size.
    Wrap,
}

impl IndexMode {
    /// The positions brought into an axis of size `size`.
    #[track_caller]
    pub(in crate::ops) fn within(self, positions: &Array, size: usize) -> Array {
        let last = size.saturating_sub(1) as i64;
        match self {
            IndexMode::Clip => clip(positions, 0, last),
            IndexMode::Wrap => remainder(positions, size.max(1) as i64),
        }
    }
}

/// Integers of at least 32 bits, signed, so that products of sizes fit.
#[track_caller]
pub(in crate::ops) fn wide(name: &str, x: &Array) -> Array {
    match x.dtype() {
        dtype if !dtype.is_integer() => {
            let message = format!("positions must be integers, got {}", x.aval());
            trace::throw_operands(name, RuleError::dtype(message), &[x])
        }
        DType::I64 | DType::U64 | DType::U32 => convert_element_type(x, DType::I64),
        _ => convert_element_type(x, DType::I32),
    }
}

/// The row-major position in an array of shape `sizes` of the element with the given position along
/// each axis. Position arrays broadcast; `mode` says what is done with those out of range.
///
/// Throws `Op` (value) if there is not one array for each axis and `Op` (dtype) if they are not of
/// integers.
///
/// ```
/// use oxidax::prelude::*;
/// let at = Aval::new(DType::I32, [5]);
/// let flat = eval_shape(
///     |row: Array, column: Array| ravel_multi_index([&row, &column], &[3, 4], IndexMode::Clip),
///     (at.clone(), at),
/// )?;
/// assert_eq!(flat.aval().to_string(), "i32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ravel_multi_index<'a>(
    positions: impl AsRef<[&'a Array]>,
    sizes: &[usize],
    mode: IndexMode,
) -> Array {
    let positions = positions.as_ref();
    if positions.len() != sizes.len() || sizes.is_empty() {
        let message = format!("{} arrays of positions for the axes {sizes:?}", positions.len());
        trace::throw_operands("ravel_multi_index", RuleError::value(message), positions);
    }
    let mut flat: Option<Array> = None;
    for (x, &size) in positions.iter().zip(sizes) {
        let within = mode.within(&wide("ravel_multi_index", x), size);
        flat = Some(match flat {
            None => within,
            Some(before) => add(mul(&before, size as i64), &within),
        });
    }
    flat.expect("there is at least one axis")
}

/// The position along each axis of an array of shape `sizes` of the elements at row-major positions
/// `x`: one array of the shape of `x` for each axis. Negative positions count from the back, those out
/// of range become the nearest. Throws `Op` (dtype) if `x` is not of integers.
#[track_caller]
pub fn unravel_index(x: &Array, sizes: &[usize]) -> Vec<Array> {
    let x = wide("unravel_index", x);
    let total = sizes.iter().product::<usize>() as i64;
    let inside = clip(&x, -total, (total - 1).max(0));
    let mut rest = where_(&lt(&inside, zeros_like(&inside)), add(&inside, total), &inside);
    let mut along = Vec::with_capacity(sizes.len());
    for &size in sizes.iter().rev() {
        along.push(remainder(&rest, size.max(1) as i64));
        rest = floor_divide(&rest, size.max(1) as i64);
    }
    along.reverse();
    along
}

/// How often, from the start again, a list of `values` is gone through to give `count` of them.
#[track_caller]
pub(in crate::ops) fn cycled(values: impl ArrayLike, count: usize) -> Array {
    let flat = super::super::resize(&array_of(values), [count]);
    flat.flatten()
}

#[track_caller]
fn array_of(values: impl ArrayLike) -> Array {
    match values.like() {
        crate::primitives::Like::Array(x) => x.clone(),
        crate::primitives::Like::Scalar(value) => crate::primitives::scalar(value),
    }
}
