//! Distinct values.

use super::super::{isnan, stack, take, unstack};
use super::nonzero::true_indices;
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    broadcast_to, concatenate, convert_element_type, cumsum, fill_of, full, iota, ne, reshape,
    slice, sort_multi, sub, where_, zeros,
};

/// Distinct values of an array. Values are sorted, NaN last; all NaNs count as one value.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The distinct values, `[size]`, or the distinct slices along an axis.
    pub values: Array,
    /// Index of the first occurrence of each value in the flattened array, `i32[size]`; that of
    /// the first value for padding.
    pub indices: Array,
    /// Index of the value of each element, `i32`, in the shape of the array: `take(values,
    /// inverse)` restores it.
    pub inverse: Array,
    /// Number of occurrences of each value, `i32[size]`; 0 for padding.
    pub counts: Array,
}

/// Returns the elements `start..end` of a vector.
#[track_caller]
fn elements(x: &Array, start: usize, end: usize) -> Array {
    slice(x, &[start], &[end], &[1])
}

/// Returns the distinct rows of an `[n, m]` matrix: `values` are `[size, m]`, `inverse` is `[n]`.
#[track_caller]
fn unique_rows(rows: &Array, size: usize, fill_value: Scalar) -> Unique {
    let [n, m] = rows.dims();
    let padding = fill_of(fill_value, &rows.aval().strong().with_shape([size, m]));
    if n == 0 || m == 0 {
        let none = zeros(([size], DType::I32));
        // Rows without elements are all equal.
        let counts = match n {
            0 => none.clone(),
            _ => where_(crate::primitives::eq(iota(DType::I32, size), 0), n as i32, &none),
        };
        return Unique {
            values: padding,
            indices: none,
            inverse: zeros(([n], DType::I32)),
            counts,
        };
    }
    let mut columns = unstack(rows, 1);
    columns.push(iota(DType::I32, n));
    let mut sorted = sort_multi(&columns, 0, m);
    let order = sorted.pop().expect("the indices are the last operand");
    let mut differs = full([n - 1], false);
    for column in &sorted {
        let (earlier, later) = (elements(column, 0, n - 1), elements(column, 1, n));
        differs = differs | (ne(&earlier, &later) & !(isnan(&earlier) & isnan(&later)));
    }
    let new = concatenate([&full([1], true), &differs], 0);
    // One more than `size`, so that the last count has an end.
    let (starts, is_valid) = true_indices(&new, size + 1);
    let ends = where_(&is_valid, &starts, n as i32);
    let counts = sub(elements(&ends, 1, size + 1), elements(&ends, 0, size));
    let (starts, is_valid) = (elements(&starts, 0, size), elements(&is_valid, 0, size));
    let indices = where_(&is_valid, take(&order, &starts, 0), elements(&order, 0, 1));
    let mut columns = Vec::with_capacity(m);
    for column in &sorted {
        columns.push(take(column, &starts, 0));
    }
    let values = stack(columns.iter().collect::<Vec<_>>(), 1);
    let is_valid = broadcast_to(&reshape(&is_valid, [size, 1]), [size, m]);
    let numbers = sub(cumsum(&convert_element_type(&new, DType::I32), 0), 1);
    let inverse = zeros(([n], DType::I32)).at([super::super::Index::Array(order)]).set(&numbers);
    Unique { values: where_(&is_valid, &values, padding), indices, inverse, counts }
}

/// Returns the sorted distinct elements of the flattened array: `[size]`, padded with `fill_value`.
/// If there are more, the smallest ones are returned. All NaNs count as one value. JAX pads with
/// the smallest value by default.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| unique(&x, 4, -1), Aval::new(DType::I32, [2, 5]))?;
/// assert_eq!(y.aval().to_string(), "i32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "unique_values")]
#[track_caller]
pub fn unique(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> Array {
    unique_all(x, size, fill_value).values
}

/// Returns [`unique`] values with their first indices, the inverse and counts.
#[track_caller]
pub fn unique_all(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> Unique {
    let unique = unique_rows(&reshape(x, [x.size(), 1]), size, fill_value.into());
    Unique {
        values: reshape(&unique.values, [size]),
        inverse: reshape(&unique.inverse, x.shape()),
        ..unique
    }
}

/// Returns [`unique`] values and their counts.
#[track_caller]
pub fn unique_counts(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> (Array, Array) {
    let unique = unique_all(x, size, fill_value);
    (unique.values, unique.counts)
}

/// Returns [`unique`] values and the inverse, the index of the value of each element.
#[track_caller]
pub fn unique_inverse(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> (Array, Array) {
    let unique = unique_all(x, size, fill_value);
    (unique.values, unique.inverse)
}

/// Maximum number of elements of a slice in [`unique_with`].
const MAX_SLICE: usize = 64;

/// Options of [`unique_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UniqueOptions {
    /// The axis whose slices are compared. The flattened array is used if `None`.
    pub axis: Option<isize>,
}

/// Returns distinct values, as [`unique_all`], or distinct slices along an axis in lexicographic
/// order: `values` have `size` slices along the axis, `indices` and `inverse` are indices of
/// slices. Throws `Op` (shape) for an axis out of range and `Op` (unsupported) for slices of more
/// than 64 elements.
#[track_caller]
pub fn unique_with(
    x: &Array,
    size: usize,
    fill_value: impl Into<Scalar>,
    options: UniqueOptions,
) -> Unique {
    let Some(axis) = options.axis else { return unique_all(x, size, fill_value) };
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let slice_size = x.shape().remove(axis).size();
        // Every element of a slice is an operand of the sort.
        if slice_size <= MAX_SLICE {
            return Ok((axis, slice_size));
        }
        Err(RuleError::unsupported(format!(
            "slices along axis {axis} have {slice_size} elements, at most {MAX_SLICE} are compared"
        )))
    });
    let (axis, slice_size) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("unique", error, &[x]),
    };
    let front = move_axis(x, axis, 0);
    let unique =
        unique_rows(&reshape(&front, [x.shape()[axis], slice_size]), size, fill_value.into());
    let shape = front.shape().remove(0).insert(0, size);
    Unique { values: move_axis(&reshape(&unique.values, shape), 0, axis), ..unique }
}
