//! Quantization to the types that the writer offers.

use super::GgmlType;
use crate::error::{Error, Result};
use crate::source::reserved;
use half::f16;

/// Quantizes elements. The last axis consists of whole blocks.
pub(crate) fn quantize(kind: GgmlType, values: &[f32]) -> Result<Vec<u8>> {
    let encode: fn(&[f32], &mut Vec<u8>) = match kind {
        GgmlType::Q4_0 => q4_0,
        GgmlType::Q4_1 => q4_1,
        GgmlType::Q5_0 => q5_0,
        GgmlType::Q5_1 => q5_1,
        GgmlType::Q8_0 => q8_0,
        _ => {
            return Err(Error::new(format!(
                "{kind} cannot be written yet; use q4_0, q4_1, q5_0, q5_1 or q8_0"
            )));
        }
    };
    let blocks = values.len() / kind.block_len();
    let mut bytes = reserved((blocks * kind.block_bytes()) as u64)?;
    values.chunks_exact(kind.block_len()).for_each(|block| encode(block, &mut bytes));
    Ok(bytes)
}

fn put(bytes: &mut Vec<u8>, scale: f32) {
    bytes.extend(f16::from_f32(scale).to_le_bytes());
}

/// Returns 1/d, or 0 for a block of zeros.
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Returns the element with the largest magnitude, the first of several.
fn largest(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |most: f32, &x| if x.abs() > most.abs() { x } else { most })
}

/// Puts two elements of four bits into each byte: one of the first half, one of the second.
fn put_halves(bytes: &mut Vec<u8>, codes: &[u8; 32]) {
    bytes.extend((0..16).map(|index| codes[index] & 15 | codes[index + 16] << 4));
}

fn put_fifth_bits(bytes: &mut Vec<u8>, codes: &[u8; 32]) {
    let bits = codes.iter().enumerate().map(|(index, code)| u32::from(code >> 4 & 1) << index);
    bytes.extend(bits.sum::<u32>().to_le_bytes());
}

/// Codes around zero: the largest element becomes `-half`.
fn signed_codes(block: &[f32], half: f32) -> (f32, [u8; 32]) {
    let d = largest(block) / -half;
    let inverse = inverse(d);
    let most = half * 2.0 - 1.0;
    let code = |x: f32| (x * inverse + (half + 0.5)).trunc().clamp(0.0, most) as u8;
    (d, std::array::from_fn(|index| code(block[index])))
}

/// Codes from the smallest element.
fn unsigned_codes(block: &[f32], most: f32) -> (f32, f32, [u8; 32]) {
    let min = block.iter().copied().fold(f32::INFINITY, f32::min);
    let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = (max - min) / most;
    let inverse = inverse(d);
    let code = |x: f32| ((x - min) * inverse + 0.5).trunc().clamp(0.0, most) as u8;
    (d, min, std::array::from_fn(|index| code(block[index])))
}

fn q4_0(block: &[f32], bytes: &mut Vec<u8>) {
    let (d, codes) = signed_codes(block, 8.0);
    put(bytes, d);
    put_halves(bytes, &codes);
}

fn q4_1(block: &[f32], bytes: &mut Vec<u8>) {
    let (d, min, codes) = unsigned_codes(block, 15.0);
    put(bytes, d);
    put(bytes, min);
    put_halves(bytes, &codes);
}

fn q5_0(block: &[f32], bytes: &mut Vec<u8>) {
    let (d, codes) = signed_codes(block, 16.0);
    put(bytes, d);
    put_fifth_bits(bytes, &codes);
    put_halves(bytes, &codes);
}

fn q5_1(block: &[f32], bytes: &mut Vec<u8>) {
    let (d, min, codes) = unsigned_codes(block, 31.0);
    put(bytes, d);
    put(bytes, min);
    put_fifth_bits(bytes, &codes);
    put_halves(bytes, &codes);
}

fn q8_0(block: &[f32], bytes: &mut Vec<u8>) {
    let d = largest(block).abs() / 127.0;
    let inverse = inverse(d);
    put(bytes, d);
    bytes.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
}
