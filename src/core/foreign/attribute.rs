//! [`FfiAttribute`]: a constant that a call of a foreign function passes to its handler.

use super::attributes::FfiAttributes;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

/// A constant that a call of a foreign function passes to its handler.
///
/// Made from Rust values: numbers of every dtype, `bool`, text, vectors and slices of numbers, and
/// [`FfiAttributes`] for a dictionary.
///
/// XLA has attributes of booleans, integers of 8 to 64 bits, `f32`, `f64`, text, arrays of these
/// numbers, and dictionaries. Other dtypes, and arrays of booleans, reach a handler in Rust
/// unchanged. A C function gets a dictionary instead, with the dtype's name as `oxidax.dtype`, the
/// little-endian bytes as `oxidax.bytes`, and whether it is one number as `oxidax.scalar`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FfiAttribute {
    /// A number or a boolean.
    Scalar(FfiScalar),
    /// Text.
    String(String),
    /// Several numbers of one dtype.
    Array {
        /// The dtype.
        dtype: DType,
        /// The numbers, little-endian one after the other. Sub-byte dtypes take one byte each.
        bytes: Vec<u8>,
    },
    /// Several attributes by name.
    Dictionary(FfiAttributes),
}

/// A number or a boolean of some dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FfiScalar {
    dtype: DType,
    /// Little-endian, padded with zeros.
    bytes: [u8; 16],
}

impl FfiScalar {
    /// Returns the number of this dtype with these little-endian bytes; `None` for another number
    /// of bytes than the dtype takes on the host.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Option<FfiScalar> {
        let mut padded = [0; 16];
        if bytes.len() != dtype.host_bytes() {
            return None;
        }
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(FfiScalar { dtype, bytes: padded })
    }

    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the little-endian bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.dtype.host_bytes()]
    }

    /// Returns the value of an integer or a boolean.
    pub(super) fn integer(&self) -> Option<i128> {
        let number = u64::from_le_bytes(*self.bytes.first_chunk()?);
        Some(match self.dtype {
            DType::Bool => i128::from(number != 0),
            DType::I2 | DType::I4 | DType::I8 => i128::from(number as i8),
            DType::I16 => i128::from(number as i16),
            DType::I32 => i128::from(number as i32),
            DType::I64 => i128::from(number as i64),
            dtype if dtype.is_unsigned() => i128::from(number),
            _ => return None,
        })
    }

    /// Returns the value of a real float that has a host type.
    pub(super) fn float(&self) -> Option<f64> {
        let number = u64::from_le_bytes(*self.bytes.first_chunk()?);
        Some(match self.dtype {
            DType::F16 => f16::from_bits(number as u16).to_f64(),
            DType::BF16 => bf16::from_bits(number as u16).to_f64(),
            DType::F32 => f32::from_bits(number as u32).into(),
            DType::F64 => f64::from_bits(number),
            _ => return None,
        })
    }
}

impl<T: Element> From<T> for FfiScalar {
    fn from(value: T) -> FfiScalar {
        let mut bytes = [0; 16];
        let native = T::as_bytes(std::slice::from_ref(&value));
        bytes[..native.len()].copy_from_slice(native);
        FfiScalar { dtype: T::DTYPE, bytes }
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for FfiAttribute {
            fn from(value: $number) -> FfiAttribute {
                FfiAttribute::Scalar(value.into())
            }
        }
    )*};
}

numbers!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, Complex32, Complex64);

impl<T: Element> From<&[T]> for FfiAttribute {
    fn from(values: &[T]) -> FfiAttribute {
        FfiAttribute::Array { dtype: T::DTYPE, bytes: T::as_bytes(values).to_vec() }
    }
}

impl<T: Element> From<Vec<T>> for FfiAttribute {
    fn from(values: Vec<T>) -> FfiAttribute {
        values.as_slice().into()
    }
}

impl<T: Element, const N: usize> From<[T; N]> for FfiAttribute {
    fn from(values: [T; N]) -> FfiAttribute {
        values.as_slice().into()
    }
}

impl From<FfiScalar> for FfiAttribute {
    fn from(value: FfiScalar) -> FfiAttribute {
        FfiAttribute::Scalar(value)
    }
}

impl From<&str> for FfiAttribute {
    fn from(text: &str) -> FfiAttribute {
        FfiAttribute::String(text.to_owned())
    }
}

impl From<String> for FfiAttribute {
    fn from(text: String) -> FfiAttribute {
        FfiAttribute::String(text)
    }
}

impl From<FfiAttributes> for FfiAttribute {
    fn from(attributes: FfiAttributes) -> FfiAttribute {
        FfiAttribute::Dictionary(attributes)
    }
}

/// A Rust type that an attribute converts to: numbers and `bool`, `String`, vectors of numbers, and
/// [`FfiAttributes`].
///
/// Integers and floats convert between widths if the value stays the same.
pub trait FromFfiAttribute: Sized {
    /// The type in messages.
    const EXPECTED: &'static str;
    /// Returns the value; `None` for an attribute of another kind.
    fn from_attribute(attribute: &FfiAttribute) -> Option<Self>;
}

/// A number that a scalar of another width converts to.
trait FromScalar: Element {
    fn from_scalar(scalar: &FfiScalar) -> Option<Self>;
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl FromScalar for $integer {
            fn from_scalar(scalar: &FfiScalar) -> Option<Self> {
                match scalar.dtype {
                    DType::Bool => None,
                    _ => Self::try_from(scalar.integer()?).ok(),
                }
            }
        }
    )*};
}

macro_rules! from_float {
    ($($float:ty: $convert:expr, $widen:expr;)*) => {$(
        impl FromScalar for $float {
            fn from_scalar(scalar: &FfiScalar) -> Option<Self> {
                let value = scalar.float()?;
                let narrow: $float = $convert(value);
                let wide: f64 = $widen(narrow);
                (wide == value || value.is_nan()).then_some(narrow)
            }
        }
    )*};
}

from_integer!(i8, i16, i32, i64, u8, u16, u32, u64);
from_float! {
    f16: f16::from_f64, f16::to_f64;
    bf16: bf16::from_f64, bf16::to_f64;
    f32: |value| value as f32, f64::from;
    f64: |value: f64| value, |value: f64| value;
}

impl FromScalar for bool {
    fn from_scalar(scalar: &FfiScalar) -> Option<bool> {
        (scalar.dtype == DType::Bool).then(|| scalar.bytes[0] != 0)
    }
}

impl FromScalar for Complex32 {
    fn from_scalar(scalar: &FfiScalar) -> Option<Complex32> {
        exact(scalar)
    }
}

impl FromScalar for Complex64 {
    fn from_scalar(scalar: &FfiScalar) -> Option<Complex64> {
        exact(scalar)
    }
}

/// Returns a scalar of just this dtype.
fn exact<T: Element>(scalar: &FfiScalar) -> Option<T> {
    let bytes = (scalar.dtype == T::DTYPE).then(|| scalar.as_bytes())?;
    let read = T::read(1, |to| {
        to.copy_from_slice(bytes);
        Ok::<(), std::convert::Infallible>(())
    });
    read.ok()?.first().copied()
}

macro_rules! from_attribute {
    ($($number:ty: $name:literal;)*) => {$(
        impl FromFfiAttribute for $number {
            const EXPECTED: &'static str = $name;
            fn from_attribute(attribute: &FfiAttribute) -> Option<Self> {
                match attribute {
                    FfiAttribute::Scalar(scalar) => Self::from_scalar(scalar),
                    _ => None,
                }
            }
        }

        impl FromFfiAttribute for Vec<$number> {
            const EXPECTED: &'static str = concat!("an array of ", $name);
            fn from_attribute(attribute: &FfiAttribute) -> Option<Self> {
                let FfiAttribute::Array { dtype, bytes } = attribute else { return None };
                let scalars = bytes.chunks_exact(dtype.host_bytes().max(1));
                let number = |bytes| {
                    <$number>::from_scalar(&FfiScalar::from_bytes(*dtype, bytes)?)
                };
                scalars.map(number).collect()
            }
        }
    )*};
}

from_attribute! {
    bool: "bool"; i8: "i8"; i16: "i16"; i32: "i32"; i64: "i64"; u8: "u8"; u16: "u16"; u32: "u32";
    u64: "u64"; f16: "f16"; bf16: "bf16"; f32: "f32"; f64: "f64"; Complex32: "c64";
    Complex64: "c128";
}

impl FromFfiAttribute for String {
    const EXPECTED: &'static str = "text";
    fn from_attribute(attribute: &FfiAttribute) -> Option<String> {
        match attribute {
            FfiAttribute::String(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromFfiAttribute for FfiAttributes {
    const EXPECTED: &'static str = "a dictionary";
    fn from_attribute(attribute: &FfiAttribute) -> Option<FfiAttributes> {
        match attribute {
            FfiAttribute::Dictionary(attributes) => Some(attributes.clone()),
            _ => None,
        }
    }
}
