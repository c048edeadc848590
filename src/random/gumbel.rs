//! The Gumbel sampler, at three resolutions.

use super::bernoulli::{halves, resolution};
use super::bits::raw;
use super::key::Key;
use super::key_words::KeyWords;
use super::sampler::{constant, draw, expect_float};
use super::uniform::{raw_uniform, raw_unit};
use crate::core::{Array, Aval, DType, IntoAval, Shape};
use crate::ops::finfo;
use crate::primitives::{
    add, bitcast_convert_type, bitwise_and, bitwise_not, bitwise_or, convert_element_type,
    count_leading_zeros, eq, ge, log, log1p, lt, neg, shift_left, shift_right_logical, sub, where_,
};

/// Number of random bits per element, for samplers in which rare events matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RandomMode {
    /// As many bits as the fraction of the dtype has.
    #[default]
    Low,
    /// Twice as many bits, so that small probabilities are exact.
    High,
    /// For `f32`, twice its width, without gaps in either tail; [`RandomMode::High`] for other
    /// dtypes.
    Highest,
}

/// Options of [`gumbel_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GumbelOptions {
    /// The number of random bits per element.
    pub mode: RandomMode,
}

/// Returns numbers of the standard Gumbel distribution: `-log(-log(u))` of uniform `u`.
///
/// The dtype is that of [`uniform`](super::uniform()). The resolution of `u` limits the largest
/// number, to about 16 in `f32`; other modes of [`gumbel_with`] reach larger ones.
#[track_caller]
pub fn gumbel(key: Key, shape: impl IntoAval) -> Array {
    gumbel_with(key, shape, GumbelOptions::default())
}

/// Returns Gumbel numbers, as [`gumbel`], with options.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let options = random::GumbelOptions { mode: random::RandomMode::High };
/// let x = random::gumbel_with(random::key(0), [8], options);
/// ```
#[track_caller]
pub fn gumbel_with(key: Key, shape: impl IntoAval, options: GumbelOptions) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::F32);
    let GumbelOptions { mode } = options;
    expect_float("gumbel", dtype);
    let words = key.words("gumbel");
    draw(|| raw_gumbel(&words, &shape, dtype, mode))
}

/// Returns the smallest normal number of a dtype.
pub(super) fn tiny(dtype: DType) -> f64 {
    finfo(dtype).map_or(0.0, |info| info.smallest_normal)
}

/// Draws Gumbel numbers with the words of a key.
#[track_caller]
pub(super) fn raw_gumbel(key: &KeyWords, shape: &Shape, dtype: DType, mode: RandomMode) -> Array {
    match (mode, dtype) {
        (RandomMode::Low, _) => {
            let least = constant(tiny(dtype), dtype);
            neg(log(neg(log(raw_uniform(key, shape, dtype, &least, &constant(1, dtype))))))
        }
        (RandomMode::Highest, DType::F32) => without_gaps(key, shape),
        _ => {
            let [high, low] = halves(&raw_unit(key, &shape.insert(0, 2), dtype), shape);
            let finer = &high + low * resolution(dtype) + tiny(dtype);
            let unit = where_(ge(&high, 0.5), &high, finer);
            neg(log(neg(log1p(neg(&unit)))))
        }
    }
}

/// Draws Gumbel numbers from 64 bits each. Uniform numbers above ½ are represented by their
/// distance from 1, so that both tails have the precision of small floats.
#[track_caller]
fn without_gaps(key: &KeyWords, shape: &Shape) -> Array {
    let [high, low] = halves(&raw(key, &shape.insert(0, 2), DType::U32), shape);
    let below = lt(&high, 1u32 << 31);
    // The two's complement of the pair as one word of 64 bits.
    let carry = convert_element_type(&eq(&low, 0u32), DType::U32);
    let mirrored = [add(bitwise_not(&high), carry), add(bitwise_not(&low), 1u32)];
    let high = where_(&below, &high, &mirrored[0]);
    let low = where_(&below, &low, &mirrored[1]);
    let unit = fraction(&high, &low);
    let lower = neg(log(neg(log1p(neg(&unit)))));
    where_(&below, lower, neg(log(neg(log(&unit)))))
}

/// Converts the fraction `(high, low) · 2⁻⁶⁴`, below ½, to `f32`, rounding towards zero.
#[track_caller]
fn fraction(high: &Array, low: &Array) -> Array {
    let zeros = [count_leading_zeros(high), count_leading_zeros(low)];
    let empty = eq(&zeros[0], 32u32);
    let rest =
        where_(&empty, shift_left(low, &zeros[1]), shift_right_logical(low, sub(32u32, &zeros[0])));
    let digits = bitwise_or(shift_left(high, &zeros[0]), rest);
    let mantissa = bitwise_and(shift_right_logical(&digits, 8u32), 0x007F_FFFFu32);
    let leading = where_(&empty, add(&zeros[1], 32u32), &zeros[0]);
    let exponent = bitwise_and(shift_left(sub(126u32, leading), 23u32), 0x3FC0_0000u32);
    bitcast_convert_type(&bitwise_or(exponent, mantissa), DType::F32)
}
