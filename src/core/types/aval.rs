//! [`Aval`]: the abstract value of an array, which is its type.

use crate::core::error::{RuleError, RuleResult};
use crate::core::mesh::axis_spec::AxisSpec;
use crate::core::mesh::memory_kind::MemoryKind;
use crate::core::mesh::partition::NamedSharding;
use crate::core::mesh::varying::Varying;
use crate::core::types::dtype::DType;
use crate::core::types::shape::Shape;
use crate::stablehlo::TensorType;
use std::fmt;

/// Arrays have fewer bytes than this, 2^60. Compilers count bytes in 64-bit integers and end the
/// process if a count overflows; the margin is for their intermediate values.
const MAX_BYTES: u128 = 1 << 60;

/// The type of an array: dtype, shape, whether the dtype is weak, the memory it is in, and its
/// sharding over explicit axes of a mesh.
///
/// Prints as `f32[32,784]`. A weak type has the prefix `~`: `~f32[]`. A memory other than the
/// device's follows the dtype: `f32<pinned_host>[32,784]`. Explicit mesh axes follow the size that
/// they shard: `f32[32@data,784]`, or `f32[32@(data,model),784]`. Inside `shard_map` the mesh axes
/// that the array varies over follow: `f32[4,784]{data}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "ShapeDtypeStruct")]
#[doc(alias = "ShapedArray")]
pub struct Aval {
    /// Element type.
    pub dtype: DType,
    /// True if promotion prefers the other operand's dtype, as for Rust scalars.
    pub weak: bool,
    /// Axis sizes.
    pub shape: Shape,
    /// The mesh axes along which devices hold different values. Empty outside of `shard_map`.
    pub varying: Varying,
    /// The memory that the array is in.
    pub memory: MemoryKind,
    /// The sharding over the [explicit](crate::parallel::AxisType::Explicit) axes of a mesh. `None`
    /// if these shard no axis of the array.
    pub sharding: Option<NamedSharding>,
}

impl Aval {
    /// Creates a strongly typed aval.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Aval {
        let (varying, memory) = (Varying::NONE, MemoryKind::Device);
        Aval { dtype, weak: false, shape: shape.into(), varying, memory, sharding: None }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Returns the number of elements.
    pub fn size(&self) -> usize {
        self.shape.size()
    }

    /// Returns the bytes of the elements on a device, where sub-byte types are packed.
    pub fn bytes(&self) -> usize {
        self.size().saturating_mul(self.dtype.bits()).div_ceil(8)
    }

    /// Checks that the array is smaller than [`MAX_BYTES`]. Axes of size 0 do not count, because
    /// compilers multiply the others.
    ///
    /// # Errors
    /// `Shape` with the size. `value` names the array in the message.
    pub(crate) fn check_size(&self, value: &str) -> RuleResult<()> {
        let axes = self.shape.iter().filter(|&&size| size > 0);
        let bits =
            axes.fold(self.dtype.bits() as u128, |bits, &size| bits.saturating_mul(size as u128));
        let bytes = bits.div_ceil(8);
        if bytes < MAX_BYTES {
            return Ok(());
        }
        let takes = match bytes.checked_ilog2() {
            Some(power) if power < 127 => format!("2^{power} bytes or more"),
            _ => "more than 2^126 bytes".to_string(),
        };
        let message = format!("{value} {self} takes {takes}: arrays have less than 2^60 bytes");
        Err(RuleError::shape(message).help("check the sizes for an overflow or a wrong unit"))
    }

    /// Returns this aval with another shape, not sharded over explicit axes.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> Aval {
        let &Aval { dtype, weak, memory, .. } = self;
        let (varying, sharding) = (self.varying.clone(), None);
        Aval { dtype, weak, shape: shape.into(), varying, memory, sharding }
    }

    /// Returns this aval without an axis of its shape.
    pub(crate) fn without_axis(&self, axis: usize) -> Aval {
        let sharding = self.sharding.as_ref().and_then(|sharding| sharding.without_axis(axis));
        Aval { sharding, ..self.with_shape(self.shape.remove(axis)) }
    }

    /// Returns this aval with another, strong dtype.
    pub fn with_dtype(&self, dtype: DType) -> Aval {
        Aval { dtype, weak: false, ..self.clone() }
    }

    /// Returns this aval with a strong dtype.
    pub fn strong(&self) -> Aval {
        Aval { weak: false, ..self.clone() }
    }

    /// Returns this aval, varying over these mesh axes.
    pub fn with_varying(&self, varying: Varying) -> Aval {
        Aval { varying, ..self.clone() }
    }

    /// Returns this aval, in another memory.
    pub fn with_memory(&self, memory: MemoryKind) -> Aval {
        Aval { memory, ..self.clone() }
    }

    /// Returns the type of `count` values of this type along a new first axis, not sharded itself.
    pub(crate) fn stacked(&self, count: usize) -> Aval {
        let sharding = self.sharding.as_ref();
        let sharding = sharding.and_then(|own| own.with_axis_over(0, &AxisSpec::default()).ok());
        Aval { sharding, ..self.with_shape(self.shape.insert(0, count)) }
    }

    /// Returns this aval, sharded over the explicit axes of the mesh as `sharding` states. Its
    /// automatic axes and its memory do not matter.
    pub fn with_sharding(&self, sharding: &NamedSharding) -> Aval {
        Aval { sharding: sharding.explicit_part(), ..self.clone() }
    }

    /// Returns this aval, not sharded over explicit axes.
    pub(crate) fn unsharded(&self) -> Aval {
        Aval { sharding: None, ..self.clone() }
    }

    /// Returns true if dtype, shape and memory are equal. Ignores weakness, varying axes and
    /// sharding.
    pub fn same_type(&self, other: &Aval) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.memory == other.memory
    }

    /// Returns true if dtype, shape, memory and sharding are equal, as those of a loop carry before
    /// and after a step must be.
    pub(crate) fn fits(&self, other: &Aval) -> bool {
        self.same_type(other) && self.sharding == other.sharding
    }

    /// Returns the StableHLO type.
    pub fn stablehlo(&self) -> TensorType {
        TensorType::new(self.dtype.stablehlo(), &self.shape)
    }
}

/// The type of a new array: a shape alone, or a pair of shape and dtype.
///
/// Creation functions and samplers take it. The dtype of a shape alone is JAX's default, which is
/// `f32` unless the function states another. A shape is a list or a tuple of sizes, or one size.
/// An [`Aval`] works too; its weakness and mesh axes are ignored.
///
/// ```
/// use oxidax::prelude::*;
/// let of = |f: fn() -> Array| eval_shape(|(): ()| f(), ()).map(|x| x.aval().to_string());
/// assert_eq!(of(|| zeros([2, 3]))?, "f32[2,3]");
/// assert_eq!(of(|| zeros((2, 3)))?, "f32[2,3]");
/// assert_eq!(of(|| zeros(([2, 3], DType::I32)))?, "i32[2,3]");
/// assert_eq!(of(|| ones((4, DType::BF16)))?, "bf16[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    label = "expected a shape such as `[2, 3]`, or a pair such as `([2, 3], DType::BF16)`"
)]
pub trait IntoAval {
    /// Returns the shape and the dtype, or `default` if there is none.
    fn into_aval(self, default: DType) -> Aval;
}

impl<S: Into<Shape>> IntoAval for S {
    fn into_aval(self, default: DType) -> Aval {
        Aval::new(default, self)
    }
}

impl<S: Into<Shape>> IntoAval for (S, DType) {
    fn into_aval(self, _default: DType) -> Aval {
        Aval::new(self.1, self.0)
    }
}

impl IntoAval for Aval {
    fn into_aval(self, _default: DType) -> Aval {
        Aval::new(self.dtype, self.shape)
    }
}

impl IntoAval for &Aval {
    fn into_aval(self, _default: DType) -> Aval {
        Aval::new(self.dtype, &self.shape)
    }
}

impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weak = if self.weak { "~" } else { "" };
        write!(f, "{weak}{}", self.dtype)?;
        if self.memory.is_host() {
            write!(f, "<{}>", self.memory)?;
        }
        match &self.sharding {
            None => write!(f, "{}", self.shape)?,
            Some(sharding) => {
                let size = |(axis, size): (usize, &usize)| match sharding.spec().along(axis) {
                    [] => size.to_string(),
                    [name] => format!("{size}@{name}"),
                    names => format!("{size}@({})", names.join(",")),
                };
                let sizes: Vec<String> = self.shape.iter().enumerate().map(size).collect();
                write!(f, "[{}]", sizes.join(","))?;
            }
        }
        write!(f, "{}", self.varying)
    }
}
