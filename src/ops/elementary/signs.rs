//! Signs and whole parts.

use super::super::signbit;
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    ArrayLike, abs, ceil, complex, div, floor, imag, inexact, lt, mul, ne, neg, pow,
    promote_inexact, real, round, sub, where_, zeros_like,
};

#[track_caller]
fn refuse_complex(name: &str, x: &Array) {
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs a real operand, got {}", x.dtype()));
        trace::throw_operands(name, error, &[x]);
    }
}

/// The absolute value of `x` with the sign of `y`, with promotion and broadcasting; integers become
/// floats. The derivative goes to `x` alone. Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| copysign(&x, -1.0), Aval::new(DType::F32, [4]))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn copysign(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("copysign", [x.like(), y.like()]);
    where_(&ne(signbit(&x), signbit(&y)), neg(&x), x)
}

/// Each element without its fraction, towards zero; integers as they are. Throws `Op` (dtype) for
/// complex operands.
#[doc(alias = "fix")]
#[track_caller]
pub fn trunc(x: &Array) -> Array {
    refuse_complex("trunc", x);
    match x.dtype().is_float() {
        true => where_(&lt(x, zeros_like(x)), ceil(x), floor(x)),
        false => x.clone(),
    }
}

/// Fraction and whole part of each element, both with its sign; integers become floats. The fraction
/// of an infinity is 0.
#[track_caller]
pub fn modf(x: &Array) -> (Array, Array) {
    let x = inexact(x);
    let whole = trunc(&x);
    let fraction = sub(&x, &whole);
    let fraction = where_(&super::super::isinf(&x), zeros_like(&x), fraction);
    (fraction, whole)
}

/// Absolute value of each element as a float; [`abs`] keeps integers. Throws `Op` (dtype) for complex
/// operands.
#[track_caller]
pub fn fabs(x: &Array) -> Array {
    refuse_complex("fabs", x);
    abs(&inexact(x))
}

/// The array itself, as `+x` in Python. Throws `Op` (dtype) for booleans, which have no sign.
#[track_caller]
pub fn positive(x: &Array) -> Array {
    if x.dtype().is_bool() {
        let error = RuleError::dtype("needs numbers, got bool");
        trace::throw_operands("positive", error, &[x]);
    }
    x.clone()
}

/// `1 / x` of each element; integers become floats.
#[track_caller]
pub fn reciprocal(x: &Array) -> Array {
    div(1, inexact(x))
}

/// `x` to the power `y` in floats or complex numbers, with promotion and broadcasting, so that
/// negative exponents of integers have an answer. NaN for a negative `x` and a `y` that is not whole.
#[track_caller]
pub fn float_power(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("float_power", [x.like(), y.like()]);
    pow(&x, &y)
}

/// Whole numbers, halves to even, in both parts of complex numbers.
#[track_caller]
fn whole(x: &Array) -> Array {
    match x.dtype().is_complex() {
        false => round(x),
        true => complex(round(&real(x)), round(&imag(x))),
    }
}

/// Each element rounded to so many decimals, halves to even; negative numbers round before the point.
/// Integers are as they are, but for negative `decimals`, which are refused: throws `Op` (dtype).
#[doc(alias = "around")]
#[track_caller]
pub fn round_to(x: &Array, decimals: i32) -> Array {
    if !x.dtype().is_inexact() {
        if decimals < 0 {
            let message = format!("{} is not rounded before the point", x.dtype());
            trace::throw_operands("round_to", RuleError::dtype(message), &[x]);
        }
        return x.clone();
    }
    let factor = 10f64.powi(decimals.abs());
    match decimals {
        0 => whole(x),
        1.. => div(whole(&mul(x, factor)), factor),
        _ => mul(whole(&div(x, factor)), factor),
    }
}
