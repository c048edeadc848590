//! Logical operations, and extrema that ignore NaN.

use super::super::{floor_divide, isnan, remainder};
use crate::core::{Array, DType};
use crate::primitives::{
    ArrayLike, abs, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, convert_element_type, eq,
    gt, lt, ne, population_count, promote_arrays, promote_inexact, rem, where_, zeros_like,
};

/// Returns the elementwise maximum; if one element is NaN, the other one. [`maximum`] propagates
/// NaN.
///
/// [`maximum`]: crate::primitives::maximum
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| fmax(&x, 0), Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fmax(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("fmax", [x.like(), y.like()]);
    where_(bitwise_or(gt(&x, &y), isnan(&y)), &x, &y)
}

/// Returns the elementwise minimum; if one element is NaN, the other one. [`minimum`] propagates
/// NaN.
///
/// [`minimum`]: crate::primitives::minimum
#[track_caller]
pub fn fmin(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("fmin", [x.like(), y.like()]);
    where_(bitwise_or(lt(&x, &y), isnan(&y)), &x, &y)
}

/// Returns the unit step: 0 below zero, 1 above, `at_zero` at zero, with promotion and
/// broadcasting. Integers become floats, and NaN stays NaN.
#[track_caller]
pub fn heaviside(x: impl ArrayLike, at_zero: impl ArrayLike) -> Array {
    let [x, at_zero] = promote_inexact("heaviside", [x.like(), at_zero.like()]);
    let zero = zeros_like(&x);
    let step = where_(gt(&x, &zero), 1, where_(eq(&x, &zero), &at_zero, &zero));
    where_(isnan(&x), &x, step)
}

/// Returns [`floor_divide`] and [`remainder`].
#[track_caller]
pub fn divmod(x: impl ArrayLike, y: impl ArrayLike) -> (Array, Array) {
    let [x, y] = promote_arrays("divmod", [x.like(), y.like()]);
    (floor_divide(&x, &y), remainder(&x, &y))
}

/// Returns the remainder of `x / y` with the sign of `x`, with promotion and broadcasting. For
/// integers the remainder by 0 is 0; that of [`rem`] is `x`. [`remainder`] has the sign of `y`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = fmod(&array![7, -7, 7], &array![3, 3, 0]);
/// assert_eq!(y.to_vec::<i32>()?, [1, -1, 0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fmod(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("fmod", [x.like(), y.like()]);
    match y.dtype().is_integer() {
        true => rem(&x, where_(eq(&y, 0), 1, &y)),
        false => rem(&x, &y),
    }
}

/// Returns the number of bits that are 1 in the absolute value of each integer, as `u8`.
/// [`population_count`] counts those of negative integers in two's complement, in their dtype.
///
/// Throws `Op` (dtype) for other operands than integers.
///
/// ```
/// use oxidax::prelude::*;
/// let y = bitwise_count(&array![7, -8, 0]);
/// assert_eq!(y.to_vec::<u8>()?, [3, 1, 0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn bitwise_count(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    let counts = if x.dtype().is_signed() { population_count(abs(x)) } else { population_count(x) };
    convert_element_type(&counts, DType::U8)
}

/// Returns true for each element that is not zero.
#[track_caller]
fn truth(x: &Array) -> Array {
    match x.dtype() {
        DType::Bool => x.clone(),
        _ => ne(x, zeros_like(x)),
    }
}

/// Returns true where neither element is zero, with broadcasting. For booleans this is
/// [`bitwise_and`].
#[track_caller]
pub fn logical_and(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("logical_and", [x.like(), y.like()]);
    bitwise_and(truth(&x), truth(&y))
}

/// Returns true where at least one element is not zero, with broadcasting.
#[track_caller]
pub fn logical_or(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("logical_or", [x.like(), y.like()]);
    bitwise_or(truth(&x), truth(&y))
}

/// Returns true where exactly one element is zero, with broadcasting.
#[track_caller]
pub fn logical_xor(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("logical_xor", [x.like(), y.like()]);
    bitwise_xor(truth(&x), truth(&y))
}

/// Returns true for each element that is zero.
#[track_caller]
pub fn logical_not(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bitwise_not(truth(x))
}
