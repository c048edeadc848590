//! [`ArrayType`]: dtype, shape and memory of an argument or result.

use crate::dimension::Dimension;
use crate::error::{Error, Result};
use crate::flatbuffer::Table;
use std::fmt;

/// The type of a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ArrayType {
    /// The type of the elements.
    pub element: ElementType,
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
pub enum ElementType {
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
const ELEMENTS: [ElementType; 30] = {
    use ElementType as E;
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

impl ElementType {
    /// Returns NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::Bool => "bool",
            ElementType::Int4 => "int4",
            ElementType::Int8 => "int8",
            ElementType::Int16 => "int16",
            ElementType::Int32 => "int32",
            ElementType::Int64 => "int64",
            ElementType::Uint4 => "uint4",
            ElementType::Uint8 => "uint8",
            ElementType::Uint16 => "uint16",
            ElementType::Uint32 => "uint32",
            ElementType::Uint64 => "uint64",
            ElementType::Float16 => "float16",
            ElementType::Float32 => "float32",
            ElementType::Float64 => "float64",
            ElementType::Bfloat16 => "bfloat16",
            ElementType::Complex64 => "complex64",
            ElementType::Complex128 => "complex128",
            ElementType::Float8E4m3b11fnuz => "float8_e4m3b11fnuz",
            ElementType::Float8E4m3fn => "float8_e4m3fn",
            ElementType::Float8E4m3fnuz => "float8_e4m3fnuz",
            ElementType::Float8E5m2 => "float8_e5m2",
            ElementType::Float8E5m2fnuz => "float8_e5m2fnuz",
            ElementType::Float8E4m3 => "float8_e4m3",
            ElementType::Float8E3m4 => "float8_e3m4",
            ElementType::Float8E8m0fnu => "float8_e8m0fnu",
            ElementType::Float4E2m1fn => "float4_e2m1fn",
            ElementType::Float0 => "float0",
            ElementType::Key(KeyAlgorithm::Threefry) => "key<fry>",
            ElementType::Key(KeyAlgorithm::Rbg) => "key<rbg>",
            ElementType::Key(KeyAlgorithm::UnsafeRbg) => "key<urbg>",
        }
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

impl ArrayType {
    pub(crate) fn read(table: Table<'_>) -> Result<ArrayType> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        if table.u8(0)? != 0 {
            return fail("it takes or returns a token".to_owned());
        }
        let number = table.u8(2)?;
        let Some(element) = ELEMENTS.get(usize::from(number)) else {
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
        Ok(ArrayType { element: *element, shape: shape.collect::<Result<_>>()?, memory })
    }
}

impl fmt::Display for ArrayType {
    /// Writes JAX's notation: `float32[b,128]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element.name())?;
        for (axis, size) in self.shape.iter().enumerate() {
            if axis > 0 {
                f.write_str(",")?;
            }
            write!(f, "{size}")?;
        }
        f.write_str("]")
    }
}
