//! Conversion between multi-dimensional and flat indices.

use super::super::{clip, floor_divide, remainder, resize};
use crate::core::{Array, DType, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, ArrayList, Like, add, convert_element_type, lt, mul, references, scalar, where_,
    zeros_like,
};

/// Treatment of indices out of range. JAX's `raise` is not possible in a traced program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexMode {
    /// Clips to the nearest index; negative indices become 0.
    #[default]
    Clip,
    /// Takes indices modulo the size.
    Wrap,
}

impl IndexMode {
    /// Maps indices into an axis of `size` elements.
    #[track_caller]
    pub(in crate::ops) fn apply(self, indices: &Array, size: usize) -> Array {
        let last = size.saturating_sub(1) as i64;
        match self {
            IndexMode::Clip => clip(indices, 0, last),
            IndexMode::Wrap => remainder(indices, size.max(1) as i64),
        }
    }
}

/// Converts indices to signed integers of at least 32 bits, so that products of sizes fit. Throws
/// `Op` (dtype) for indices that are not integers.
#[track_caller]
pub(in crate::ops) fn wide(name: &str, x: &Array) -> Array {
    match x.dtype() {
        dtype if !dtype.is_integer() => {
            let message = format!("indices must be integers, got {}", x.aval());
            trace::throw_operands(name, RuleError::dtype(message), &[x])
        }
        DType::I64 | DType::U64 | DType::U32 => convert_element_type(x, DType::I64),
        _ => convert_element_type(x, DType::I32),
    }
}

/// Returns the row-major index, in an array of shape `dims`, of elements with one index for each
/// axis. The index arrays broadcast; `mode` handles indices out of range.
///
/// Throws `Op` (value) if the number of arrays differs from the number of axes, and `Op` (dtype) if
/// they are not integers.
///
/// ```
/// use oxidax::prelude::*;
/// let index = Aval::new(DType::I32, [5]);
/// let flat = eval_shape(
///     |row: Array, column: Array| ravel_multi_index([&row, &column], &[3, 4], IndexMode::Clip),
///     (index.clone(), index),
/// )?;
/// assert_eq!(flat.aval().to_string(), "i32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ravel_multi_index<F>(
    multi_index: impl ArrayList<F>,
    dims: &[usize],
    mode: IndexMode,
) -> Array {
    Loc::caller().scope(|| {
        let multi_index = multi_index.into_arrays();
        if multi_index.len() != dims.len() || dims.is_empty() {
            let message = format!("{} arrays of indices for the axes {dims:?}", multi_index.len());
            trace::throw_operands(
                "ravel_multi_index",
                RuleError::value(message),
                &references(&multi_index),
            );
        }
        let mut flat: Option<Array> = None;
        for (x, &size) in multi_index.iter().zip(dims) {
            let index = mode.apply(&wide("ravel_multi_index", x), size);
            flat = Some(match flat {
                None => index,
                Some(flat) => add(mul(&flat, size as i64), &index),
            });
        }
        flat.expect("there is at least one axis")
    })
}

/// Returns the index along each axis, in an array of shape `shape`, of the elements at row-major
/// indices `x`: one array of the shape of `x` for each axis. Negative indices count from the end,
/// and indices out of range are clipped. Throws `Op` (dtype) if `x` is not an integer array.
#[track_caller]
pub fn unravel_index(x: &Array, shape: &[usize]) -> Vec<Array> {
    let x = wide("unravel_index", x);
    let size = shape.iter().product::<usize>() as i64;
    let clipped = clip(&x, -size, (size - 1).max(0));
    let mut rest = where_(lt(&clipped, zeros_like(&clipped)), add(&clipped, size), &clipped);
    let mut indices = Vec::with_capacity(shape.len());
    for &size in shape.iter().rev() {
        indices.push(remainder(&rest, size.max(1) as i64));
        rest = floor_divide(&rest, size.max(1) as i64);
    }
    indices.reverse();
    indices
}

/// Returns the first `count` elements of `values`, repeated from the start as often as necessary.
#[track_caller]
pub(in crate::ops) fn cycled(values: impl ArrayLike, count: usize) -> Array {
    let values = match values.like() {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => scalar(value),
    };
    resize(&values, [count]).flatten()
}
