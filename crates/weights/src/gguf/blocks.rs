//! Dequantization of blocks. Sums and products are rounded in the order of ggml.

use super::block_type::GgmlType::{self, *};
use super::{i_blocks, k_blocks};
use crate::error::{Error, Result};
use crate::source::zeroed_floats;
use half::f16;

/// Values of four-bit floats, doubled.
const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Dequantizes whole blocks.
pub(crate) fn dequantize(kind: GgmlType, bytes: &[u8]) -> Result<Vec<f32>> {
    let (elements, block) = (kind.block_len(), kind.block_bytes());
    if !bytes.len().is_multiple_of(block) {
        let found = bytes.len();
        return Err(Error::new(format!("{found} bytes are not whole blocks of {kind}")));
    }
    let blocks = bytes.len() / block;
    let mut values = zeroed_floats((blocks * elements) as u64)?;
    let decode = decoder(kind);
    for (block, values) in bytes.chunks_exact(block).zip(values.chunks_exact_mut(elements)) {
        decode(block, values);
    }
    Ok(values)
}

/// Returns the function for one block: its bytes, and the elements that it fills.
fn decoder(kind: GgmlType) -> fn(&[u8], &mut [f32]) {
    match kind {
        Q4_0 => q4_0,
        Q4_1 => q4_1,
        Q5_0 => q5_0,
        Q5_1 => q5_1,
        Q8_0 => q8_0,
        Q8_1 => q8_1,
        Q2_K => k_blocks::q2_k,
        Q3_K => k_blocks::q3_k,
        Q4_K => k_blocks::q4_k,
        Q5_K => k_blocks::q5_k,
        Q6_K => k_blocks::q6_k,
        Q8_K => k_blocks::q8_k,
        IQ2_XXS => i_blocks::iq2_xxs,
        IQ2_XS => i_blocks::iq2_xs,
        IQ2_S => i_blocks::iq2_s,
        IQ3_XXS => i_blocks::iq3_xxs,
        IQ3_S => i_blocks::iq3_s,
        IQ1_S => i_blocks::iq1_s,
        IQ1_M => i_blocks::iq1_m,
        IQ4_NL => i_blocks::iq4_nl,
        IQ4_XS => i_blocks::iq4_xs,
        TQ1_0 => tq1_0,
        TQ2_0 => tq2_0,
        MXFP4 => mxfp4,
        NVFP4 => nvfp4,
        Q1_0 => q1_0,
    }
}

/// Reads a half-precision scale.
pub(super) fn scale(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Fills 32 elements from the low, then the high halves of 16 bytes.
fn halves(nibbles: &[u8], values: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    let half = nibbles.len();
    for (index, &byte) in nibbles.iter().enumerate() {
        values[index] = value(index, byte & 15);
        values[index + half] = value(index + half, byte >> 4);
    }
}

fn q4_0(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    halves(&block[2..], values, |_, q| d * (f32::from(q) - 8.0));
}

fn q4_1(block: &[u8], values: &mut [f32]) {
    let (d, m) = (scale(block, 0), scale(block, 2));
    halves(&block[4..], values, |_, q| d * f32::from(q) + m);
}

/// Adds the fifth bit of an element.
fn fifth(high: &[u8], index: usize, low: u8) -> u8 {
    low | (high[index / 8] >> (index % 8) & 1) << 4
}

fn q5_0(block: &[u8], values: &mut [f32]) {
    let (d, high) = (scale(block, 0), &block[2..6]);
    halves(&block[6..], values, |index, q| d * (f32::from(fifth(high, index, q)) - 16.0));
}

fn q5_1(block: &[u8], values: &mut [f32]) {
    let (d, m, high) = (scale(block, 0), scale(block, 2), &block[4..8]);
    halves(&block[8..], values, |index, q| d * f32::from(fifth(high, index, q)) + m);
}

fn q8_0(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    values.iter_mut().zip(&block[2..]).for_each(|(value, &q)| *value = f32::from(q as i8) * d);
}

/// Like `q8_0`, with the sum of the block, which products with other blocks use.
fn q8_1(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    values.iter_mut().zip(&block[4..]).for_each(|(value, &q)| *value = f32::from(q as i8) * d);
}

/// One bit for each element: the scale, or its negative.
fn q1_0(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    for (index, value) in values.iter_mut().enumerate() {
        *value = if block[2 + index / 8] >> (index % 8) & 1 == 1 { d } else { -d };
    }
}

/// Ternary numbers, five in a byte: the digits of a fraction in base 3.
fn tq1_0(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 52);
    let digit = |byte: u8, power: u8| {
        let shifted = byte.wrapping_mul(power);
        d * (f32::from(((u16::from(shifted) * 3) >> 8) as u8) - 1.0)
    };
    let groups = [(&block[..32], 5), (&block[32..48], 5), (&block[48..52], 4)];
    let mut values = values.iter_mut();
    for (bytes, digits) in groups {
        for power in [1, 3, 9, 27, 81].into_iter().take(digits) {
            for (&byte, value) in bytes.iter().zip(values.by_ref()) {
                *value = digit(byte, power);
            }
        }
    }
}

fn tq2_0(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 64);
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let bytes = &block[part / 4 * 32..][..32];
        let shift = part % 4 * 2;
        for (value, byte) in values.iter_mut().zip(bytes) {
            *value = d * (f32::from(byte >> shift & 3) - 1.0);
        }
    }
}

/// Half of the power of two with this biased exponent.
fn half_power(exponent: u8) -> f32 {
    match exponent {
        0 | 1 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits(u32::from(exponent - 1) << 23),
    }
}

fn mxfp4(block: &[u8], values: &mut [f32]) {
    let d = half_power(block[0]);
    halves(&block[1..], values, |_, q| d * f32::from(MXFP4_VALUES[usize::from(q)]));
}

/// Half of an unsigned float with four bits of exponent and three of mantissa.
fn half_e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    match bits {
        0 | 0x7f => 0.0,
        _ if exponent == 0 => mantissa * 2f32.powi(-10),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 8),
    }
}

fn nvfp4(block: &[u8], values: &mut [f32]) {
    for (part, values) in values.chunks_exact_mut(16).enumerate() {
        let d = half_e4m3(block[part]);
        let nibbles = &block[4 + part * 8..][..8];
        halves(nibbles, values, |_, q| d * f32::from(MXFP4_VALUES[usize::from(q)]));
    }
}
