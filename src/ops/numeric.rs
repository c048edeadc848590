//! Elementwise functions that consist of several primitives.

use crate::core::{Array, DType, Loc, RuleError, Scalar, bind1, trace};
use crate::primitives::{
    ArrayLike, Div, Like, abs, add, bitcast_convert_type, bitwise_and, bitwise_or, complex,
    convert_element_type, div, eq, full_like, gt, imag, integer_pow, is_finite, lt, maximum,
    minimum, mul, ne, pow, promote_arrays, real, rem, shift_right_logical, sub, where_, zeros_like,
};

/// Limits `x` to `low..=high`, with promotion and broadcasting: `minimum(maximum(x, low), high)`.
/// NaN stays NaN. At a bound half of the gradient passes.
#[doc(alias = "clamp")]
#[track_caller]
pub fn clip(x: &Array, low: impl ArrayLike, high: impl ArrayLike) -> Array {
    minimum(maximum(x, low), high)
}

/// Options of [`clip_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ClipOptions<'a> {
    /// The lower bound; none if `None`.
    pub min: Option<Like<'a>>,
    /// The upper bound; none if `None`.
    pub max: Option<Like<'a>>,
}

/// Limits `x`, as [`clip`], by one bound, both or none.
///
/// ```
/// use oxidax::prelude::*;
/// let options = ClipOptions { max: Some(2.0.like()), ..Default::default() };
/// assert_eq!(clip_with(&array![1.0, 3.0], options).to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn clip_with(x: &Array, options: ClipOptions<'_>) -> Array {
    let x = options.min.map_or_else(|| x.clone(), |low| maximum(x, low));
    options.max.map_or_else(|| x.clone(), |high| minimum(&x, high))
}

/// Returns true for each element that is NaN; for a complex number, if either part is.
#[track_caller]
pub fn isnan(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    ne(x, x)
}

/// Returns true for each element that is neither infinite nor NaN, and for integers. A complex
/// number is finite if both parts are.
#[track_caller]
pub fn isfinite(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        match x.dtype() {
            dtype if dtype.is_complex() => bitwise_and(isfinite(real(x)), isfinite(imag(x))),
            dtype if dtype.is_float() => is_finite(x),
            _ => full_of(x, true),
        }
    }
    of(&x.to_array())
}

/// Returns true for each infinite element; for a complex number, if either part is infinite.
#[track_caller]
pub fn isinf(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        match x.dtype() {
            dtype if dtype.is_complex() => bitwise_or(isinf(real(x)), isinf(imag(x))),
            dtype if dtype.is_float() => eq(abs(x), full_like(x, f64::INFINITY)),
            _ => full_of(x, false),
        }
    }
    of(&x.to_array())
}

/// Returns true for each element whose sign bit is set: negative numbers, `-0.0`, and some NaNs.
/// False for unsigned integers and booleans.
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
pub fn signbit(x: impl ArrayLike) -> Array {
    Loc::caller().scope(|| {
        #[track_caller]
        fn of(x: &Array) -> Array {
            Loc::caller().scope(|| {
                let dtype = x.dtype();
                // `f8E8M0FNU` consists of exponent bits only.
                if !dtype.is_float() || dtype == DType::F8E8M0FNU {
                    if dtype.is_complex() {
                        let error = RuleError::dtype(format!("needs a real operand, got {dtype}"));
                        trace::throw_operands("signbit", error, &[x]);
                    }
                    return if dtype.is_signed() {
                        lt(x, zeros_like(x))
                    } else {
                        full_of(x, false)
                    };
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
            })
        }
        of(&x.to_array())
    })
}

#[track_caller]
fn full_of(x: &Array, value: bool) -> Array {
    full_like(&convert_element_type(x, DType::Bool), value)
}

/// Replaces NaN by 0 and infinities by the largest and smallest finite value of the dtype, in both
/// parts of complex numbers. Integers stay.
#[track_caller]
pub fn nan_to_num(x: impl ArrayLike) -> Array {
    nan_to_num_with(x, NanToNumOptions::default())
}

/// Options of [`nan_to_num_with`].
#[derive(Clone, Copy, Debug)]
pub struct NanToNumOptions<'a> {
    /// The value that replaces NaN. The default is 0.
    pub nan: Like<'a>,
    /// The value that replaces `∞`; the largest finite value of the dtype if `None`.
    pub posinf: Option<Like<'a>>,
    /// The value that replaces `-∞`; the smallest finite value of the dtype if `None`.
    pub neginf: Option<Like<'a>>,
}

impl Default for NanToNumOptions<'_> {
    fn default() -> Self {
        NanToNumOptions { nan: Like::Scalar(Scalar::Int(0)), posinf: None, neginf: None }
    }
}

/// Replaces NaN and infinities, as [`nan_to_num`], by other values, which broadcast and are
/// converted to the dtype of `x`.
///
/// ```
/// use oxidax::prelude::*;
/// let options = NanToNumOptions { posinf: Some(9.0.like()), ..Default::default() };
/// let y = nan_to_num_with(array![f32::NAN, f32::INFINITY], options);
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 9.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn nan_to_num_with(x: impl ArrayLike, options: NanToNumOptions<'_>) -> Array {
    // A closure would lose the location of the caller.
    #[track_caller]
    fn replaced(mask: &Array, value: Like<'_>, x: &Array) -> Array {
        let value = match value {
            Like::Scalar(value) => full_like(x, value),
            Like::Array(value) => convert_element_type(value, x.dtype()),
        };
        where_(mask, value, x)
    }

    #[track_caller]
    fn of(x: &Array, options: NanToNumOptions<'_>) -> Array {
        let dtype = x.dtype();
        if dtype.is_complex() {
            return complex(of(&real(x), options), of(&imag(x), options));
        }
        if !dtype.is_float() {
            return x.clone();
        }
        let bound = dtype.float_max();
        let bound_of = |bound: f64| Like::Scalar(Scalar::Float(bound));
        let x = replaced(&isnan(x), options.nan, x);
        let above = eq(&x, full_like(&x, f64::INFINITY));
        let x = replaced(&above, options.posinf.unwrap_or(bound_of(bound)), &x);
        let below = eq(&x, full_like(&x, f64::NEG_INFINITY));
        replaced(&below, options.neginf.unwrap_or(bound_of(-bound)), &x)
    }
    of(&x.to_array(), options)
}

#[track_caller]
fn reject_complex(name: &str, x: &Array, y: &Array) {
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs operands with an order, got {}", x.dtype()));
        trace::throw_operands(name, error, &[x, y]);
    }
}

/// Returns `floor(x / y)`, with promotion and broadcasting, in the operands' dtype. Throws `Op`
/// (dtype) for complex operands.
#[track_caller]
pub fn floor_divide(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("floor_divide", [x.like(), y.like()]);
    reject_complex("floor_divide", &x, &y);
    if x.dtype().is_float() {
        // As CPython does: the remainder is subtracted first, so that the quotient is an integer.
        let remainder = rem(&x, &y);
        let multiple = where_(eq(&y, zeros_like(&y)), &x, sub(&x, &remainder));
        let quotient = div(&multiple, &y);
        let down = signs_differ(&remainder, &y);
        return crate::primitives::round_half_away(where_(&down, sub(&quotient, 1), &quotient));
    }
    let quotient = bind1(Div, [&x, &y]);
    if x.dtype().is_unsigned() {
        return quotient;
    }
    let down = signs_differ(&rem(&x, &y), &y);
    where_(&down, sub(&quotient, 1), &quotient)
}

/// Returns true for remainders that are not zero and whose sign differs from the divisor's.
#[track_caller]
fn signs_differ(remainder: &Array, divisor: &Array) -> Array {
    let zero = zeros_like(remainder);
    let differ = ne(lt(remainder, &zero), lt(divisor, zeros_like(divisor)));
    bitwise_and(differ, ne(remainder, zero))
}

/// Returns `x - y * floor(x / y)`, which has the sign of `y`, with promotion and broadcasting. An
/// integer modulo 0 is 0. [`rem`] has the sign of `x`. Throws `Op` (dtype) for complex operands.
#[doc(alias = "mod")]
#[track_caller]
pub fn remainder(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("remainder", [x.like(), y.like()]);
    reject_complex("remainder", &x, &y);
    let y = if y.dtype().is_integer() {
        where_(eq(&y, zeros_like(&y)), full_like(&y, 1), &y)
    } else {
        y
    };
    let remainder = rem(&x, &y);
    where_(signs_differ(&remainder, &y), add(&remainder, &y), &remainder)
}

/// Raises `x` to the power `y`, with promotion and broadcasting.
///
/// A Rust integer `y` multiplies (`x³` is `x * x * x`), which also works for negative `x` and has
/// the right derivative at 0. Powers of integer arrays stay integers and wrap. Their exponents must
/// not be negative: the result is then unspecified.
#[doc(alias = "pow")]
#[track_caller]
pub fn power(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    if let (Like::Array(x), Like::Scalar(Scalar::Int(n))) = (x.like(), y.like())
        && let Ok(n) = i32::try_from(n)
    {
        return integer_pow(x, n);
    }
    let [x, y] = promote_arrays("power", [x.like(), y.like()]);
    if x.dtype().is_inexact() { pow(&x, &y) } else { integer_power(&x, &y) }
}

/// Raises integers to integer powers by squaring. Uses the low 6 bits of the exponents.
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
