//! Running sums and products with NumPy's dtypes and defaults.

use super::isnan;
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{
    concatenate, convert_element_type, cumprod, cumsum, full_like, ones_like, reshape, where_,
    zeros_like,
};

/// The dtype of a running total: booleans are counted in `i32`.
fn counted(x: &Array) -> Array {
    if x.dtype().is_bool() { convert_element_type(x, DType::I32) } else { x.clone() }
}

/// As [`counted`], integers below 32 bits widened to 32, as sums are.
fn widened(x: &Array) -> Array {
    match x.dtype() {
        dtype if dtype.is_signed() && dtype.bits() < 32 => convert_element_type(x, DType::I32),
        dtype if dtype.is_unsigned() && dtype.bits() < 32 => convert_element_type(x, DType::U32),
        _ => counted(x),
    }
}

/// Numbers without NaN, `value` in its place.
fn filled(x: &Array, value: f64) -> Array {
    match x.dtype().is_inexact() {
        true => where_(&isnan(x), full_like(x, value), x),
        false => x.clone(),
    }
}

fn flat(x: &Array) -> Array {
    reshape(x, [x.size()])
}

/// Running totals. Each comes over all elements in memory's order (`x.cumsum()`) and along an axis
/// (`x.cumsum_axis(-1)`, negative ones count from the back); [`cumsum`](crate::primitives::cumsum()) and its
/// like also go backwards.
impl Array {
    /// Sum of the elements up to each, of the flattened array; booleans are counted in `i32`, everything
    /// else keeps its dtype.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.cumsum(), Aval::new(DType::Bool, [2, 3]))?;
    /// assert_eq!(y.aval().to_string(), "i32[6]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self) -> Array {
        cumsum(&counted(&flat(self)), 0, false)
    }

    /// Sum of the elements up to each along one axis. See [`Array::cumsum`].
    #[track_caller]
    pub fn cumsum_axis(&self, axis: isize) -> Array {
        cumsum(&counted(self), axis, false)
    }

    /// Product of the elements up to each, of the flattened array; booleans are multiplied in `i32`,
    /// everything else keeps its dtype.
    #[track_caller]
    pub fn cumprod(&self) -> Array {
        cumprod(&counted(&flat(self)), 0, false)
    }

    /// Product of the elements up to each along one axis. See [`Array::cumprod`].
    #[track_caller]
    pub fn cumprod_axis(&self, axis: isize) -> Array {
        cumprod(&counted(self), axis, false)
    }

    /// As [`Array::cumsum`], NaN counting as 0.
    #[track_caller]
    pub fn nancumsum(&self) -> Array {
        filled(self, 0.0).cumsum()
    }

    /// As [`Array::cumsum_axis`], NaN counting as 0.
    #[track_caller]
    pub fn nancumsum_axis(&self, axis: isize) -> Array {
        filled(self, 0.0).cumsum_axis(axis)
    }

    /// As [`Array::cumprod`], NaN counting as 1.
    #[track_caller]
    pub fn nancumprod(&self) -> Array {
        filled(self, 1.0).cumprod()
    }

    /// As [`Array::cumprod_axis`], NaN counting as 1.
    #[track_caller]
    pub fn nancumprod_axis(&self, axis: isize) -> Array {
        filled(self, 1.0).cumprod_axis(axis)
    }
}

/// The first element along an axis with size 1, of an array that has one more in front.
#[track_caller]
fn with_initial(
    name: &str,
    x: &Array,
    axis: isize,
    include_initial: bool,
    total: fn(&Array, isize, bool) -> Array,
    initial: fn(&Array) -> Array,
) -> Array {
    let axis = match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) if x.rank() > 0 => trace::throw_operands(name, error, &[x]),
        Err(_) => {
            let error = RuleError::shape("needs an array with an axis, got a scalar");
            trace::throw_operands(name, error, &[x])
        }
    };
    let totals = total(x, axis as isize, false);
    if !include_initial {
        return totals;
    }
    let first = totals.aval().with_shape(totals.shape().remove(axis).insert(axis, 1));
    let first = initial(&crate::primitives::zeros_of(&first));
    concatenate(&[first, totals], axis as isize)
}

/// Sum of the elements of `x` up to each along `axis`; if `include_initial`, the empty sum stands in front,
/// and the axis is one longer. Booleans and integers below 32 bits sum to 32 bits.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| cumulative_sum(&x, -1, true), Aval::new(DType::U8, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "u32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cumulative_sum(x: &Array, axis: isize, include_initial: bool) -> Array {
    with_initial("cumulative_sum", &widened(x), axis, include_initial, cumsum, zeros_like)
}

/// Product of the elements of `x` up to each along `axis`; if `include_initial`, the empty product, 1,
/// stands in front, and the axis is one longer. Booleans are multiplied in `i32`, everything else keeps its
/// dtype.
#[track_caller]
pub fn cumulative_prod(x: &Array, axis: isize, include_initial: bool) -> Array {
    with_initial("cumulative_prod", &counted(x), axis, include_initial, cumprod, ones_like)
}
