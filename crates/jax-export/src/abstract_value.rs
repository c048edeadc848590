//! [`AbstractValue`]: dtype, shape and memory of an argument or result.

use crate::dimension::Dimension;
use crate::error::{Error, Result};
use crate::flatbuffer::Table;
use std::fmt;

/// The type of a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AbstractValue {
    /// The type of the elements.
    pub dtype: JaxDType,
    /// The size of each axis.
    pub shape: Vec<Dimension>,
    /// The memory in which it is.
    pub memory: MemorySpace,
}

/// The memory of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// The device's memory.
    #[default]
    Device,
    /// The host's memory.
    Host,
    /// Any memory.
    Any,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of NumPy and of `ml_dtypes`")]
#[non_exhaustive]
pub enum JaxDType {
    Bool,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint4,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
    Bfloat16,
    Complex64,
    Complex128,
    Float8E4m3b11fnuz,
    Float8E4m3fn,
    Float8E4m3fnuz,
    Float8E5m2,
    Float8E5m2fnuz,
    Float8E4m3,
    Float8E3m4,
    Float8E8m0fnu,
    Float4E2m1fn,
    /// The type of tangents of integers, without contents.
    Float0,
    /// Keys of random numbers.
    Key(KeyAlgorithm),
}

/// The algorithm of keys of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// Threefry, JAX's default: two 32-bit numbers.
    Threefry,
    /// Philox, of XLA's generator: four 32-bit numbers.
    Rbg,
    /// As [`Rbg`](KeyAlgorithm::Rbg), with a faster way of splitting keys.
    UnsafeRbg,
}

/// The types by their numbers in the file.
pub(crate) const ELEMENTS: [JaxDType; 30] = {
    use JaxDType as E;
    use KeyAlgorithm as K;
    [
        E::Bool,
        E::Int8,
        E::Int16,
        E::Int32,
        E::Int64,
        E::Uint8,
        E::Uint16,
        E::Uint32,
        E::Uint64,
        E::Float16,
        E::Float32,
        E::Float64,
        E::Complex64,
        E::Complex128,
        E::Bfloat16,
        E::Int4,
        E::Uint4,
        E::Float8E4m3b11fnuz,
        E::Float8E4m3fn,
        E::Float8E4m3fnuz,
        E::Float8E5m2,
        E::Float8E5m2fnuz,
        E::Float0,
        E::Float8E4m3,
        E::Float8E3m4,
        E::Float8E8m0fnu,
        E::Float4E2m1fn,
        E::Key(K::Threefry),
        E::Key(K::Rbg),
        E::Key(K::UnsafeRbg),
    ]
};

impl JaxDType {
    /// Returns NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            JaxDType::Bool => "bool",
            JaxDType::Int4 => "int4",
            JaxDType::Int8 => "int8",
            JaxDType::Int16 => "int16",
            JaxDType::Int32 => "int32",
            JaxDType::Int64 => "int64",
            JaxDType::Uint4 => "uint4",
            JaxDType::Uint8 => "uint8",
            JaxDType::Uint16 => "uint16",
            JaxDType::Uint32 => "uint32",
            JaxDType::Uint64 => "uint64",
            JaxDType::Float16 => "float16",
            JaxDType::Float32 => "float32",
            JaxDType::Float64 => "float64",
            JaxDType::Bfloat16 => "bfloat16",
            JaxDType::Complex64 => "complex64",
            JaxDType::Complex128 => "complex128",
            JaxDType::Float8E4m3b11fnuz => "float8_e4m3b11fnuz",
            JaxDType::Float8E4m3fn => "float8_e4m3fn",
            JaxDType::Float8E4m3fnuz => "float8_e4m3fnuz",
            JaxDType::Float8E5m2 => "float8_e5m2",
            JaxDType::Float8E5m2fnuz => "float8_e5m2fnuz",
            JaxDType::Float8E4m3 => "float8_e4m3",
            JaxDType::Float8E3m4 => "float8_e3m4",
            JaxDType::Float8E8m0fnu => "float8_e8m0fnu",
            JaxDType::Float4E2m1fn => "float4_e2m1fn",
            JaxDType::Float0 => "float0",
            JaxDType::Key(KeyAlgorithm::Threefry) => "key<fry>",
            JaxDType::Key(KeyAlgorithm::Rbg) => "key<rbg>",
            JaxDType::Key(KeyAlgorithm::UnsafeRbg) => "key<urbg>",
        }
    }
}

/// The names of types in StableHLO.
const STABLEHLO: [(JaxDType, &str); 26] = {
    use JaxDType as E;
    [
        (E::Bool, "i1"),
        (E::Int4, "i4"),
        (E::Int8, "i8"),
        (E::Int16, "i16"),
        (E::Int32, "i32"),
        (E::Int64, "i64"),
        (E::Uint4, "ui4"),
        (E::Uint8, "ui8"),
        (E::Uint16, "ui16"),
        (E::Uint32, "ui32"),
        (E::Uint64, "ui64"),
        (E::Float16, "f16"),
        (E::Float32, "f32"),
        (E::Float64, "f64"),
        (E::Bfloat16, "bf16"),
        (E::Complex64, "complex<f32>"),
        (E::Complex128, "complex<f64>"),
        (E::Float8E4m3b11fnuz, "f8E4M3B11FNUZ"),
        (E::Float8E4m3fn, "f8E4M3FN"),
        (E::Float8E4m3fnuz, "f8E4M3FNUZ"),
        (E::Float8E5m2, "f8E5M2"),
        (E::Float8E5m2fnuz, "f8E5M2FNUZ"),
        (E::Float8E4m3, "f8E4M3"),
        (E::Float8E3m4, "f8E3M4"),
        (E::Float8E8m0fnu, "f8E8M0FNU"),
        (E::Float4E2m1fn, "f4E2M1FN"),
    ]
};

impl JaxDType {
    /// Returns the name in StableHLO; `None` for keys and `float0`.
    ///
    /// ```
    /// use oxidax_jax_export::JaxDType;
    /// assert_eq!(JaxDType::Uint8.stablehlo(), Some("ui8"));
    /// assert_eq!(JaxDType::from_stablehlo("ui8"), Some(JaxDType::Uint8));
    /// assert_eq!(JaxDType::Float0.stablehlo(), None);
    /// ```
    pub fn stablehlo(self) -> Option<&'static str> {
        STABLEHLO.iter().find(|(dtype, _)| *dtype == self).map(|(_, name)| *name)
    }

    /// Returns the type with this name in StableHLO; `None` if JAX's format does not have it.
    pub fn from_stablehlo(name: &str) -> Option<JaxDType> {
        STABLEHLO.iter().find(|(_, other)| *other == name).map(|(dtype, _)| *dtype)
    }
}

impl Dimension {
    /// Returns the size, if it is known.
    pub fn known(&self) -> Option<u64> {
        match self {
            Dimension::Known(size) => Some(*size),
            Dimension::Symbolic(_) => None,
        }
    }
}

impl AbstractValue {
    pub(crate) fn read(table: Table<'_>) -> Result<AbstractValue> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        if table.u8(0)? != 0 {
            return fail("it takes or returns a token".to_owned());
        }
        let number = table.u8(2)?;
        let Some(dtype) = ELEMENTS.get(usize::from(number)) else {
            return fail(format!("the dtype {number} is not known"));
        };
        let shape = table.texts(1)?;
        let shape = shape.iter().map(|size| Dimension::parse(size, table.at()));
        let memory = match table.u8(3)? {
            0 | 1 => MemorySpace::Device,
            2 => MemorySpace::Host,
            3 => MemorySpace::Any,
            other => return fail(format!("the memory space {other} is not known")),
        };
        Ok(AbstractValue { dtype: *dtype, shape: shape.collect::<Result<_>>()?, memory })
    }
}

impl fmt::Display for AbstractValue {
    /// Writes JAX's notation: `float32[b,128]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype.name())?;
        for (axis, size) in self.shape.iter().enumerate() {
            if axis > 0 {
                f.write_str(",")?;
            }
            write!(f, "{size}")?;
        }
        f.write_str("]")
    }
}
