//! [`Scalar`]: a number that is part of a program's text.

use crate::core::array::host_array::small_float;
use crate::core::types::dtype::DType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::hash::{Hash, Hasher};

/// One number, of a category but of no width. Equality is that of bits: NaN equals itself, 0.0 is
/// not -0.0.
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
    /// The dtype that the scalar has on its own: `bool`, `i32`, `f32`, `c64`.
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

    /// The real part as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) | Scalar::Complex(value, _) => value,
        }
    }

    /// The bytes of one element of `dtype` on the host, rounded or wrapped as in [`Scalar::stablehlo`]; `None` for dtypes
    /// narrower than a byte and floats of eight bits, to which only the plugin rounds.
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

    /// How the scalar stands between `dense<` and `>` for elements of `dtype`. Floats are written
    /// as hexadecimal bits, so that every value survives, infinities and NaN included.
    pub fn stablehlo(self, dtype: DType) -> String {
        let float = |dtype: DType, value: f64| match dtype {
            DType::F64 | DType::C128 => format!("0x{:016X}", value.to_bits()),
            DType::F32 | DType::C64 => format!("0x{:08X}", (value as f32).to_bits()),
            DType::F16 => format!("0x{:04X}", half::f16::from_f64(value).to_bits()),
            DType::BF16 => format!("0x{:04X}", half::bf16::from_f64(value).to_bits()),
            // Powers of two have no sign: a negative number is none of them.
            DType::F8E8M0FNU if value < 0.0 => "0xFF".to_owned(),
            DType::F8E8M0FNU if value == 0.0 => format!("{:.17e}", value.abs()),
            // The small floats have no host type; MLIR rounds the decimal itself, and wants its point.
            _ if value.is_finite() => format!("{value:.17e}"),
            _ => format!("0x{:02X}", small_float_beyond(dtype, value)),
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

/// The bits of an infinity or NaN in a float of eight bits or fewer: NaN where there is no infinity, and the largest
/// number where there is no NaN either.
fn small_float_beyond(dtype: DType, value: f64) -> u8 {
    let bytes = || (0..1u16 << dtype.bits()).map(|bits| bits as u8);
    let is = |wanted: f64| {
        bytes().find(|&bits| {
            let found = small_float(dtype, bits);
            found == wanted || (found.is_nan() && wanted.is_nan())
        })
    };
    let largest = dtype.float_max().copysign(value);
    is(value).or_else(|| is(f64::NAN)).or_else(|| is(largest)).unwrap_or_default()
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
    match value.is_nan() {
        true => format!("nan:{:016x}", value.to_bits()),
        false => format!("{value:?}"),
    }
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
            // i128 through text where i64 does not reach.
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
    fn floats_print_so_that_mlir_takes_them() {
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
    fn scalars_survive_json() {
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
