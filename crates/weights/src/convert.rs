//! Conversion of elements between dtypes, through `f64`. Bytes are little-endian.

use crate::dtype::WeightDType::{self, *};
use crate::error::{Error, Result};
use crate::gguf::dequantize;
use crate::source::reserved;
use half::{bf16, f16};

/// Converts elements. Floats and quantized numbers become floats, other real numbers floats.
pub(crate) fn convert(bytes: Vec<u8>, from: WeightDType, to: WeightDType) -> Result<Vec<u8>> {
    if from == to {
        return Ok(bytes);
    }
    if !is_convertible(from, to) {
        return Err(Error::new(format!("{from} cannot be converted to {to}")));
    }
    let (bytes, from) = match from {
        WeightDType::Ggml(kind) => (floats_to_bytes(&dequantize(kind, &bytes)?)?, WeightDType::F32),
        _ => (bytes, from),
    };
    let count = (bytes.len() / from.width().unwrap_or(1)) as u64;
    let mut result = reserved(count * to.width().unwrap_or(1) as u64)?;
    // Elements of these types may be rounded twice on the way through single precision.
    let is_wide = matches!(from, F64 | I32 | I64 | U32 | U64);
    match to {
        F16 if is_wide => for_each(&bytes, from, |x| result.extend(f16::from_f64(x).to_le_bytes())),
        F16 => for_each(&bytes, from, |x| result.extend(f16::from_f32(x as f32).to_le_bytes())),
        BF16 if is_wide => {
            for_each(&bytes, from, |x| result.extend(bf16::from_f64(x).to_le_bytes()));
        }
        BF16 => for_each(&bytes, from, |x| result.extend(bf16::from_f32(x as f32).to_le_bytes())),
        F32 => for_each(&bytes, from, |x| result.extend((x as f32).to_le_bytes())),
        _ => for_each(&bytes, from, |x| result.extend(x.to_le_bytes())),
    }
    Ok(result)
}

/// Calls a function with each element as a number.
fn for_each(bytes: &[u8], dtype: WeightDType, mut put: impl FnMut(f64)) {
    match dtype {
        // One loop for each frequent type.
        F16 => bytes
            .chunks_exact(2)
            .for_each(|x| put(f16::from_le_bytes([x[0], x[1]]).to_f32().into())),
        BF16 => bytes
            .chunks_exact(2)
            .for_each(|x| put(bf16::from_le_bytes([x[0], x[1]]).to_f32().into())),
        F32 => bytes
            .chunks_exact(4)
            .for_each(|x| put(f32::from_le_bytes([x[0], x[1], x[2], x[3]]).into())),
        _ => bytes
            .chunks_exact(dtype.width().unwrap_or(1))
            .for_each(|element| put(number(element, dtype))),
    }
}

/// Returns true if [`convert`] accepts the pair.
pub(crate) fn is_convertible(from: WeightDType, to: WeightDType) -> bool {
    from == to || (matches!(to, F16 | BF16 | F32 | F64) && !matches!(from, C64 | C128))
}

/// Converts elements to `f32`.
pub(crate) fn to_f32(bytes: Vec<u8>, from: WeightDType) -> Result<Vec<f32>> {
    if let WeightDType::Ggml(kind) = from {
        return dequantize(kind, &bytes);
    }
    if !is_convertible(from, F32) {
        return Err(Error::new(format!("{from} cannot be converted to f32")));
    }
    let mut values = reserved((bytes.len() / from.width().unwrap_or(1)) as u64)?;
    for_each(&bytes, from, |x| values.push(x as f32));
    Ok(values)
}

pub(crate) fn floats_to_bytes(values: &[f32]) -> Result<Vec<u8>> {
    let mut bytes = reserved(values.len() as u64 * 4)?;
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    Ok(bytes)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|index| bytes.get(index).copied().unwrap_or_default())
}

/// Returns an element as a number.
fn number(bytes: &[u8], dtype: WeightDType) -> f64 {
    let first = bytes.first().copied().unwrap_or_default();
    match dtype {
        Bool | U8 | U4 => f64::from(first),
        // The low half holds the number; the high half may repeat its sign.
        I4 => f64::from((first << 4) as i8 >> 4),
        I8 => f64::from(first as i8),
        I16 => f64::from(i16::from_le_bytes(array(bytes))),
        I32 => f64::from(i32::from_le_bytes(array(bytes))),
        I64 => i64::from_le_bytes(array(bytes)) as f64,
        U16 => f64::from(u16::from_le_bytes(array(bytes))),
        U32 => f64::from(u32::from_le_bytes(array(bytes))),
        U64 => u64::from_le_bytes(array(bytes)) as f64,
        F16 => f16::from_le_bytes(array(bytes)).to_f64(),
        BF16 => bf16::from_le_bytes(array(bytes)).to_f64(),
        F32 => f64::from(f32::from_le_bytes(array(bytes))),
        F64 => f64::from_le_bytes(array(bytes)),
        F4E2M1FN => small_float(first << 4, 2, 1, Specials::None, 1),
        F8E4M3FN => small_float(first, 4, 3, Specials::LargestIsNan, 7),
        F8E4M3FNUZ => small_float(first, 4, 3, Specials::NegativeZeroIsNan, 8),
        F8E5M2 => small_float(first, 5, 2, Specials::Ieee, 15),
        F8E5M2FNUZ => small_float(first, 5, 2, Specials::NegativeZeroIsNan, 16),
        F8E8M0FNU if first == 255 => f64::NAN,
        F8E8M0FNU => 2f64.powi(i32::from(first) - 127),
        C64 | C128 | Ggml(_) => f64::NAN,
    }
}

/// The values of a small float that are not finite.
#[derive(PartialEq)]
enum Specials {
    None,
    Ieee,
    LargestIsNan,
    NegativeZeroIsNan,
}

/// Returns the value of a float whose sign is the highest bit of the byte.
fn small_float(
    byte: u8,
    exponent_bits: u32,
    mantissa_bits: u32,
    specials: Specials,
    bias: i32,
) -> f64 {
    let bits = (byte & 0x7f) >> (7 - exponent_bits - mantissa_bits);
    let (exponent, mantissa) = (bits >> mantissa_bits, bits & ((1 << mantissa_bits) - 1));
    let is_highest = u32::from(exponent) == (1 << exponent_bits) - 1;
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    match specials {
        Specials::NegativeZeroIsNan if byte == 0x80 => return f64::NAN,
        Specials::LargestIsNan if byte & 0x7f == 0x7f => return f64::NAN,
        Specials::Ieee if is_highest && mantissa == 0 => return sign * f64::INFINITY,
        Specials::Ieee if is_highest => return f64::NAN,
        _ => {}
    }
    let fraction = f64::from(mantissa) / f64::from(1u32 << mantissa_bits);
    sign * match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(i32::from(exponent) - bias),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    fn value(bytes: &[u8], dtype: WeightDType) -> f32 {
        to_f32(bytes.to_vec(), dtype).unwrap()[0]
    }

    #[test]
    fn small_floats_have_their_published_extremes() {
        assert_eq!(value(&[0x7e], F8E4M3FN), 448.0);
        assert!(value(&[0xff], F8E4M3FN).is_nan());
        assert_eq!(value(&[0x01], F8E4M3FN), 2f32.powi(-9));
        assert_eq!(value(&[0x7b], F8E5M2), 57344.0);
        assert_eq!(value(&[0xfc], F8E5M2), f32::NEG_INFINITY);
        assert_eq!(value(&[0x7f], F8E4M3FNUZ), 240.0);
        assert!(value(&[0x80], F8E5M2FNUZ).is_nan());
        assert_eq!(value(&[0x7f], F8E5M2FNUZ), 57344.0);
        assert_eq!(value(&[0x80], F8E8M0FNU), 2.0);
        let fours: Vec<f32> = (0..16).map(|bits| value(&[bits], F4E2M1FN)).collect();
        assert_eq!(fours[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(fours[15], -6.0);
    }

    #[test]
    fn integers_and_floats_become_floats() {
        assert_eq!(value(&[0xff], I4), -1.0);
        assert_eq!(value(&(-3i64).to_le_bytes(), I64), -3.0);
        let narrow = convert(1.0f32.to_le_bytes().to_vec(), F32, BF16).unwrap();
        assert_eq!(narrow, [0x80, 0x3f]);
        let refused = convert(vec![0; 8], C64, F32).unwrap_err();
        assert_eq!(refused.to_string(), "c64 cannot be converted to f32");
    }
}
