//! Sums, products and moments that ignore NaN.

use super::super::Reduction;
use super::super::axes::Axes;
use super::super::isnan;
use crate::core::{Array, DType};
use crate::primitives::{
    bitwise_and, conj, convert_element_type, div, full_like, inexact, le, mul, real, sqrt, sub,
    where_,
};

/// Replaces NaN in `x` by `value`; integers stay.
#[track_caller]
pub(super) fn replace_nan(x: &Array, value: f64) -> Array {
    if x.dtype().is_inexact() { where_(isnan(x), full_like(x, value), x) } else { x.clone() }
}

/// Returns the number of elements along `axes` that are not NaN, in a float dtype.
#[track_caller]
fn count(x: &Array, dtype: DType, axes: Axes) -> Array {
    convert_element_type(&convert_element_type(&!isnan(x), DType::I32).sum_axes(axes), dtype)
}

/// Returns the sum along `axes` without NaN; 0 where all elements are NaN. For dtypes see
/// [`Array::sum_axes`].
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| nansum(&x, -1), Aval::new(DType::F32, [4, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn nansum(x: &Array, axes: impl Into<Reduction>) -> Array {
    replace_nan(x, 0.0).sum_axes(axes)
}

/// Returns the product along `axes` without NaN; 1 where all elements are NaN. For dtypes see
/// [`Array::prod_axes`].
#[track_caller]
pub fn nanprod(x: &Array, axes: impl Into<Reduction>) -> Array {
    replace_nan(x, 1.0).prod_axes(axes)
}

/// Returns the mean along `axes` without NaN; NaN where all elements are NaN. Integers become
/// floats. Options are those of [`Array::mean_axes`].
#[track_caller]
pub fn nanmean(x: &Array, axes: impl Into<Reduction>) -> Array {
    let (x, over) = (inexact(x), axes.into());
    let valid = !isnan(&x);
    let mask = match over.mask("nanmean", &x) {
        Some(mask) => bitwise_and(&mask, &valid),
        None => valid,
    };
    x.mean_axes(Reduction { mask: Some(mask), ..over })
}

/// Options of [`nanvar_with`] and [`nanstd_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NanvarOptions {
    /// The divisor is the number of elements minus `ddof`. The default is 0.
    pub ddof: f64,
}

/// Returns the variance along `axes` without NaN; NaN where all elements are NaN. The variance of
/// complex numbers is real. See [`Array::var_axes`].
#[track_caller]
pub fn nanvar(x: &Array, axes: impl Into<Axes>) -> Array {
    nanvar_with(x, axes, NanvarOptions::default())
}

/// Returns the variance without NaN, as [`nanvar`], with options; NaN where the divisor is not
/// positive.
#[track_caller]
pub fn nanvar_with(x: &Array, axes: impl Into<Axes>, options: NanvarOptions) -> Array {
    let (x, axes) = (inexact(x), axes.into());
    let mean = nanmean(&x, axes.clone().keepdims());
    let centred = replace_nan(&sub(&x, mean), 0.0);
    let squared = if centred.dtype().is_complex() {
        real(mul(&centred, conj(&centred)))
    } else {
        mul(&centred, &centred)
    };
    let freedom = sub(count(&x, x.dtype().real(), axes.clone()), options.ddof);
    let variance = div(squared.sum_axes(axes), &freedom);
    where_(le(&freedom, 0.0), full_like(&variance, f64::NAN), &variance)
}

/// Returns the standard deviation along `axes` without NaN: the square root of [`nanvar`].
#[track_caller]
pub fn nanstd(x: &Array, axes: impl Into<Axes>) -> Array {
    nanstd_with(x, axes, NanvarOptions::default())
}

/// Returns the standard deviation without NaN: the square root of [`nanvar_with`].
#[track_caller]
pub fn nanstd_with(x: &Array, axes: impl Into<Axes>, options: NanvarOptions) -> Array {
    sqrt(nanvar_with(x, axes, options))
}
