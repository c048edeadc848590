//! [`DType`]: the element types of StableHLO that PJRT plugins support.
//!
//! The two 6-bit floats of StableHLO are left out: the CPU plugin aborts the process on their
//! constants (measured on C API 0.115).

use serde::{Deserialize, Serialize};
use std::fmt;

/// The element type of an array.
///
/// Prints as in avals: `f32`, `bf16`, `i32`, `bool`, `c64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias = "dtype")]
#[allow(missing_docs, reason = "the names are the documentation: kind and width in bits")]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

use DType::*;

/// One row per dtype: the dtype, its name in avals, its name in StableHLO, bits per element.
const TABLE: [(DType, &str, &str, usize); 28] = [
    (Bool, "bool", "i1", 8),
    (I2, "i2", "i2", 2),
    (I4, "i4", "i4", 4),
    (I8, "i8", "i8", 8),
    (I16, "i16", "i16", 16),
    (I32, "i32", "i32", 32),
    (I64, "i64", "i64", 64),
    (U2, "u2", "ui2", 2),
    (U4, "u4", "ui4", 4),
    (U8, "u8", "ui8", 8),
    (U16, "u16", "ui16", 16),
    (U32, "u32", "ui32", 32),
    (U64, "u64", "ui64", 64),
    (F4E2M1FN, "f4_e2m1fn", "f4E2M1FN", 4),
    (F8E3M4, "f8_e3m4", "f8E3M4", 8),
    (F8E4M3, "f8_e4m3", "f8E4M3", 8),
    (F8E4M3B11FNUZ, "f8_e4m3b11fnuz", "f8E4M3B11FNUZ", 8),
    (F8E4M3FN, "f8_e4m3fn", "f8E4M3FN", 8),
    (F8E4M3FNUZ, "f8_e4m3fnuz", "f8E4M3FNUZ", 8),
    (F8E5M2, "f8_e5m2", "f8E5M2", 8),
    (F8E5M2FNUZ, "f8_e5m2fnuz", "f8E5M2FNUZ", 8),
    (F8E8M0FNU, "f8_e8m0fnu", "f8E8M0FNU", 8),
    (BF16, "bf16", "bf16", 16),
    (F16, "f16", "f16", 16),
    (F32, "f32", "f32", 32),
    (F64, "f64", "f64", 64),
    (C64, "c64", "complex<f32>", 64),
    (C128, "c128", "complex<f64>", 128),
];

impl DType {
    /// Returns every dtype in declaration order.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the name used in avals: `f32`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns the StableHLO name: `f32`, `ui8`, `complex<f32>`, `i1` for booleans.
    pub fn stablehlo(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Returns the dtype with this [name](DType::name).
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the dtype with this [StableHLO name](DType::stablehlo).
    pub fn from_stablehlo(element: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.2 == element).map(|row| row.0)
    }

    /// Returns the bits of one element: 4 for `i4`, 8 for `bool`.
    pub fn bits(self) -> usize {
        TABLE[self as usize].3
    }

    /// Returns the bytes of one element on the host, where sub-byte types take a whole byte.
    pub fn host_bytes(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Returns true for signed and unsigned integers, not for `bool`.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// Returns true for signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, I2 | I4 | I8 | I16 | I32 | I64)
    }

    /// Returns true for unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, U2 | U4 | U8 | U16 | U32 | U64)
    }

    /// Returns true for real floats, including those of 4 and 8 bits.
    pub fn is_float(self) -> bool {
        !matches!(self, Bool | C64 | C128) && !self.is_integer()
    }

    /// Returns true for `c64` and `c128`.
    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Returns true for floats and complex numbers, the dtypes with derivatives.
    pub fn is_inexact(self) -> bool {
        self.is_float() || self.is_complex()
    }

    /// Returns true for `bool`.
    pub fn is_bool(self) -> bool {
        self == Bool
    }

    /// Returns true for all dtypes but complex ones. Real dtypes are ordered.
    pub fn is_real(self) -> bool {
        !self.is_complex()
    }

    /// Returns the dtype of the real part: `f32` for `c64`, `f64` for `c128`, else the dtype
    /// itself.
    pub fn real(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            other => other,
        }
    }

    /// Returns the complex dtype with this real part, if there is one.
    pub fn complex(self) -> Option<DType> {
        match self {
            F32 | C64 => Some(C64),
            F64 | C128 => Some(C128),
            _ => None,
        }
    }

    /// Returns the largest finite value of a float dtype.
    pub fn float_max(self) -> f64 {
        match self {
            F4E2M1FN => 6.0,
            F8E3M4 => 15.5,
            F8E4M3 | F8E4M3FNUZ => 240.0,
            F8E4M3B11FNUZ => 30.0,
            F8E4M3FN => 448.0,
            F8E5M2 | F8E5M2FNUZ => 57344.0,
            F8E8M0FNU => 2f64.powi(127),
            BF16 => f64::from(half::bf16::MAX),
            F16 => f64::from(half::f16::MAX),
            F32 | C64 => f64::from(f32::MAX),
            _ => f64::MAX,
        }
    }

    /// Returns the distance from 1 to the next larger value of a float dtype.
    pub fn epsilon(self) -> f64 {
        match self {
            F4E2M1FN => 0.5,
            F8E4M3 | F8E4M3B11FNUZ | F8E4M3FN | F8E4M3FNUZ => 0.125,
            F8E5M2 | F8E5M2FNUZ => 0.25,
            F8E3M4 => 0.0625,
            F8E8M0FNU => 1.0,
            BF16 => f64::from(half::bf16::EPSILON),
            F16 => f64::from(half::f16::EPSILON),
            F32 | C64 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        }
    }

    /// Returns true if the dtype represents infinity.
    pub fn has_infinity(self) -> bool {
        matches!(self, F8E3M4 | F8E4M3 | F8E5M2 | BF16 | F16 | F32 | F64 | C64 | C128)
    }

    /// Returns the smallest and largest value of an integer dtype; `(0, 1)` for `bool`.
    pub fn int_range(self) -> (i128, i128) {
        if self == Bool {
            return (0, 1);
        }
        let bits = self.bits() as u32;
        if self.is_signed() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for DType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        DType::from_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("no dtype is called `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_are_in_enum_order() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, position);
            assert_eq!(DType::from_name(row.1), Some(row.0));
            assert_eq!(DType::from_stablehlo(row.2), Some(row.0));
        }
    }

    #[test]
    fn integer_ranges_match_the_bits() {
        assert_eq!(I4.int_range(), (-8, 7));
        assert_eq!(U8.int_range(), (0, 255));
        assert_eq!(I64.int_range().0, i128::from(i64::MIN));
    }
}
