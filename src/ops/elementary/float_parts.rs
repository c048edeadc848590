//! Mantissa, exponent and spacing of floating-point numbers.

use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::ArrayLike;
use crate::primitives::{
    add, bitcast_convert_type, bitwise_and, bitwise_or, bitwise_xor, clamp, convert_element_type,
    count_leading_zeros, eq, full_like, gt, inexact, is_finite, maximum, mul, neg, shift_left,
    shift_right_logical, stop_gradient, sub, where_, zeros_like,
};

/// Layout of a binary float: bits of the fraction, bits of the exponent, and the exponent of 1.
#[derive(Clone, Copy)]
struct Layout {
    bits: DType,
    fraction: usize,
    exponent: usize,
    bias: i64,
}

/// Returns the layout of the IEEE-like dtypes; 8-bit and 4-bit floats are converted to `f32`.
fn layout(dtype: DType) -> Option<Layout> {
    let (fraction, exponent) = match dtype {
        DType::F64 => (52, 11),
        DType::F32 => (23, 8),
        DType::BF16 => (7, 8),
        DType::F16 => (10, 5),
        _ => return None,
    };
    let bits = match dtype.bits() {
        64 => DType::I64,
        32 => DType::I32,
        _ => DType::I16,
    };
    Some(Layout { bits, fraction, exponent, bias: (1 << (exponent - 1)) - 1 })
}

/// Converts `x` to a float with a layout, and returns both.
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

/// Returns `2^exponent` exactly, for exponents of normal numbers.
#[track_caller]
fn power_of_two(exponent: &Array, dtype: DType, layout: Layout) -> Array {
    let biased = add(convert_element_type(exponent, layout.bits), layout.bias);
    bitcast_convert_type(&shift_left(biased, layout.fraction as i64), dtype)
}

/// Returns `x * 2^exponent`, in steps that do not overflow or round.
#[track_caller]
fn scaled(x: &Array, exponent: &Array, layout: Layout) -> Array {
    let (low, high) = (1 - layout.bias, layout.bias);
    let mut rest = exponent.clone();
    let mut x = x.clone();
    // Three steps cover the distance between the smallest subnormal and the largest number.
    for _ in 0..3 {
        let step = clamp(low, &rest, high);
        x = mul(&x, power_of_two(&step, x.dtype(), layout));
        rest = sub(&rest, &step);
    }
    x
}

/// Returns `x * 2^exponent` for an integer array `exponent` of any sign, which broadcasts against
/// `x`. The result is rounded once, and intermediate values do not overflow. Integers `x` become
/// floats.
///
/// Throws `Op` (dtype) if `exponent` is not an integer array or `x` is complex.
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

/// Bits of floats: sign, exponent field, fraction.
struct Parts {
    sign: Array,
    field: Array,
    fraction: Array,
}

#[track_caller]
fn parts(x: &Array, layout: Layout) -> Parts {
    let bits = bitcast_convert_type(&stop_gradient(x), layout.bits);
    let magnitude = bitwise_and(&bits, layout.bits.int_range().1 as i64);
    Parts {
        sign: bitwise_xor(&bits, &magnitude),
        field: shift_right_logical(&magnitude, layout.fraction as i64),
        fraction: bitwise_and(&magnitude, (1i64 << layout.fraction) - 1),
    }
}

/// Returns mantissa and exponent, `i32`: `x = mantissa * 2^exponent` with `0.5 <= |mantissa| < 1`.
/// Zero, infinities and NaN are their own mantissa with exponent 0. Integers become floats.
///
/// The exponent is a constant in derivatives. Subnormal numbers are decomposed by their bits, also
/// on platforms where arithmetic flushes them to 0. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn frexp(x: &Array) -> (Array, Array) {
    let result = inexact(x).dtype();
    let (x, layout) = laid_out("frexp", x);
    let Parts { sign, field, fraction } = parts(&x, layout);
    let (zero, all_ones) = (zeros_like(&field), (1i64 << layout.exponent) - 1);
    let special = eq(bitwise_or(&field, &fraction), &zero) | eq(&field, all_ones);
    // The leading one of a subnormal fraction moves to the implicit bit of a normal number.
    let tiny = eq(&field, &zero);
    let unused = (layout.bits.bits() - 1 - layout.fraction) as i64;
    let shift = where_(&tiny, sub(count_leading_zeros(&fraction), unused), &zero);
    let shift = where_(&special, &zero, shift);
    let fraction = bitwise_and(shift_left(&fraction, &shift), (1i64 << layout.fraction) - 1);
    let exponent = sub(where_(&tiny, sub(1, shift), &field), layout.bias - 1);
    let exponent = convert_element_type(&where_(&special, &zero, exponent), DType::I32);
    let half = full_like(&fraction, (layout.bias - 1) << layout.fraction);
    let mantissa = bitcast_convert_type(&bitwise_or(bitwise_or(sign, half), fraction), x.dtype());
    // Adds the derivative without changing the value.
    let moving = scaled(&x, &neg(&exponent), layout);
    let mantissa = add(mantissa, sub(&moving, stop_gradient(&moving)));
    (convert_element_type(&where_(&special, &x, mantissa), result), exponent)
}

/// Returns the distance from each element to the next number further from zero, with its sign.
/// Integers become floats. NaN for infinities and NaN. Throws `Op` (dtype) for complex operands and
/// for the 8-bit and 4-bit floats.
#[track_caller]
pub fn spacing(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        let x = inexact(x);
        let Some(layout) = layout(x.dtype()) else {
            let error = RuleError::dtype(format!("needs f16, bf16, f32 or f64, got {}", x.dtype()));
            trace::throw_operands("spacing", error, &[&x]);
        };
        let Parts { sign, field, .. } = parts(&x, layout);
        // Composed from bits, because arithmetic may flush subnormal numbers to 0.
        let exponent = sub(maximum(&field, 1), layout.fraction as i64);
        let normal = gt(&exponent, 0);
        let subnormal = shift_left(1, maximum(add(&exponent, layout.fraction as i64 - 1), 0));
        let step = shift_left(maximum(&exponent, 0), layout.fraction as i64);
        let step = bitwise_or(sign, where_(&normal, step, subnormal));
        let finite = is_finite(&x);
        where_(&finite, bitcast_convert_type(&step, x.dtype()), full_like(&x, f64::NAN))
    }
    of(&x.to_array())
}
