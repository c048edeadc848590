//! Decoding of 4-bit and 8-bit floats.

use crate::core::types::dtype::DType;

/// Returns the value of a float of eight bits or fewer.
///
/// Reference: OCP 8-bit floating point specification 1.0 and microscaling formats 1.0 (2023); for
/// the FNUZ kinds Noune et al., arXiv:2206.02915.
pub(crate) fn small_float(dtype: DType, byte: u8) -> f64 {
    // Exponent bits, mantissa bits, exponent bias.
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        DType::F8E8M0FNU => {
            return if byte == 0xFF { f64::NAN } else { 2f64.powi(i32::from(byte) - 127) };
        }
        DType::F4E2M1FN => (2, 1, 1),
        DType::F8E3M4 => (3, 4, 3),
        DType::F8E4M3 | DType::F8E4M3FN => (4, 3, 7),
        DType::F8E4M3B11FNUZ => (4, 3, 11),
        DType::F8E4M3FNUZ => (4, 3, 8),
        DType::F8E5M2 => (5, 2, 15),
        _ => (5, 2, 16),
    };
    let one_nan = matches!(dtype, DType::F8E4M3B11FNUZ | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ);
    let width = 1 + exponent_bits + mantissa_bits;
    let negative = byte >> (width - 1) & 1 == 1;
    let exponent = i32::from(byte >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = i32::from(byte) & ((1 << mantissa_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let magnitude = match dtype {
        _ if one_nan && byte == 0x80 => f64::NAN,
        DType::F8E4M3FN if exponent == top && mantissa == 7 => f64::NAN,
        _ if dtype.has_infinity() && exponent == top => match mantissa {
            0 => f64::INFINITY,
            _ => f64::NAN,
        },
        _ if exponent == 0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if negative { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_have_their_published_extremes() {
        for dtype in DType::all().filter(|dtype| dtype.is_float() && dtype.bits() <= 8) {
            let n = 1u16 << dtype.bits();
            let values: Vec<f64> = (0..n).map(|byte| small_float(dtype, byte as u8)).collect();
            let finite = values.iter().copied().filter(|x| x.is_finite());
            assert_eq!(finite.fold(0.0, f64::max), dtype.float_max(), "{dtype}");
            assert_eq!(values.iter().any(|x| x.is_infinite()), dtype.has_infinity(), "{dtype}");
            let one = values.iter().position(|x| *x == 1.0).unwrap();
            assert_eq!(values[one + 1] - 1.0, dtype.epsilon(), "{dtype}");
        }
    }
}
