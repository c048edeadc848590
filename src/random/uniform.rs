//! The uniform sampler.

use super::bits::{raw, raw_each};
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::expect_broadcast;
use super::sampler::{cast, constant, draw_from, expect_float, parameter};
use crate::core::{Array, Aval, DType, IntoAval, Shape};
use crate::primitives::{
    ArrayLike, add, bitcast_convert_type, bitwise_or, maximum, mul, shift_right_logical, sub,
};
use std::ops::Range;

/// Layout of random bits in a float dtype.
struct Layout {
    /// The unsigned dtype of its width.
    word: DType,
    /// The dtype of the bits; 8 bits are enough for bf16.
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

/// Uniform numbers with the words of a key. `low` and `high` broadcast to `shape`.
#[track_caller]
pub(super) fn raw_uniform(
    key: &KeyWords,
    shape: &Shape,
    dtype: DType,
    low: &Array,
    high: &Array,
) -> Array {
    in_range(&raw(key, shape, layout(dtype).drawn), dtype, low, high)
}

/// Uniform numbers in `0..1` with the words of a key.
#[track_caller]
pub(super) fn raw_unit(key: &KeyWords, shape: &Shape, dtype: DType) -> Array {
    raw_uniform(key, shape, dtype, &constant(0, dtype), &constant(1, dtype))
}

/// One uniform number for each of several keys.
#[track_caller]
pub(super) fn uniform_each(keys: &KeyWords, dtype: DType, low: &Array, high: &Array) -> Array {
    in_range(&raw_each(keys, layout(dtype).drawn), dtype, low, high)
}

/// Converts random bits to uniform numbers.
#[track_caller]
fn in_range(bits: &Array, dtype: DType, low: &Array, high: &Array) -> Array {
    let Layout { word, drawn, mantissa, one } = layout(dtype);
    let bits = cast(bits, word);
    // Random mantissas with the exponent of 1 are uniform in 1..2.
    let distance = constant(drawn.bits() - mantissa, word);
    let mantissas = shift_right_logical(&bits, distance);
    let floats = bitwise_or(mantissas, constant(one, word));
    let unit = sub(bitcast_convert_type(&floats, dtype), constant(1.0, dtype));
    let (low, high) = (cast(low, dtype), cast(high, dtype));
    // Rounding can give a number below the range, but never its end.
    maximum(&low, add(mul(unit, sub(&high, &low)), &low))
}

/// Returns uniformly distributed numbers in `range`, including its start.
///
/// The dtype is `f32` (the default), `f16`, `bf16` or `f64`. The bounds are numbers, or arrays that
/// broadcast to `shape`. Numbers in `0.0..1.0` are multiples of 2⁻²³ in `f32` (2⁻¹⁰, 2⁻⁷, 2⁻⁵² in
/// `f16`, `bf16`, `f64`).
///
/// Throws `Op` for other dtypes, and for bounds that do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let x = random::uniform(random::key(0), [2, 3], -1.0..1.0);
/// assert!(x.to_vec::<f32>()?.iter().all(|x| (-1.0..1.0).contains(x)));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn uniform(key: Key, shape: impl IntoAval, range: Range<impl ArrayLike>) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    expect_float("uniform", dtype);
    let low = parameter(range.start.like(), dtype);
    let high = parameter(range.end.like(), dtype);
    expect_broadcast("uniform", &[&low, &high], &shape);
    draw_from(("uniform", &shape, dtype), &key, &[&low, &high], |words, ends| {
        raw_uniform(&words, &shape, dtype, &ends[0], &ends[1])
    })
}
