//! Equality, exact and within a tolerance, and kinds of numbers.

use super::super::{isinf, isnan};
use crate::core::{Array, DType};
use crate::primitives::{
    ArrayLike, abs, add, convert_element_type, eq, full, full_like, imag, is_finite, le, mul,
    promote_arrays, promote_inexact, sub, where_, zeros_like,
};

/// How far two numbers may lie apart and count as close: `|x - y| <= atol + rtol * |y|`.
///
/// ```
/// use oxidax::prelude::*;
/// let strict = Closeness { rtol: 1e-7, ..Closeness::default() };
/// let y = eval_shape(move |x: Array| isclose_within(&x, 1.0, strict), Aval::new(DType::F32, [2]))?;
/// assert_eq!(y.aval().to_string(), "bool[2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closeness {
    /// The part of the second number's magnitude.
    pub rtol: f64,
    /// The part that is there also at 0.
    pub atol: f64,
    /// Whether NaN is close to NaN.
    pub equal_nan: bool,
}

impl Default for Closeness {
    /// NumPy's: `rtol` 1e-5, `atol` 1e-8, and NaN is close to nothing.
    fn default() -> Closeness {
        Closeness { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// Whether each two elements are close by NumPy's default [`Closeness`], as `bool`, with promotion
/// and broadcasting. Infinities are close to themselves.
#[track_caller]
pub fn isclose(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    isclose_within(x, y, Closeness::default())
}

/// As [`isclose`] with other tolerances.
#[track_caller]
pub fn isclose_within(x: impl ArrayLike, y: impl ArrayLike, closeness: Closeness) -> Array {
    let [x, y] = promote_inexact("isclose", [x.like(), y.like()]);
    let bound = add(mul(abs(&y), closeness.rtol), closeness.atol);
    let near = le(abs(&sub(&x, &y)), bound);
    let infinite = isinf(&x) | isinf(&y);
    let close = where_(&infinite, eq(&x, &y), near);
    match closeness.equal_nan {
        true => close | (isnan(&x) & isnan(&y)),
        false => close,
    }
}

/// Whether all elements are close, a `bool[]`: [`isclose`] of every pair.
#[track_caller]
pub fn allclose(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    isclose(x, y).all()
}

/// As [`allclose`] with other tolerances.
#[track_caller]
pub fn allclose_within(x: impl ArrayLike, y: impl ArrayLike, closeness: Closeness) -> Array {
    isclose_within(x, y, closeness).all()
}

/// Whether two arrays have one shape and equal elements, a `bool[]`. NaN equals nothing; see
/// [`array_equal_nan`].
#[track_caller]
pub fn array_equal(x: &Array, y: &Array) -> Array {
    match x.shape() == y.shape() {
        true => eq(x, y).all(),
        false => full([], false),
    }
}

/// As [`array_equal`], NaN being equal to NaN.
#[track_caller]
pub fn array_equal_nan(x: &Array, y: &Array) -> Array {
    match x.shape() == y.shape() {
        true => (eq(x, y) | (isnan(x) & isnan(y))).all(),
        false => full([], false),
    }
}

/// Whether two arrays broadcast against each other and are equal then, a `bool[]`.
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

/// Whether each element has an imaginary part of 0; true for real dtypes. Whether the dtype is real
/// is asked with [`DType::is_complex`].
#[doc(alias = "isrealobj")]
#[track_caller]
pub fn isreal(x: &Array) -> Array {
    match x.dtype().is_complex() {
        true => eq(imag(x), zeros_like(&imag(x))),
        false => constant(x, true),
    }
}

/// Whether each element has an imaginary part other than 0; false for real dtypes.
#[doc(alias = "iscomplexobj")]
#[track_caller]
pub fn iscomplex(x: &Array) -> Array {
    !isreal(x)
}

/// Whether each element is the infinity of the given sign; false for integers.
#[track_caller]
fn is_infinity(name: &str, x: &Array, value: f64) -> Array {
    if x.dtype().is_complex() {
        let message = format!("a complex number has no sign, got {}", x.dtype());
        crate::core::trace::throw_operands(name, crate::core::RuleError::dtype(message), &[x]);
    }
    match x.dtype().is_float() {
        // Dtypes without an infinity would turn the constant into something else.
        true => eq(x, full_like(x, value)) & !is_finite(x),
        false => constant(x, false),
    }
}

/// Whether each element is +∞. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn isposinf(x: &Array) -> Array {
    is_infinity("isposinf", x, f64::INFINITY)
}

/// Whether each element is -∞. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn isneginf(x: &Array) -> Array {
    is_infinity("isneginf", x, f64::NEG_INFINITY)
}
