//! Cumulative sums and products with NumPy's dtypes and defaults.

use super::axis_slice::expect_axis;
use super::isnan;
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    concatenate, convert_element_type, cumprod, cumsum, full_like, ones_like, where_, zeros_like,
    zeros_of,
};

/// Converts booleans to `i32`.
fn bool_to_int(x: &Array) -> Array {
    if x.dtype().is_bool() { convert_element_type(x, DType::I32) } else { x.clone() }
}

/// Widens booleans and integers below 32 bits to 32 bits, as sums do.
fn widened(x: &Array) -> Array {
    match x.dtype() {
        dtype if dtype.is_signed() && dtype.bits() < 32 => convert_element_type(x, DType::I32),
        dtype if dtype.is_unsigned() && dtype.bits() < 32 => convert_element_type(x, DType::U32),
        _ => bool_to_int(x),
    }
}

/// Replaces NaN by `value`.
fn replace_nan(x: &Array, value: f64) -> Array {
    if x.dtype().is_inexact() { where_(isnan(x), full_like(x, value), x) } else { x.clone() }
}

/// Cumulative sums and products of the flattened array (`x.cumsum()`) and along one axis
/// (`x.cumsum_axis(-1)`). [`cumulative_sum_with`] sums in another dtype.
/// [`cumsum`](crate::primitives::cumsum()) also runs backwards.
impl Array {
    /// Returns the cumulative sum of the flattened array. Booleans are summed as `i32`; other
    /// dtypes stay.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.cumsum(), Aval::new(DType::Bool, [2, 3]))?;
    /// assert_eq!(y.aval().to_string(), "i32[6]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self) -> Array {
        cumsum(&bool_to_int(&self.flatten()), 0)
    }

    /// Returns the cumulative sum along `axis`. See [`Array::cumsum`].
    #[track_caller]
    pub fn cumsum_axis(&self, axis: isize) -> Array {
        cumsum(&bool_to_int(self), axis)
    }

    /// Returns the cumulative product of the flattened array. Booleans are multiplied as `i32`;
    /// other dtypes stay.
    #[track_caller]
    pub fn cumprod(&self) -> Array {
        cumprod(&bool_to_int(&self.flatten()), 0)
    }

    /// Returns the cumulative product along `axis`. See [`Array::cumprod`].
    #[track_caller]
    pub fn cumprod_axis(&self, axis: isize) -> Array {
        cumprod(&bool_to_int(self), axis)
    }

    /// Returns [`Array::cumsum`] with NaN treated as 0.
    #[track_caller]
    pub fn nancumsum(&self) -> Array {
        replace_nan(self, 0.0).cumsum()
    }

    /// Returns [`Array::cumsum_axis`] with NaN treated as 0.
    #[track_caller]
    pub fn nancumsum_axis(&self, axis: isize) -> Array {
        replace_nan(self, 0.0).cumsum_axis(axis)
    }

    /// Returns [`Array::cumprod`] with NaN treated as 1.
    #[track_caller]
    pub fn nancumprod(&self) -> Array {
        replace_nan(self, 1.0).cumprod()
    }

    /// Returns [`Array::cumprod_axis`] with NaN treated as 1.
    #[track_caller]
    pub fn nancumprod_axis(&self, axis: isize) -> Array {
        replace_nan(self, 1.0).cumprod_axis(axis)
    }
}

/// Options of [`cumulative_sum_with`] and [`cumulative_prod_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CumulativeOptions {
    /// Puts the empty sum, 0, or the empty product, 1, in front: the axis is one longer. The
    /// default is false.
    pub include_initial: bool,
    /// The dtype that the operand is converted to first, and that of the result.
    pub dtype: Option<DType>,
}

/// Resolves the axis of a cumulative reduction.
#[track_caller]
fn cumulative_axis(name: &str, x: &Array, axis: isize) -> isize {
    if x.rank() == 0 {
        let error = RuleError::shape("needs an array with an axis, got a scalar");
        trace::throw_operands(name, error, &[x]);
    }
    expect_axis(name, axis, x.rank(), x) as isize
}

/// Prepends a slice of `initial` values to `totals` along `axis` if the options ask for it.
#[track_caller]
fn with_initial(
    totals: Array,
    axis: isize,
    options: CumulativeOptions,
    initial: fn(&Array) -> Array,
) -> Array {
    if !options.include_initial {
        return totals;
    }
    let shape = totals.shape().remove(axis as usize).insert(axis as usize, 1);
    let first = initial(&zeros_of(&totals.aval().with_shape(shape)));
    concatenate(&[first, totals], axis)
}

/// Returns the cumulative sum of `x` along `axis`. Booleans and integers below 32 bits sum to 32
/// bits.
#[track_caller]
pub fn cumulative_sum(x: &Array, axis: isize) -> Array {
    cumulative_sum_with(x, axis, CumulativeOptions::default())
}

/// Returns the cumulative sum of `x` along `axis`, as [`cumulative_sum`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// let options = CumulativeOptions { include_initial: true, ..Default::default() };
/// let sums = move |x: Array| cumulative_sum_with(&x, -1, options);
/// let y = eval_shape(sums, Aval::new(DType::U8, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "u32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cumulative_sum_with(x: &Array, axis: isize, options: CumulativeOptions) -> Array {
    let axis = cumulative_axis("cumulative_sum", x, axis);
    let x = options.dtype.map_or_else(|| widened(x), |dtype| convert_element_type(x, dtype));
    with_initial(cumsum(&x, axis), axis, options, zeros_like)
}

/// Returns the cumulative product of `x` along `axis`. Booleans are multiplied as `i32`; other
/// dtypes stay.
#[track_caller]
pub fn cumulative_prod(x: &Array, axis: isize) -> Array {
    cumulative_prod_with(x, axis, CumulativeOptions::default())
}

/// Returns the cumulative product of `x` along `axis`, as [`cumulative_prod`], with options.
#[track_caller]
pub fn cumulative_prod_with(x: &Array, axis: isize, options: CumulativeOptions) -> Array {
    let axis = cumulative_axis("cumulative_prod", x, axis);
    let x = options.dtype.map_or_else(|| bool_to_int(x), |dtype| convert_element_type(x, dtype));
    with_initial(cumprod(&x, axis), axis, options, ones_like)
}
