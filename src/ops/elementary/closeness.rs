//! Comparisons, exact and within a tolerance, and tests for kinds of numbers.

use super::super::{isinf, isnan};
use crate::core::{Array, DType};
use crate::primitives::{
    ArrayLike, abs, add, convert_element_type, eq, full, full_like, imag, is_finite, le, mul,
    promote_arrays, promote_inexact, sub, where_, zeros_like,
};

/// Tolerances of [`isclose_with`] and [`allclose_with`]: numbers are close if
/// `|x - y| <= atol + rtol * |y|`.
///
/// ```
/// use oxidax::prelude::*;
/// let strict = CloseOptions { rtol: 1e-7, ..CloseOptions::default() };
/// let y = eval_shape(move |x: Array| isclose_with(&x, 1.0, strict), Aval::new(DType::F32, [2]))?;
/// assert_eq!(y.aval().to_string(), "bool[2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloseOptions {
    /// Tolerance relative to the second number. The default is 1e-5.
    pub rtol: f64,
    /// Absolute tolerance. The default is 1e-8.
    pub atol: f64,
    /// Treats NaN as close to NaN. The default is false.
    pub equal_nan: bool,
}

impl Default for CloseOptions {
    fn default() -> CloseOptions {
        CloseOptions { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// Returns true for each pair of elements that are close, with promotion and broadcasting.
/// Infinities are close to themselves. See [`CloseOptions`] for the tolerances.
#[track_caller]
pub fn isclose(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    isclose_with(x, y, CloseOptions::default())
}

/// Returns [`isclose`] with other tolerances.
#[track_caller]
pub fn isclose_with(x: impl ArrayLike, y: impl ArrayLike, options: CloseOptions) -> Array {
    let [x, y] = promote_inexact("isclose", [x.like(), y.like()]);
    let bound = add(mul(abs(&y), options.rtol), options.atol);
    let near = le(abs(sub(&x, &y)), bound);
    let infinite = isinf(&x) | isinf(&y);
    let close = where_(&infinite, eq(&x, &y), near);
    if options.equal_nan { close | (isnan(&x) & isnan(&y)) } else { close }
}

/// Returns true, a `bool[]`, if all pairs of elements are close. See [`isclose`].
#[track_caller]
pub fn allclose(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    isclose(x, y).all()
}

/// Returns [`allclose`] with other tolerances.
#[track_caller]
pub fn allclose_with(x: impl ArrayLike, y: impl ArrayLike, options: CloseOptions) -> Array {
    isclose_with(x, y, options).all()
}

/// Options of [`array_equal_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayEqualOptions {
    /// Treats NaN as equal to NaN. The default is false.
    pub equal_nan: bool,
}

/// Returns true, a `bool[]`, if two arrays have the same shape and equal elements.
#[track_caller]
pub fn array_equal(x: &Array, y: &Array) -> Array {
    array_equal_with(x, y, ArrayEqualOptions::default())
}

/// Returns [`array_equal`] with options.
#[track_caller]
pub fn array_equal_with(x: &Array, y: &Array, options: ArrayEqualOptions) -> Array {
    if x.shape() != y.shape() {
        return full([], false);
    }
    let equal = eq(x, y);
    if options.equal_nan { (equal | (isnan(x) & isnan(y))).all() } else { equal.all() }
}

/// Returns true, a `bool[]`, if two arrays are equal after broadcasting.
#[track_caller]
pub fn array_equiv(x: &Array, y: &Array) -> Array {
    match x.shape().broadcast(y.shape()) {
        Some(_) => {
            let [x, y] = promote_arrays("array_equiv", [x.like(), y.like()]);
            eq(&x, &y).all()
        }
        None => full([], false),
    }
}

#[track_caller]
fn constant(x: &Array, value: bool) -> Array {
    full_like(&convert_element_type(x, DType::Bool), value)
}

/// Returns true for each element whose imaginary part is 0; true for real dtypes. To test the
/// dtype, use [`DType::is_complex`].
#[doc(alias = "isrealobj")]
#[track_caller]
pub fn isreal(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_complex() { eq(imag(x), zeros_like(&imag(x))) } else { constant(x, true) }
}

/// Returns true for each element whose imaginary part is not 0; false for real dtypes.
#[doc(alias = "iscomplexobj")]
#[track_caller]
pub fn iscomplex(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    !isreal(x)
}

/// Returns true for each element equal to the infinity `value`; false for integers.
#[track_caller]
fn is_infinity(name: &str, x: &Array, value: f64) -> Array {
    if x.dtype().is_complex() {
        let message = format!("a complex number has no sign, got {}", x.dtype());
        crate::core::trace::throw_operands(name, crate::core::RuleError::dtype(message), &[x]);
    }
    if !x.dtype().is_float() {
        return constant(x, false);
    }
    // A dtype without an infinity converts the constant to another value.
    eq(x, full_like(x, value)) & !is_finite(x)
}

/// Returns true for each element that is +∞. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn isposinf(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    is_infinity("isposinf", x, f64::INFINITY)
}

/// Returns true for each element that is -∞. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn isneginf(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    is_infinity("isneginf", x, f64::NEG_INFINITY)
}
