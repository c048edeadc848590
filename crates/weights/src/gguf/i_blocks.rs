//! Blocks whose numbers are indices into grids: the "IQ" types of ggml.

use super::blocks::scale;
use super::grids::{IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};

/// Values of the two-bit codes in grids of eight.
const LEVELS_2: [f32; 4] = [8.0, 25.0, 43.0, 0.0];

/// Values of the three-bit codes in the grid of `iq3_xxs`.
const LEVELS_3: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];

/// Values of four-bit codes.
const LEVELS_4: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The part of a scale that moves the grid of `iq1_s` and `iq1_m`.
const DELTA: f32 = 0.125;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns -1 if the sign bit of an element is set.
fn sign(signs: u8, index: usize) -> f32 {
    if signs >> (index % 8) & 1 == 0 { 1.0 } else { -1.0 }
}

/// Returns eight signs for seven bits: the number of set ones is even.
fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | (bits.count_ones() as u8 & 1) << 7
}

/// Fills eight elements from a row of two-bit codes.
fn eight(values: &mut [f32], row: u16, scale: f32, signs: u8) {
    for (index, value) in values.iter_mut().enumerate() {
        let level = LEVELS_2[usize::from(row >> (index * 2) & 3)];
        *value = scale * level * sign(signs, index);
    }
}

/// Returns the scale of four bits in one half of a byte.
fn nibble_scale(d: f32, scales: &[u8], part: usize) -> f32 {
    let nibble = scales[part / 2] >> (part % 2 * 4) & 15;
    d * (0.5 + f32::from(nibble)) * 0.25
}

pub(super) fn iq2_xxs(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let at = 2 + part * 8;
        let packed = u32_at(block, at + 4);
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.25;
        for (group, values) in values.chunks_exact_mut(8).enumerate() {
            let row = IQ2_XXS[usize::from(block[at + group])];
            eight(values, row, scale, even_signs(packed >> (group * 7)));
        }
    }
}

pub(super) fn iq2_xs(block: &[u8], values: &mut [f32]) {
    let (d, scales) = (scale(block, 0), &block[66..]);
    for (group, values) in values.chunks_exact_mut(8).enumerate() {
        let packed = u16_at(block, 2 + group * 2);
        let scale = nibble_scale(d, scales, group / 2);
        let row = IQ2_XS[usize::from(packed & 511)];
        eight(values, row, scale, even_signs((packed >> 9).into()));
    }
}

pub(super) fn iq2_s(block: &[u8], values: &mut [f32]) {
    let (low, signs, high, scales) = (&block[2..34], &block[34..66], &block[66..74], &block[74..]);
    let d = scale(block, 0);
    for (group, values) in values.chunks_exact_mut(8).enumerate() {
        let two = usize::from(high[group / 4] >> (group % 4 * 2) & 3);
        let row = IQ2_S[usize::from(low[group]) | two << 8];
        eight(values, row, nibble_scale(d, scales, group / 2), signs[group]);
    }
}

pub(super) fn iq3_xxs(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let packed = u32_at(block, 66 + part * 4);
        let scale = d * (0.5 + (packed >> 28) as f32) * 0.5;
        for (index, value) in values.iter_mut().enumerate() {
            let row = IQ3_XXS[usize::from(block[2 + part * 8 + index / 4])];
            let level = LEVELS_3[usize::from(row >> (index % 4 * 4) & 7)];
            *value = scale * level * sign(even_signs(packed >> (index / 8 * 7)), index);
        }
    }
}

pub(super) fn iq3_s(block: &[u8], values: &mut [f32]) {
    let (low, high, signs, scales) =
        (&block[2..66], &block[66..74], &block[74..106], &block[106..110]);
    let d = scale(block, 0);
    for (index, value) in values.iter_mut().enumerate() {
        let (four, part) = (index / 4, index / 32);
        let nibble = scales[part / 2] >> (part % 2 * 4) & 15;
        let scale = d * f32::from(1 + 2 * nibble);
        let bit = usize::from(high[four / 8] >> (four % 8) & 1);
        let row = IQ3_S[usize::from(low[four]) | bit << 8];
        let level = f32::from(2 * (row >> (index % 4 * 4) & 7) + 1);
        *value = scale * level * sign(signs[index / 8], index);
    }
}

/// Fills eight elements from a row of the ternary grid.
fn ternary(values: &mut [f32], row: usize, scale: f32, delta: f32) {
    let row = IQ1_S[row];
    for (index, value) in values.iter_mut().enumerate() {
        let level = f32::from(row >> (index * 2) & 3) - 1.0;
        *value = scale * (level + delta);
    }
}

pub(super) fn iq1_s(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let high = u16_at(block, 34 + part * 2);
        let scale = d * f32::from(2 * (high >> 12 & 7) + 1);
        let delta = if high & 0x8000 == 0 { DELTA } else { -DELTA };
        for (group, values) in values.chunks_exact_mut(8).enumerate() {
            let three = usize::from(high >> (group * 3) & 7);
            let row = usize::from(block[2 + part * 4 + group]) | three << 8;
            ternary(values, row, scale, delta);
        }
    }
}

pub(super) fn iq1_m(block: &[u8], values: &mut [f32]) {
    let (low, high) = (&block[..32], &block[32..48]);
    let scales: [u16; 4] = std::array::from_fn(|index| u16_at(block, 48 + index * 2));
    // The half-precision scale is in the highest four bits of each number.
    let bits = scales.iter().rev().fold(0, |bits, scale| bits << 4 | scale >> 12);
    let d = half::f16::from_bits(bits).to_f32();
    for (group, values) in values.chunks_exact_mut(8).enumerate() {
        let part = group / 2;
        let scale = d * f32::from(2 * (scales[part / 4] >> (part % 4 * 3) & 7) + 1);
        let bits = high[group / 2] >> (group % 2 * 4);
        let delta = if bits & 8 == 0 { DELTA } else { -DELTA };
        let row = usize::from(low[group]) | usize::from(bits & 7) << 8;
        ternary(values, row, scale, delta);
    }
}

pub(super) fn iq4_nl(block: &[u8], values: &mut [f32]) {
    let d = scale(block, 0);
    for (index, value) in values.iter_mut().enumerate() {
        let nibble = block[2 + index % 16] >> (index / 16 * 4) & 15;
        *value = d * f32::from(LEVELS_4[usize::from(nibble)]);
    }
}

pub(super) fn iq4_xs(block: &[u8], values: &mut [f32]) {
    let (d, high) = (scale(block, 0), u16_at(block, 2));
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let low = block[4 + part / 2] >> (part % 2 * 4) & 15;
        let two = (high >> (part * 2) & 3) as u8;
        let scale = d * (f32::from(low | two << 4) - 32.0);
        for (index, value) in values.iter_mut().enumerate() {
            let nibble = block[8 + part * 16 + index % 16] >> (index / 16 * 4) & 15;
            *value = scale * f32::from(LEVELS_4[usize::from(nibble)]);
        }
    }
}
