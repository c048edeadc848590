//! Mantissa and exponent of floating-point numbers.

use super::signs::{bits_of, copysign};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    abs, add, bitcast_convert_type, bitwise_and, clamp, convert_element_type, full_like, inexact,
    lt, mul, nextafter, shift_left, shift_right_logical, stop_gradient, sub, where_, zeros_like,
};

/// How a binary float lies in its bits: those of the fraction, those of the exponent, and the
/// exponent of 1.
#[derive(Clone, Copy)]
struct Layout {
    bits: DType,
    fraction: usize,
    exponent: usize,
    bias: i64,
}

/// The layout of the IEEE-like dtypes; the 8-bit and 4-bit floats go by way of `f32`.
fn layout(dtype: DType) -> Option<Layout> {
    let (fraction, exponent) = match dtype {
        DType::F64 => (52, 11),
        DType::F32 => (23, 8),
        DType::BF16 => (7, 8),
        DType::F16 => (10, 5),
        _ => return None,
    };
    let bias = (1 << (exponent - 1)) - 1;
    Some(Layout { bits: bits_of(dtype)?, fraction, exponent, bias })
}

/// `x` as a float whose layout is known, and that layout.
#[track_caller]
fn laid_out(name: &str, x: &Array) -> (Array, Layout) {
    let x = inexact(x);
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs a real operand, got {}", x.dtype()));
        trace::throw_operands(name, error, &[&x]);
    }
    match layout(x.dtype()) {
        Some(layout) => (x, layout),
        None => {
            let wide = layout(DType::F32).expect("f32 is laid out");
            (convert_element_type(&x, DType::F32), wide)
        }
    }
}

/// `2^exponent`, exact, for exponents of normal numbers.
#[track_caller]
fn power_of_two(exponent: &Array, dtype: DType, layout: Layout) -> Array {
    let biased = add(convert_element_type(exponent, layout.bits), layout.bias);
    bitcast_convert_type(&shift_left(biased, layout.fraction as i64), dtype)
}

/// `x * 2^exponent`, in steps that neither overflow nor round on the way.
#[track_caller]
fn scaled(x: &Array, exponent: &Array, layout: Layout) -> Array {
    let (low, high) = (1 - layout.bias, layout.bias);
    let mut rest = exponent.clone();
    let mut x = x.clone();
    // The smallest subnormal and the largest number are less than three such steps apart.
    for _ in 0..3 {
        let step = clamp(low, &rest, high);
        x = mul(&x, power_of_two(&step, x.dtype(), layout));
        rest = sub(&rest, &step);
    }
    x
}

/// `x * 2^exponent` for an integer array `exponent` of any sign, which broadcasts against `x`;
/// rounded once, and without overflow where the result has none. Integers `x` become floats.
///
/// Throws `Op` (dtype) if `exponent` is not of integers or `x` is complex.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, n) = (Aval::new(DType::F32, [3]), Aval::new(DType::I32, []));
/// let y = eval_shape(|x: Array, n: Array| ldexp(&x, &n), (x, n))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ldexp(x: &Array, exponent: &Array) -> Array {
    if !exponent.dtype().is_integer() {
        let error =
            RuleError::dtype(format!("exponents must be integers, got {}", exponent.aval()));
        trace::throw_operands("ldexp", error, &[x, exponent]);
    }
    let (wide, layout) = laid_out("ldexp", x);
    let result = inexact(x).dtype();
    let exponent = match exponent.dtype().bits() < 32 {
        true => convert_element_type(exponent, DType::I32),
        false => exponent.clone(),
    };
    convert_element_type(&scaled(&wide, &exponent, layout), result)
}

/// Mantissa and exponent: `x = mantissa * 2^exponent` with `0.5 <= |mantissa| < 1`, the exponent as
/// `i32`. Zero, infinities and NaN are their own mantissa with exponent 0. Integers become floats.
///
/// The exponent counts as a constant in derivatives. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn frexp(x: &Array) -> (Array, Array) {
    let result = inexact(x).dtype();
    let (x, layout) = laid_out("frexp", x);
    let fixed = stop_gradient(&x);
    // Subnormal numbers are brought up by a power of two, which the exponent gives back.
    let lift = layout.fraction as i64 + 2;
    let smallest = 2f64.powi(1 - layout.bias as i32);
    let tiny = lt(abs(&fixed), smallest);
    let lifted = where_(&tiny, mul(&fixed, 2f64.powi(lift as i32)), &fixed);
    let bits = bitcast_convert_type(&lifted, layout.bits);
    let field = shift_right_logical(&bits, layout.fraction as i64);
    let field = bitwise_and(field, (1i64 << layout.exponent) - 1);
    let exponent = sub(convert_element_type(&field, DType::I32), layout.bias as i32 - 1);
    let exponent = where_(&tiny, sub(&exponent, lift as i32), exponent);
    let zero = zeros_like(&exponent);
    let special =
        crate::primitives::eq(&fixed, zeros_like(&fixed)) | !crate::primitives::is_finite(&fixed);
    let exponent = where_(&special, &zero, &exponent);
    let mantissa = scaled(&x, &crate::primitives::neg(&exponent), layout);
    (convert_element_type(&mantissa, result), exponent)
}

/// Distance from each element to the next one further from zero, with its sign; integers become
/// floats. NaN for infinities and NaN. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn spacing(x: &Array) -> Array {
    let x = inexact(x);
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs a real operand, got {}", x.dtype()));
        trace::throw_operands("spacing", error, &[&x]);
    }
    let size = abs(&x);
    let step = sub(nextafter(&size, full_like(&size, f64::INFINITY)), &size);
    copysign(step, x)
}
