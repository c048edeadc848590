//! Abstract values: what is known of an array before it has elements.

use crate::core::mesh::varying::Varying;
use crate::core::types::dtype::DType;
use crate::core::types::shape::Shape;
use crate::stablehlo::TensorType;
use std::fmt;

/// The type of an array: dtype, shape, and whether the dtype is weak.
///
/// Prints as `f32[32,784]`, with a `~` in front if it is weakly typed: `~f32[]`, and inside `shard_map` with the axes of
/// the mesh that it varies over behind: `f32[4,784]{data}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "ShapeDtypeStruct")]
#[doc(alias = "ShapedArray")]
pub struct Aval {
    /// Element type.
    pub dtype: DType,
    /// Whether the dtype gives way when it meets another of its category, as a Rust scalar's does.
    pub weak: bool,
    /// Axis sizes.
    pub shape: Shape,
    /// Over which axes of a mesh it differs from device to device; always none outside of `shard_map`.
    pub varying: Varying,
}

impl Aval {
    /// A strongly typed aval.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Aval {
        Aval { dtype, weak: false, shape: shape.into(), varying: Varying::NONE }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape.size()
    }

    /// Bytes that the elements take on a device (sub-byte types packed).
    pub fn bytes(&self) -> usize {
        self.size().saturating_mul(self.dtype.bits()).div_ceil(8)
    }

    /// The same with another shape.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> Aval {
        let varying = self.varying.clone();
        Aval { dtype: self.dtype, weak: self.weak, shape: shape.into(), varying }
    }

    /// The same with another, strong dtype.
    pub fn with_dtype(&self, dtype: DType) -> Aval {
        Aval { dtype, weak: false, ..self.clone() }
    }

    /// The same with a strong dtype.
    pub fn strong(&self) -> Aval {
        Aval { weak: false, ..self.clone() }
    }

    /// The same, varying over these axes.
    pub fn with_varying(&self, varying: Varying) -> Aval {
        Aval { varying, ..self.clone() }
    }

    /// Equal but for weakness and for what they vary over.
    pub fn same_type(&self, other: &Aval) -> bool {
        self.dtype == other.dtype && self.shape == other.shape
    }

    /// The type in StableHLO.
    pub fn stablehlo(&self) -> TensorType {
        TensorType::new(self.dtype.stablehlo(), &self.shape)
    }
}

impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weak = if self.weak { "~" } else { "" };
        write!(f, "{weak}{}{}{}", self.dtype, self.shape, self.varying)
    }
}
