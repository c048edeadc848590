//! [`WeightDType`]: element types of stored weights.

use crate::gguf::GgmlType;
use std::fmt;

/// The element type of a stored tensor.
///
/// ```
/// use oxidax_weights::{GgmlType, WeightDType};
/// assert_eq!(WeightDType::BF16.to_string(), "bf16");
/// assert_eq!(WeightDType::Ggml(GgmlType::Q4_K).byte_len(&[2, 256]), Some(288));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of oxidax's dtypes")]
#[non_exhaustive]
pub enum WeightDType {
    Bool,
    I4,
    I8,
    I16,
    I32,
    I64,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    /// Blocks of quantized numbers, in GGUF files.
    Ggml(GgmlType),
}

use WeightDType::*;

/// Every type that is not quantized, with oxidax's name.
const NAMES: [(WeightDType, &str); 23] = [
    (Bool, "bool"),
    (I4, "i4"),
    (I8, "i8"),
    (I16, "i16"),
    (I32, "i32"),
    (I64, "i64"),
    (U4, "u4"),
    (U8, "u8"),
    (U16, "u16"),
    (U32, "u32"),
    (U64, "u64"),
    (F4E2M1FN, "f4_e2m1fn"),
    (F8E4M3FN, "f8_e4m3fn"),
    (F8E4M3FNUZ, "f8_e4m3fnuz"),
    (F8E5M2, "f8_e5m2"),
    (F8E5M2FNUZ, "f8_e5m2fnuz"),
    (F8E8M0FNU, "f8_e8m0fnu"),
    (F16, "f16"),
    (BF16, "bf16"),
    (F32, "f32"),
    (F64, "f64"),
    (C64, "c64"),
    (C128, "c128"),
];

impl WeightDType {
    /// Returns oxidax's name of the type, or ggml's in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Ggml(kind) => kind.name(),
            _ => NAMES.iter().find(|pair| pair.0 == self).map_or("", |pair| pair.1),
        }
    }

    /// Returns the type with a [`name`](WeightDType::name).
    pub fn from_name(name: &str) -> Option<WeightDType> {
        let plain = NAMES.iter().find(|pair| pair.1 == name).map(|pair| pair.0);
        plain.or_else(|| GgmlType::ALL.into_iter().find(|kind| kind.name() == name).map(Ggml))
    }

    /// Returns the type of a name in NumPy and `ml_dtypes`.
    pub(crate) fn of_numpy(name: &str) -> Option<WeightDType> {
        Some(match name {
            "bool" => Bool,
            "int4" => I4,
            "int8" => I8,
            "int16" => I16,
            "int32" => I32,
            "int64" => I64,
            "uint4" => U4,
            "uint8" => U8,
            "uint16" => U16,
            "uint32" => U32,
            "uint64" => U64,
            "float4_e2m1fn" => F4E2M1FN,
            "float8_e4m3fn" => F8E4M3FN,
            "float8_e4m3fnuz" => F8E4M3FNUZ,
            "float8_e5m2" => F8E5M2,
            "float8_e5m2fnuz" => F8E5M2FNUZ,
            "float8_e8m0fnu" => F8E8M0FNU,
            "float16" => F16,
            "bfloat16" => BF16,
            "float32" => F32,
            "float64" => F64,
            "complex64" => C64,
            "complex128" => C128,
            _ => return None,
        })
    }

    /// Returns the bytes of an element, or `None` for blocks of quantized numbers. Elements of four
    /// bits take a byte.
    pub fn width(self) -> Option<usize> {
        Some(match self {
            Bool | I4 | I8 | U4 | U8 | F4E2M1FN => 1,
            F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | C64 => 8,
            C128 => 16,
            Ggml(_) => return None,
        })
    }

    /// Returns true for real floats, quantized ones included.
    pub fn is_float(self) -> bool {
        !matches!(self, Bool | I4 | I8 | I16 | I32 | I64 | U4 | U8 | U16 | U32 | U64 | C64 | C128)
    }

    /// Returns the number of bytes of a tensor, or `None` if it has more than 2⁶³ bytes, or the
    /// last axis does not consist of whole blocks.
    pub fn byte_len(self, shape: &[usize]) -> Option<u64> {
        // Zero first: a product that overflows is empty if one axis is.
        if shape.contains(&0) {
            return Some(0);
        }
        let elements = shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(u64::try_from(size).ok()?))?;
        let bytes = match self {
            Ggml(kind) => {
                let (block, bytes) = (kind.block_len() as u64, kind.block_bytes() as u64);
                let last = shape.last().map_or(1, |&size| size as u64);
                let blocks = last.is_multiple_of(block).then_some(elements / block)?;
                blocks.checked_mul(bytes)?
            }
            _ => elements.checked_mul(self.width()? as u64)?,
        };
        i64::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Returns the width of the numbers that a byte order applies to.
    pub(crate) fn swap_width(self) -> usize {
        match self {
            C64 => 4,
            C128 => 8,
            _ => self.width().unwrap_or(1),
        }
    }
}

impl fmt::Display for WeightDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_again() {
        let all = NAMES.iter().map(|pair| pair.0).chain(GgmlType::ALL.map(Ggml));
        for dtype in all {
            assert_eq!(WeightDType::from_name(dtype.name()), Some(dtype));
            assert!(dtype.width().is_some() != matches!(dtype, Ggml(_)));
        }
    }

    #[test]
    fn sizes_that_overflow_are_none() {
        assert_eq!(F32.byte_len(&[1 << 31, 1 << 31]), None);
        assert_eq!(F32.byte_len(&[1 << 40, 1 << 40, 0]), Some(0));
        assert_eq!(F32.byte_len(&[]), Some(4));
        assert_eq!(Ggml(GgmlType::Q8_0).byte_len(&[2, 33]), None);
    }
}
