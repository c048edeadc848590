//! Elementwise functions made of several primitives.

use crate::core::{Array, DType, RuleError, Scalar, bind1, trace};
use crate::primitives::{
    ArrayLike, Div, Like, abs, add, bitcast_convert_type, bitwise_and, bitwise_or, complex,
    convert_element_type, div, eq, full_like, gt, imag, integer_pow, is_finite, lt, maximum,
    minimum, mul, ne, pow, promote_arrays, real, rem, shift_right_logical, sub, where_, zeros_like,
};

/// `x` between `low` and `high`, with promotion and broadcasting: `minimum(maximum(x, low), high)`.
/// NaN stays NaN. At a bound half of the gradient passes.
#[doc(alias = "clamp")]
#[track_caller]
pub fn clip(x: &Array, low: impl ArrayLike, high: impl ArrayLike) -> Array {
    minimum(maximum(x, low), high)
}

/// Whether each element is NaN (in either part, for complex numbers).
#[track_caller]
pub fn isnan(x: &Array) -> Array {
    ne(x, x)
}

/// Whether each element is finite: neither infinite nor NaN; true for integers. A complex number is
/// finite if both parts are.
#[track_caller]
pub fn isfinite(x: &Array) -> Array {
    match x.dtype() {
        dtype if dtype.is_complex() => bitwise_and(isfinite(&real(x)), isfinite(&imag(x))),
        dtype if dtype.is_float() => is_finite(x),
        _ => full_of(x, true),
    }
}

/// Whether each element is infinite, of either sign; of a complex number, either part.
#[track_caller]
pub fn isinf(x: &Array) -> Array {
    match x.dtype() {
        dtype if dtype.is_complex() => bitwise_or(isinf(&real(x)), isinf(&imag(x))),
        dtype if dtype.is_float() => eq(abs(x), full_like(x, f64::INFINITY)),
        _ => full_of(x, false),
    }
}

/// Whether the sign bit of each element is set: of negative numbers, of `-0.0`, and of NaNs that
/// have it. False for unsigned integers and booleans.
///
/// Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| signbit(&x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "bool[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn signbit(x: &Array) -> Array {
    let dtype = x.dtype();
    // All of this one's bits are exponent.
    if !dtype.is_float() || dtype == DType::F8E8M0FNU {
        if dtype.is_complex() {
            let error = RuleError::dtype(format!("needs a real operand, got {dtype}"));
            trace::throw_operands("signbit", error, &[x]);
        }
        return if dtype.is_signed() { lt(x, zeros_like(x)) } else { full_of(x, false) };
    }
    let as_integers = match dtype.bits() {
        4 => DType::U4,
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    };
    let bits = bitcast_convert_type(x, as_integers);
    let magnitude = (1i128 << (dtype.bits() - 1)) - 1;
    gt(&bits, full_like(&bits, Scalar::Int(magnitude)))
}

#[track_caller]
fn full_of(x: &Array, value: bool) -> Array {
    full_like(&convert_element_type(x, DType::Bool), value)
}

/// `x` with NaN replaced by 0 and infinities by the largest and smallest finite value of its dtype;
/// both parts of complex numbers; integers as they are.
#[track_caller]
pub fn nan_to_num(x: &Array) -> Array {
    let dtype = x.dtype();
    if dtype.is_complex() {
        return complex(nan_to_num(&real(x)), nan_to_num(&imag(x)));
    }
    if !dtype.is_float() {
        return x.clone();
    }
    let bound = dtype.float_max();
    let x = where_(&isnan(x), zeros_like(x), x);
    let above = eq(&x, full_like(&x, f64::INFINITY));
    let x = where_(&above, full_like(&x, bound), &x);
    let below = eq(&x, full_like(&x, f64::NEG_INFINITY));
    where_(&below, full_like(&x, -bound), &x)
}

#[track_caller]
fn refuse_complex(name: &str, x: &Array, y: &Array) {
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs operands with an order, got {}", x.dtype()));
        trace::throw_operands(name, error, &[x, y]);
    }
}

/// `floor(x / y)`, with promotion and broadcasting; stays in the operands' dtype, also for integers.
/// Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn floor_divide(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("floor_divide", [x.like(), y.like()]);
    refuse_complex("floor_divide", &x, &y);
    if x.dtype().is_float() {
        // As CPython does it: what is left is taken off first, so that the quotient is whole.
        let left = rem(&x, &y);
        let whole = where_(&eq(&y, zeros_like(&y)), &x, sub(&x, &left));
        let quotient = div(&whole, &y);
        let down = below(&left, &y);
        return crate::primitives::round_half_away(&where_(&down, sub(&quotient, 1), &quotient));
    }
    let quotient = bind1(Div, [&x, &y]);
    if x.dtype().is_unsigned() {
        return quotient;
    }
    let down = below(&rem(&x, &y), &y);
    where_(&down, sub(&quotient, 1), &quotient)
}

/// Whether a remainder is not zero and of another sign than the divisor.
#[track_caller]
fn below(left: &Array, divisor: &Array) -> Array {
    let other_sign = ne(lt(left, zeros_like(left)), lt(divisor, zeros_like(divisor)));
    bitwise_and(other_sign, ne(left, zeros_like(left)))
}

/// `x - y * floor(x / y)`, of the sign of `y`, with promotion and broadcasting. An integer modulo 0
/// is 0. [`rem`] has the sign of `x`. Throws `Op` (dtype) for complex operands.
#[doc(alias = "mod")]
#[track_caller]
pub fn remainder(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("remainder", [x.like(), y.like()]);
    refuse_complex("remainder", &x, &y);
    let y = match y.dtype().is_integer() {
        true => where_(&eq(&y, zeros_like(&y)), full_like(&y, 1), &y),
        false => y,
    };
    let left = rem(&x, &y);
    where_(&below(&left, &y), add(&left, &y), &left)
}

/// `x` to the power `y`, with promotion and broadcasting.
///
/// An integer number `y` multiplies (`x³` is `x * x * x`), also for negative `x` and with the right
/// derivative at 0. Integer arrays to integer arrays stay integers and wrap; negative exponents give
/// what the low bits of the exponent say, as in NumPy there is no integer answer.
#[doc(alias = "pow")]
#[track_caller]
pub fn power(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    if let (Like::Array(x), Like::Scalar(Scalar::Int(n))) = (x.like(), y.like())
        && let Ok(n) = i32::try_from(n)
    {
        return integer_pow(x, n);
    }
    let [x, y] = promote_arrays("power", [x.like(), y.like()]);
    match x.dtype().is_inexact() {
        true => pow(&x, &y),
        false => integer_power(&x, &y),
    }
}

/// Integers to integer powers by squaring: exponents up to 63 matter, larger ones wrap.
#[track_caller]
fn integer_power(x: &Array, y: &Array) -> Array {
    let mut result = full_like(x, 1);
    let (mut square, mut exponent) = (x.clone(), y.clone());
    for _ in 0..6 {
        let odd = ne(bitwise_and(&exponent, full_like(&exponent, 1)), zeros_like(&exponent));
        result = where_(&odd, mul(&result, &square), &result);
        square = mul(&square, &square);
        exponent = shift_right_logical(&exponent, full_like(&exponent, 1));
    }
    result
}
