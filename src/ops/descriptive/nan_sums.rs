//! Sums, products and moments that leave NaN out.

use super::super::axes::Axes;
use super::super::isnan;
use crate::core::{Array, DType};
use crate::primitives::{
    conj, convert_element_type, div, full_like, inexact, le, mul, real, sqrt, sub, where_,
};

/// `x` with `value` in place of NaN; integers as they are.
#[track_caller]
pub(super) fn filled(x: &Array, value: f64) -> Array {
    match x.dtype().is_inexact() {
        true => where_(&isnan(x), full_like(x, value), x),
        false => x.clone(),
    }
}

/// How many elements along `axes` are no NaN, in a float dtype.
#[track_caller]
fn numbers(x: &Array, dtype: DType, axes: Axes) -> Array {
    convert_element_type(&convert_element_type(&!isnan(x), DType::I32).sum_axes(axes), dtype)
}

/// Sum along `axes` of what is no NaN; 0 where nothing else is. Dtypes as in [`Array::sum_axes`].
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| nansum(&x, -1), Aval::new(DType::F32, [4, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn nansum(x: &Array, axes: impl Into<Axes>) -> Array {
    filled(x, 0.0).sum_axes(axes)
}

/// Product along `axes` of what is no NaN; 1 where nothing else is. Dtypes as in [`Array::prod_axes`].
#[track_caller]
pub fn nanprod(x: &Array, axes: impl Into<Axes>) -> Array {
    filled(x, 1.0).prod_axes(axes)
}

/// Mean along `axes` of what is no NaN; NaN where nothing else is. Integers become floats.
#[track_caller]
pub fn nanmean(x: &Array, axes: impl Into<Axes>) -> Array {
    let (x, axes) = (inexact(x), axes.into());
    let count = numbers(&x, x.dtype(), axes.clone());
    div(nansum(&x, axes), count)
}

/// Variance along `axes` of what is no NaN, over `n - ddof` for `n` such elements; NaN where that is
/// not positive. Of complex numbers it is real. See [`Array::var_axes`].
#[track_caller]
pub fn nanvar(x: &Array, axes: impl Into<Axes>, ddof: f64) -> Array {
    let (x, axes) = (inexact(x), axes.into());
    let mean = nanmean(&x, axes.clone().keepdims());
    let centred = filled(&sub(&x, mean), 0.0);
    let squared = match centred.dtype().is_complex() {
        true => real(&mul(&centred, conj(&centred))),
        false => mul(&centred, &centred),
    };
    let freedom = sub(numbers(&x, x.dtype().real(), axes.clone()), ddof);
    let variance = div(squared.sum_axes(axes), &freedom);
    where_(&le(&freedom, 0.0), full_like(&variance, f64::NAN), &variance)
}

/// Standard deviation along `axes` of what is no NaN: the square root of [`nanvar`].
#[track_caller]
pub fn nanstd(x: &Array, axes: impl Into<Axes>, ddof: f64) -> Array {
    sqrt(&nanvar(x, axes, ddof))
}
