//! Element types and array types.

use std::fmt;

use oxidax_pjrt_sys as sys;
use smallvec::SmallVec;

use crate::error::{Error, Result};

macro_rules! element_types {
    ($(
        $(#[$doc:meta])*
        $name:ident, $mlir:literal, $bits:literal, $pjrt:ident, $primitive:literal;
    )+) => {
        /// The type of an array's elements.
        ///
        /// Types below eight bits take one byte per element on the host, both in
        /// [`to_host`](crate::UniqueBuffer::to_host) and in
        /// [`buffer_from_host`](crate::Client::buffer_from_host). Signed ones are stored as an
        /// `i8`. Devices pack them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ElementType {
            $($(#[$doc])* $name,)+
        }

        impl ElementType {
            /// Every element type.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the type's name in StableHLO text.
            ///
            /// ```
            /// # use oxidax_pjrt::ElementType;
            /// assert_eq!(ElementType::U8.mlir_name(), "ui8");
            /// ```
            pub fn mlir_name(self) -> &'static str {
                match self { $(Self::$name => $mlir,)+ }
            }

            /// Returns the number of bits of one element without padding; 0 for a token.
            pub fn bits(self) -> usize {
                match self { $(Self::$name => $bits,)+ }
            }

            pub(crate) fn to_raw(self) -> sys::PJRT_Buffer_Type {
                match self { $(Self::$name => sys::$pjrt,)+ }
            }

            pub(crate) fn from_raw(raw: sys::PJRT_Buffer_Type) -> Option<Self> {
                Self::ALL.iter().copied().find(|element| element.to_raw() == raw)
            }

            /// Returns the number in XLA's `PrimitiveType`, which HLO protos and FFI call frames
            /// use.
            pub(crate) fn to_primitive(self) -> u32 {
                match self { $(Self::$name => $primitive,)+ }
            }

            pub(crate) fn from_primitive(raw: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|element| element.to_primitive() == raw)
            }
        }
    };
}

element_types! {
    /// Boolean, one byte: 0 or 1.
    Pred, "i1", 8, PJRT_Buffer_Type_PRED, 1;
    /// Signed integer, 8 bits.
    S8, "i8", 8, PJRT_Buffer_Type_S8, 2;
    /// Signed integer, 16 bits.
    S16, "i16", 16, PJRT_Buffer_Type_S16, 3;
    /// Signed integer, 32 bits.
    S32, "i32", 32, PJRT_Buffer_Type_S32, 4;
    /// Signed integer, 64 bits.
    S64, "i64", 64, PJRT_Buffer_Type_S64, 5;
    /// Unsigned integer, 8 bits.
    U8, "ui8", 8, PJRT_Buffer_Type_U8, 6;
    /// Unsigned integer, 16 bits.
    U16, "ui16", 16, PJRT_Buffer_Type_U16, 7;
    /// Unsigned integer, 32 bits.
    U32, "ui32", 32, PJRT_Buffer_Type_U32, 8;
    /// Unsigned integer, 64 bits.
    U64, "ui64", 64, PJRT_Buffer_Type_U64, 9;
    /// IEEE half precision.
    F16, "f16", 16, PJRT_Buffer_Type_F16, 10;
    /// IEEE single precision.
    F32, "f32", 32, PJRT_Buffer_Type_F32, 11;
    /// IEEE double precision.
    F64, "f64", 64, PJRT_Buffer_Type_F64, 12;
    /// The upper half of a single-precision float.
    Bf16, "bf16", 16, PJRT_Buffer_Type_BF16, 16;
    /// Complex of two `F32`.
    C64, "complex<f32>", 64, PJRT_Buffer_Type_C64, 15;
    /// Complex of two `F64`.
    C128, "complex<f64>", 128, PJRT_Buffer_Type_C128, 18;
    /// 8-bit float: 5 bits of exponent, 2 of mantissa.
    F8E5M2, "f8E5M2", 8, PJRT_Buffer_Type_F8E5M2, 19;
    /// 8-bit float: 4 bits of exponent, 3 of mantissa; no infinities.
    F8E4M3FN, "f8E4M3FN", 8, PJRT_Buffer_Type_F8E4M3FN, 20;
    /// 8-bit float: 4 bits of exponent with bias 11, 3 of mantissa; no infinities, no negative
    /// zero.
    F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, PJRT_Buffer_Type_F8E4M3B11FNUZ, 23;
    /// 8-bit float: 5 bits of exponent, 2 of mantissa; no infinities, no negative zero.
    F8E5M2FNUZ, "f8E5M2FNUZ", 8, PJRT_Buffer_Type_F8E5M2FNUZ, 24;
    /// 8-bit float: 4 bits of exponent, 3 of mantissa; no infinities, no negative zero.
    F8E4M3FNUZ, "f8E4M3FNUZ", 8, PJRT_Buffer_Type_F8E4M3FNUZ, 25;
    /// Signed integer, 4 bits.
    S4, "i4", 4, PJRT_Buffer_Type_S4, 21;
    /// Unsigned integer, 4 bits.
    U4, "ui4", 4, PJRT_Buffer_Type_U4, 22;
    /// No data; a value that orders side effects.
    Token, "token", 0, PJRT_Buffer_Type_TOKEN, 17;
    /// Signed integer, 2 bits.
    S2, "i2", 2, PJRT_Buffer_Type_S2, 26;
    /// Unsigned integer, 2 bits.
    U2, "ui2", 2, PJRT_Buffer_Type_U2, 27;
    /// 8-bit float: 4 bits of exponent, 3 of mantissa, IEEE rules.
    F8E4M3, "f8E4M3", 8, PJRT_Buffer_Type_F8E4M3, 28;
    /// 8-bit float: 3 bits of exponent, 4 of mantissa.
    F8E3M4, "f8E3M4", 8, PJRT_Buffer_Type_F8E3M4, 29;
    /// 8-bit power of two: exponent only.
    F8E8M0FNU, "f8E8M0FNU", 8, PJRT_Buffer_Type_F8E8M0FNU, 33;
    /// 4-bit float: 2 bits of exponent, 1 of mantissa.
    F4E2M1FN, "f4E2M1FN", 4, PJRT_Buffer_Type_F4E2M1FN, 32;
    /// Signed integer, 1 bit.
    S1, "i1s", 1, PJRT_Buffer_Type_S1, 30;
    /// Unsigned integer, 1 bit.
    U1, "ui1", 1, PJRT_Buffer_Type_U1, 31;
    /// 6-bit float: 2 bits of exponent, 3 of mantissa.
    F6E2M3FN, "f6E2M3FN", 6, PJRT_Buffer_Type_F6E2M3FN, 34;
    /// 6-bit float: 3 bits of exponent, 2 of mantissa.
    F6E3M2FN, "f6E3M2FN", 6, PJRT_Buffer_Type_F6E3M2FN, 35;
}

impl ElementType {
    /// Returns the number of bytes of one element on the host: one for every type below eight bits,
    /// 0 for a token.
    ///
    /// ```
    /// # use oxidax_pjrt::ElementType;
    /// assert_eq!(ElementType::S4.host_size(), 1);
    /// assert_eq!(ElementType::C64.host_size(), 8);
    /// ```
    pub fn host_size(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Returns the minor version of the C API that introduced the type, or the oldest supported
    /// version.
    pub(crate) fn first_api_minor(self) -> i32 {
        match self {
            Self::S1 | Self::U1 | Self::F6E2M3FN | Self::F6E3M2FN => 114,
            _ => 0,
        }
    }

    /// Returns true if devices pack several elements into one byte.
    pub fn is_packed(self) -> bool {
        self.bits() < 8 && self != Self::Token
    }
}

impl fmt::Display for ElementType {
    /// Writes XLA's short name of the type: `f32`, `s32`, `pred`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// Sizes of an array's axes. Up to four are stored inline, which covers most arrays.
pub type Dims = SmallVec<[i64; 4]>;

/// Element type and dimensions of an array.
///
/// ```
/// # use oxidax_pjrt::{ArrayType, ElementType};
/// let matrix = ArrayType::new(ElementType::F32, &[4, 8])?;
/// assert_eq!(matrix.to_string(), "f32[4,8]");
/// assert_eq!(matrix.host_bytes(), 128);
/// # Ok::<(), oxidax_pjrt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    element_type: ElementType,
    dims: Dims,
    host_bytes: usize,
}

impl ArrayType {
    /// Creates an array type.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a negative dimension or a size in bytes that does not fit the address
    /// space.
    pub fn new(element_type: ElementType, dims: &[i64]) -> Result<Self> {
        let mut host_bytes = element_type.host_size();
        let mut is_empty = host_bytes == 0;
        for &dim in dims {
            is_empty |= dim == 0;
            let size = usize::try_from(dim).map_err(|_| {
                Error::invalid(
                    "array type",
                    format!("dimensions must not be negative, got {dims:?}"),
                )
            })?;
            host_bytes = host_bytes.saturating_mul(size.max(1));
        }
        let host_bytes = if is_empty { 0 } else { host_bytes };
        if host_bytes > isize::MAX as usize {
            let message =
                format!("{element_type} with dimensions {dims:?} is larger than memory can be");
            return Err(Error::invalid("array type", message));
        }
        Ok(Self { element_type, dims: Dims::from_slice(dims), host_bytes })
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the sizes of the axes.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Returns the number of bytes of the dense array on the host.
    pub fn host_bytes(&self) -> usize {
        self.host_bytes
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element_type)?;
        for (axis, dim) in self.dims.iter().enumerate() {
            write!(f, "{}{dim}", if axis == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_round_trip() {
        for &element in ElementType::ALL {
            assert_eq!(ElementType::from_raw(element.to_raw()), Some(element));
            assert_eq!(ElementType::from_primitive(element.to_primitive()), Some(element));
        }
        assert_eq!(ElementType::from_raw(0), None);
        assert_eq!(ElementType::from_raw(1000), None);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(ArrayType::new(ElementType::F32, &[-1]).is_err());
        assert!(ArrayType::new(ElementType::F32, &[i64::MAX, i64::MAX]).is_err());
        let empty =
            ArrayType::new(ElementType::F32, &[0, i64::MAX]).expect("an empty array has no size");
        assert_eq!(empty.host_bytes(), 0);
        assert_eq!(ArrayType::new(ElementType::S4, &[3]).expect("small").host_bytes(), 3);
    }
}
