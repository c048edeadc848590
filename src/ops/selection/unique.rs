//! Different values, each once.

use super::super::{isnan, stack, take, unstack};
use super::nonzero::true_positions;
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    broadcast_to, concatenate, convert_element_type, cumsum, fill_of, full, full_like, iota, ne,
    reshape, slice, sort_multi, sub, where_, zeros,
};

/// What [`unique_all`] finds. Values are sorted, NaN last; all NaNs count as one value.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The different values, `[size]`; of [`unique_along`] the different slices.
    pub values: Array,
    /// Where each value stands first in the flattened array, `i32[size]`; 0 where there is no value.
    pub indices: Array,
    /// The number, `i32`, of each element's value, in the shape of the array: `values` at `inverse` is
    /// the array again.
    pub inverse: Array,
    /// How often each value occurs, `i32[size]`; 0 where there is no value.
    pub counts: Array,
}

/// `x` between two positions of a vector.
#[track_caller]
fn between(x: &Array, from: usize, to: usize) -> Array {
    slice(x, &[from], &[to], &[1])
}

/// The different rows of an `[n, m]` matrix, by columns; `values` are `[size, m]`, `inverse` is `[n]`.
#[track_caller]
fn unique_rows(rows: &Array, size: usize, fill_value: Scalar) -> Unique {
    let [n, m] = rows.dims();
    let filled = fill_of(fill_value, &rows.aval().strong().with_shape([size, m]));
    if n == 0 || m == 0 {
        let none = zeros([size], DType::I32);
        // Rows without elements are all alike.
        let counts = match n {
            0 => none.clone(),
            _ => where_(&crate::primitives::eq(iota(DType::I32, size), 0), n as i32, &none),
        };
        return Unique { values: filled, indices: none, inverse: zeros([n], DType::I32), counts };
    }
    let mut columns = unstack(rows, 1);
    columns.push(iota(DType::I32, n));
    let mut sorted = sort_multi(&columns, 0, m);
    let order = sorted.pop().expect("the positions were sorted along");
    let mut differs = full([n - 1], false);
    for column in &sorted {
        let (earlier, later) = (between(column, 0, n - 1), between(column, 1, n));
        differs = differs | (ne(&earlier, &later) & !(isnan(&earlier) & isnan(&later)));
    }
    let new = concatenate(&[&full([1], true), &differs], 0);
    // One more than asked for, so that the last count has an end.
    let (starts, there) = true_positions(&new, size + 1);
    let ends = where_(&there, &starts, n as i32);
    let counts = sub(between(&ends, 1, size + 1), between(&ends, 0, size));
    let (starts, there) = (between(&starts, 0, size), between(&there, 0, size));
    let indices = take(&order, &starts, 0);
    let indices = where_(&there, &indices, full_like(&indices, 0));
    let mut picked = Vec::with_capacity(m);
    for column in &sorted {
        picked.push(take(column, &starts, 0));
    }
    let picked = stack(picked.iter().collect::<Vec<_>>(), 1);
    let shown = broadcast_to(&reshape(&there, [size, 1]), [size, m]);
    let numbers = sub(cumsum(&convert_element_type(&new, DType::I32), 0, false), 1);
    let inverse = zeros([n], DType::I32).at([super::super::Index::Array(order)]).set(&numbers);
    Unique { values: where_(&shown, &picked, filled), indices, inverse, counts }
}

/// The different elements of the flattened array, smallest first: `[size]`, the rest `fill_value`; if
/// there are more, the smallest ones. All NaNs count as one value. JAX fills with the smallest value
/// unless told otherwise.
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

/// As [`unique`], with first positions, inverse and counts.
#[track_caller]
pub fn unique_all(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> Unique {
    let found = unique_rows(&reshape(x, [x.size(), 1]), size, fill_value.into());
    Unique {
        values: reshape(&found.values, [size]),
        inverse: reshape(&found.inverse, x.shape()),
        ..found
    }
}

/// As [`unique`], with how often each value occurs: values and counts.
#[track_caller]
pub fn unique_counts(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> (Array, Array) {
    let found = unique_all(x, size, fill_value);
    (found.values, found.counts)
}

/// As [`unique`], with the number of each element's value: values and inverse.
#[track_caller]
pub fn unique_inverse(x: &Array, size: usize, fill_value: impl Into<Scalar>) -> (Array, Array) {
    let found = unique_all(x, size, fill_value);
    (found.values, found.inverse)
}

/// The different slices along `axis`, in lexicographic order, `size` of them: `values` have that size
/// along `axis`, `indices` and `inverse` count slices. Throws `Op` (shape) for an axis out of range and
/// `Op` (unsupported) for slices of more than 64 elements.
#[track_caller]
pub fn unique_along(x: &Array, axis: isize, size: usize, fill_value: impl Into<Scalar>) -> Unique {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let each: usize = x.shape().remove(axis).size();
        match each <= 64 {
            true => Ok((axis, each)),
            // Every element of a slice is an operand of the sort.
            false => Err(RuleError::unsupported(format!(
                "slices along axis {axis} have {each} elements, at most 64 are compared"
            ))),
        }
    });
    let (axis, each) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands("unique_along", error, &[x]),
    };
    let front = move_axis(x, axis, 0);
    let found = unique_rows(&reshape(&front, [x.shape()[axis], each]), size, fill_value.into());
    let shape = front.shape().remove(0).insert(0, size);
    Unique { values: move_axis(&reshape(&found.values, shape), 0, axis), ..found }
}
