//! Uniform numbers, and what a logarithm makes of them.

use super::bits::raw;
use super::draw::{cast, draw, expect_broadcast, expect_float, parameter};
use super::key::Key;
use crate::core::{Array, Aval, DType, Scalar, Shape};
use crate::primitives::{
    ArrayLike, add, bitcast_convert_type, bitwise_or, fill_of, log, log1p, maximum, mul, neg,
    shift_right_logical, sub,
};
use std::ops::Range;

/// How a float dtype is filled with random bits.
struct Layout {
    /// The unsigned dtype of its width.
    word: DType,
    /// The width of the bits drawn: bf16 needs no more than 8.
    drawn: DType,
    mantissa: usize,
    /// The bits of 1.0.
    one: u64,
}

fn layout(dtype: DType) -> Layout {
    let (word, drawn, mantissa, one) = match dtype {
        DType::F16 => (DType::U16, DType::U16, 10, 0x3C00),
        DType::BF16 => (DType::U16, DType::U8, 7, 0x3F80),
        DType::F64 => (DType::U64, DType::U64, 52, 0x3FF0_0000_0000_0000),
        _ => (DType::U32, DType::U32, 23, 0x3F80_0000),
    };
    Layout { word, drawn, mantissa, one }
}

/// A constant of a sampler's program.
#[track_caller]
pub(super) fn constant(value: impl Into<Scalar>, dtype: DType) -> Array {
    fill_of(value.into(), &Aval::new(dtype, Shape::scalar()))
}

/// Uniform numbers under the words of a key, inside a sampler. `low` and `high` broadcast to `shape`.
#[track_caller]
pub(super) fn raw_uniform(
    key: &[Array; 2],
    shape: &Shape,
    dtype: DType,
    low: &Array,
    high: &Array,
) -> Array {
    let Layout { word, drawn, mantissa, one } = layout(dtype);
    let bits = cast(&raw(key, shape, drawn), word);
    // Random mantissas under the exponent of 1 are uniform in 1..2.
    let distance = constant(drawn.bits() - mantissa, word);
    let mantissas = shift_right_logical(&bits, distance);
    let floats = bitwise_or(mantissas, constant(one, word));
    let unit = sub(bitcast_convert_type(&floats, dtype), constant(1.0, dtype));
    let (low, high) = (cast(low, dtype), cast(high, dtype));
    // Rounding can fall below the range, never onto its end.
    maximum(&low, add(mul(unit, sub(&high, &low)), &low))
}

/// Uniform numbers in `range.start..range.end`, the start included.
///
/// `dtype` is `f16`, `bf16`, `f32` or `f64`; the ends of the range are numbers, or arrays that broadcast
/// to `shape`. The numbers of `0.0..1.0` are multiples of 2⁻²³ in `f32` (2⁻¹⁰, 2⁻⁷, 2⁻⁵² in `f16`,
/// `bf16`, `f64`).
///
/// Throws `Op` for another dtype, and for ends that do not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = random::uniform(random::key(0), [2, 3], DType::F32, -1.0..1.0);
/// assert!(x.to_vec::<f32>()?.iter().all(|x| (-1.0..1.0).contains(x)));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn uniform(
    key: Key,
    shape: impl Into<Shape>,
    dtype: DType,
    range: Range<impl ArrayLike>,
) -> Array {
    expect_float("uniform", dtype);
    let shape = shape.into();
    let words = key.words("uniform");
    let low = parameter(range.start.like(), dtype);
    let high = parameter(range.end.like(), dtype);
    expect_broadcast("uniform", &[&low, &high], &shape);
    draw(|| raw_uniform(&words, &shape, dtype, &low, &high))
}

/// Exponentially distributed numbers of mean 1.
///
/// `dtype` as in [`uniform`].
#[track_caller]
pub fn exponential(key: Key, shape: impl Into<Shape>, dtype: DType) -> Array {
    expect_float("exponential", dtype);
    let shape = shape.into();
    let words = key.words("exponential");
    draw(|| {
        let unit = raw_uniform(&words, &shape, dtype, &constant(0, dtype), &constant(1, dtype));
        // log1p keeps the digits of small numbers, and never meets a 0.
        neg(&log1p(&neg(&unit)))
    })
}

/// Numbers with the standard Gumbel distribution: `-log(-log(u))` of uniform `u`.
///
/// `dtype` as in [`uniform`]. The largest that can come has the digits of `u` left: about 16 in `f32`.
#[track_caller]
pub fn gumbel(key: Key, shape: impl Into<Shape>, dtype: DType) -> Array {
    expect_float("gumbel", dtype);
    let shape = shape.into();
    let words = key.words("gumbel");
    draw(|| raw_gumbel(&words, &shape, dtype))
}

/// Gumbel numbers under the words of a key, inside a sampler.
#[track_caller]
pub(super) fn raw_gumbel(key: &[Array; 2], shape: &Shape, dtype: DType) -> Array {
    let tiny = match dtype {
        DType::F16 => f64::from(half::f16::MIN_POSITIVE),
        DType::F64 => f64::MIN_POSITIVE,
        // bf16 has the exponents of f32.
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let unit = raw_uniform(key, shape, dtype, &constant(tiny, dtype), &constant(1, dtype));
    neg(&log(&neg(&log(&unit))))
}
