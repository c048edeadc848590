//! [`Scalar`]: a number in a program's text.

use crate::core::types::dtype::DType;
use crate::core::types::small_float::small_float;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::hash::{Hash, Hasher};

/// A number with a category but no width. Compared bit by bit: NaN equals itself, 0.0 differs from
/// -0.0.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer of any width up to 64 bits, signed or not.
    Int(i128),
    /// A real number.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// Returns the default dtype of the category: `bool`, `i32`, `f32` or `c64`.
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I32,
            Scalar::Float(_) => DType::F32,
            Scalar::Complex(..) => DType::C64,
        }
    }

    fn key(self) -> (u8, i128, u64) {
        match self {
            Scalar::Bool(value) => (0, i128::from(value), 0),
            Scalar::Int(value) => (1, value, 0),
            Scalar::Float(value) => (2, i128::from(value.to_bits()), 0),
            Scalar::Complex(re, im) => (3, i128::from(re.to_bits()), im.to_bits()),
        }
    }

    /// Returns the real part as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) | Scalar::Complex(value, _) => value,
        }
    }

    /// Returns the host bytes of one element of `dtype`, rounded or wrapped as in
    /// [`Scalar::stablehlo`]. Returns `None` for sub-byte dtypes and 8-bit floats, which only the
    /// plugin rounds.
    pub(crate) fn host_bytes(self, dtype: DType) -> Option<Vec<u8>> {
        let float = |value: f64| match dtype.real() {
            DType::F64 => Some(value.to_le_bytes().to_vec()),
            DType::F32 => Some((value as f32).to_le_bytes().to_vec()),
            DType::F16 => Some(half::f16::from_f64(value).to_le_bytes().to_vec()),
            DType::BF16 => Some(half::bf16::from_f64(value).to_le_bytes().to_vec()),
            _ => None,
        };
        match dtype {
            DType::Bool => Some(vec![u8::from(self.as_f64() != 0.0)]),
            _ if dtype.is_integer() && dtype.bits() < 8 => None,
            // Two's complement: the low bytes are the number modulo the dtype's range.
            _ if dtype.is_integer() => {
                Some(self.whole().to_le_bytes()[..dtype.bits() / 8].to_vec())
            }
            _ if dtype.is_complex() => {
                Some([float(self.as_f64())?, float(self.imaginary())?].concat())
            }
            _ => float(self.as_f64()),
        }
    }

    fn whole(self) -> i128 {
        match self {
            Scalar::Int(value) => value,
            other => other.as_f64() as i128,
        }
    }

    fn imaginary(self) -> f64 {
        if let Scalar::Complex(_, im) = self { im } else { 0.0 }
    }

    /// Returns the text between `dense<` and `>` for elements of `dtype`. Floats are written as
    /// hexadecimal bits to preserve every value, including infinities and NaN.
    pub fn stablehlo(self, dtype: DType) -> String {
        let float = |dtype: DType, value: f64| match dtype {
            DType::F64 | DType::C128 => format!("0x{:016X}", value.to_bits()),
            DType::F32 | DType::C64 => format!("0x{:08X}", (value as f32).to_bits()),
            DType::F16 => format!("0x{:04X}", half::f16::from_f64(value).to_bits()),
            DType::BF16 => format!("0x{:04X}", half::bf16::from_f64(value).to_bits()),
            // `f8E8M0FNU` holds powers of two without a sign. Negative values become NaN.
            DType::F8E8M0FNU if value < 0.0 => "0xFF".to_owned(),
            DType::F8E8M0FNU if value == 0.0 => format!("{:.17e}", value.abs()),
            // Small floats have no host type. MLIR rounds the decimal and requires its point.
            _ if value.is_finite() => format!("{value:.17e}"),
            _ => format!("0x{:02X}", nonfinite_bits(dtype, value)),
        };
        match dtype {
            DType::Bool => (self.as_f64() != 0.0).to_string(),
            _ if dtype.is_integer() => {
                // Wraps into the dtype's range as a cast does.
                let (low, high) = dtype.int_range();
                let size = high - low + 1;
                ((self.whole().rem_euclid(size) - low).rem_euclid(size) + low).to_string()
            }
            _ if dtype.is_complex() => {
                format!("({}, {})", float(dtype, self.as_f64()), float(dtype, self.imaginary()))
            }
            _ => float(dtype, self.as_f64()),
        }
    }
}

/// Returns the bits of an infinity or NaN in a float of eight bits or fewer. Dtypes without
/// infinity use NaN, those without NaN the largest number.
fn nonfinite_bits(dtype: DType, value: f64) -> u8 {
    let bytes = || (0..1u16 << dtype.bits()).map(|bits| bits as u8);
    let bits_of = |target: f64| {
        bytes().find(|&bits| {
            let decoded = small_float(dtype, bits);
            decoded == target || (decoded.is_nan() && target.is_nan())
        })
    };
    let largest = dtype.float_max().copysign(value);
    let bits = bits_of(value).or_else(|| bits_of(f64::NAN)).or_else(|| bits_of(largest));
    bits.unwrap_or_default()
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

fn float_text(value: f64) -> String {
    if value.is_nan() { format!("nan:{:016x}", value.to_bits()) } else { format!("{value:?}") }
}

fn float_from_text(text: &str) -> Option<f64> {
    match text.strip_prefix("nan:") {
        Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        None => text.parse().ok(),
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Scalar::Bool(value) => serializer.serialize_bool(value),
            // Integers outside of i64 are written as text.
            Scalar::Int(value) => match i64::try_from(value) {
                Ok(value) => serializer.serialize_i64(value),
                Err(_) => serializer.serialize_str(&value.to_string()),
            },
            Scalar::Float(value) if value.is_finite() => serializer.serialize_f64(value),
            Scalar::Float(value) => serializer.serialize_str(&float_text(value)),
            Scalar::Complex(re, im) => (float_text(re), float_text(im)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let bad = || D::Error::custom(format!("`{value}` is not a scalar"));
        match &value {
            serde_json::Value::Bool(value) => Ok(Scalar::Bool(*value)),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(value) => Ok(Scalar::Int(value.into())),
                None => number.as_f64().map(Scalar::Float).ok_or_else(bad),
            },
            serde_json::Value::String(text) => text
                .parse()
                .map(Scalar::Int)
                .ok()
                .or_else(|| float_from_text(text).map(Scalar::Float))
                .ok_or_else(bad),
            serde_json::Value::Array(parts) => match parts.as_slice() {
                [re, im] => {
                    let part = |v: &serde_json::Value| v.as_str().and_then(float_from_text);
                    part(re).zip(part(im)).map(|(re, im)| Scalar::Complex(re, im)).ok_or_else(bad)
                }
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }
}

macro_rules! from_host {
    ($($ty:ty => $variant:ident as $wide:ty),*) => {$(
        impl From<$ty> for Scalar {
            fn from(value: $ty) -> Scalar {
                Scalar::$variant(<$wide>::from(value))
            }
        }
    )*};
}

from_host!(
    bool => Bool as bool, i8 => Int as i128, i16 => Int as i128, i32 => Int as i128,
    i64 => Int as i128, u8 => Int as i128, u16 => Int as i128, u32 => Int as i128,
    u64 => Int as i128, f32 => Float as f64, f64 => Float as f64,
    half::f16 => Float as f64, half::bf16 => Float as f64
);

impl From<usize> for Scalar {
    fn from(value: usize) -> Scalar {
        Scalar::Int(value as i128)
    }
}

impl From<num_complex::Complex64> for Scalar {
    fn from(value: num_complex::Complex64) -> Scalar {
        Scalar::Complex(value.re, value.im)
    }
}

impl From<num_complex::Complex32> for Scalar {
    fn from(value: num_complex::Complex32) -> Scalar {
        Scalar::Complex(value.re.into(), value.im.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stablehlo_text_of_floats_is_exact() {
        let text = |value: f64| Scalar::Float(value).stablehlo(DType::F32);
        assert_eq!(text(1.0), "0x3F800000");
        assert_eq!(text(1e16), "0x5A0E1BCA");
        assert_eq!(text(-0.0), "0x80000000");
        assert_eq!(text(f64::INFINITY), "0x7F800000");
        assert_eq!(text(f64::NAN), "0x7FC00000");
        assert_eq!(text(1e-45), "0x00000001");
        assert_eq!(Scalar::Int(-1).stablehlo(DType::U8), "255");
    }

    #[test]
    fn scalars_round_trip_through_json() {
        let values = [
            Scalar::Bool(true),
            Scalar::Int(i128::from(u64::MAX)),
            Scalar::Int(-3),
            Scalar::Float(1.0),
            Scalar::Float(f64::NEG_INFINITY),
            Scalar::Float(f64::NAN),
            Scalar::Float(-0.0),
            Scalar::Complex(-0.0, f64::INFINITY),
        ];
        for value in values {
            let text = serde_json::to_string(&value).expect("serializes");
            assert_eq!(serde_json::from_str::<Scalar>(&text).expect("parses"), value, "{text}");
        }
    }
}
