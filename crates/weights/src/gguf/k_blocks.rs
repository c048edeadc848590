//! Blocks of 256 elements with quantized scales: the "K" types of ggml.

use super::blocks::scale;

/// Calls `set` with each element's index and its two-bit number. The bits of an element are in a
/// byte with those of the elements 32, 64 and 96 further.
fn pairs_of_bits(bytes: &[u8], mut set: impl FnMut(usize, u8)) {
    for index in 0..256 {
        let byte = bytes[index / 128 * 32 + index % 32];
        set(index, byte >> (index % 128 / 32 * 2) & 3);
    }
}

pub(super) fn q2_k(block: &[u8], values: &mut [f32]) {
    let (scales, bits) = (&block[..16], &block[16..80]);
    let (d, dmin) = (scale(block, 80), scale(block, 82));
    pairs_of_bits(bits, |index, q| {
        let packed = scales[index / 16];
        let (scale, least) = (d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        values[index] = scale * f32::from(q) - least;
    });
}

pub(super) fn q3_k(block: &[u8], values: &mut [f32]) {
    let (mask, bits, packed) = (&block[..32], &block[32..96], &block[96..108]);
    let d = scale(block, 108);
    // Six bits of a scale: four in the first eight bytes, two in the last four.
    let scales: [f32; 16] = std::array::from_fn(|part| {
        let low = packed[part % 8] >> (part / 8 * 4) & 15;
        let high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
        d * (f32::from(low | high << 4) - 32.0)
    });
    pairs_of_bits(bits, |index, q| {
        // Elements whose third bit is not set are four less.
        let third = mask[index % 32] >> (index / 32) & 1;
        let q = f32::from(q) - if third == 0 { 4.0 } else { 0.0 };
        values[index] = scales[index / 16] * q;
    });
}

/// Returns scale and minimum of a part of 32 elements, six bits each.
fn scale_and_min(packed: &[u8], part: usize) -> (f32, f32) {
    let (scale, min) = match part {
        0..4 => (packed[part] & 63, packed[part + 4] & 63),
        _ => (
            packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
            packed[part + 4] >> 4 | packed[part] >> 6 << 4,
        ),
    };
    (f32::from(scale), f32::from(min))
}

/// Fills the elements of `q4_k` and `q5_k`: `fifth` returns the fifth bit of an element.
fn four_bits(block: &[u8], bits: &[u8], values: &mut [f32], fifth: impl Fn(usize, usize) -> u8) {
    let (d, dmin, packed) = (scale(block, 0), scale(block, 2), &block[4..16]);
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_min(packed, part);
        let (scale, min) = (d * scale, dmin * min);
        let bytes = &bits[part / 2 * 32..][..32];
        for (index, (value, byte)) in values.iter_mut().zip(bytes).enumerate() {
            let low = byte >> (part % 2 * 4) & 15;
            *value = scale * f32::from(low | fifth(part, index) << 4) - min;
        }
    }
}

pub(super) fn q4_k(block: &[u8], values: &mut [f32]) {
    four_bits(block, &block[16..], values, |_, _| 0);
}

pub(super) fn q5_k(block: &[u8], values: &mut [f32]) {
    let high = &block[16..48];
    four_bits(block, &block[48..], values, |part, index| high[index] >> part & 1);
}

pub(super) fn q6_k(block: &[u8], values: &mut [f32]) {
    for (index, value) in values.iter_mut().enumerate() {
        *value = q6_k_scale(block, index / 16) * f32::from(q6_k_integer(block, index));
    }
}

/// Returns the integer of an element: four bits in the first 128 bytes, two in the next 64.
pub(super) fn q6_k_integer(block: &[u8], index: usize) -> i8 {
    let (half, within) = (index / 128, index % 128);
    let four = block[half * 64 + within % 64] >> (within / 64 * 4) & 15;
    let two = block[128 + half * 32 + within % 32] >> (within / 32 * 2) & 3;
    (four | two << 4) as i8 - 32
}

/// Returns the scale of a part of 16 elements.
pub(super) fn q6_k_scale(block: &[u8], part: usize) -> f32 {
    scale(block, 208) * f32::from(block[192 + part] as i8)
}

/// A scale in single precision, the elements, and their sums, which products with other blocks use.
pub(super) fn q8_k(block: &[u8], values: &mut [f32]) {
    let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    let elements = values.iter_mut().zip(&block[4..260]);
    elements.for_each(|(value, &q)| *value = d * f32::from(q as i8));
}
