//! Types and shardings as JAX names them.

use super::flat::LeafType;
use crate::core::{Aval, DType, NamedSharding};
use crate::parallel::AxisType;
use oxidax_jax_export::{AbstractValue, JaxDType, MeshAxisType, MeshShape, Sharding};

/// Returns JAX's type of a leaf; `None` if the format has no number for its dtype.
pub(super) fn abstract_value(leaf: &LeafType) -> Option<AbstractValue> {
    let sizes = |shape: &[usize]| shape.iter().map(|size| *size as u64).collect::<Vec<_>>();
    Some(match leaf {
        LeafType::Array(Aval { dtype, shape, .. }) => {
            AbstractValue::new(jax_dtype(*dtype)?, sizes(shape))
        }
        LeafType::Float0(shape) => AbstractValue::new(JaxDType::Float0, sizes(shape)),
    })
}

fn jax_dtype(dtype: DType) -> Option<JaxDType> {
    Some(match dtype {
        DType::Bool => JaxDType::Bool,
        DType::I2 | DType::U2 => return None,
        DType::I4 => JaxDType::Int4,
        DType::I8 => JaxDType::Int8,
        DType::I16 => JaxDType::Int16,
        DType::I32 => JaxDType::Int32,
        DType::I64 => JaxDType::Int64,
        DType::U4 => JaxDType::Uint4,
        DType::U8 => JaxDType::Uint8,
        DType::U16 => JaxDType::Uint16,
        DType::U32 => JaxDType::Uint32,
        DType::U64 => JaxDType::Uint64,
        DType::F4E2M1FN => JaxDType::Float4E2m1fn,
        DType::F8E3M4 => JaxDType::Float8E3m4,
        DType::F8E4M3 => JaxDType::Float8E4m3,
        DType::F8E4M3B11FNUZ => JaxDType::Float8E4m3b11fnuz,
        DType::F8E4M3FN => JaxDType::Float8E4m3fn,
        DType::F8E4M3FNUZ => JaxDType::Float8E4m3fnuz,
        DType::F8E5M2 => JaxDType::Float8E5m2,
        DType::F8E5M2FNUZ => JaxDType::Float8E5m2fnuz,
        DType::F8E8M0FNU => JaxDType::Float8E8m0fnu,
        DType::BF16 => JaxDType::Bfloat16,
        DType::F16 => JaxDType::Float16,
        DType::F32 => JaxDType::Float32,
        DType::F64 => JaxDType::Float64,
        DType::C64 => JaxDType::Complex64,
        DType::C128 => JaxDType::Complex128,
    })
}

/// Returns JAX's form of a sharding.
pub(super) fn sharding(sharding: &NamedSharding) -> Sharding {
    let mesh = sharding.mesh();
    let axes = mesh.axes().iter().map(|(name, size)| (name.as_str(), *size as u32));
    let mut shape = MeshShape::new(axes);
    for axis in &mut shape.axes {
        if mesh.axis_type(&axis.name) == Some(AxisType::Explicit) {
            axis.kind = MeshAxisType::Explicit;
        }
    }
    Sharding::named(shape, sharding.spec().0.iter().map(|axis| axis.names().to_vec()).collect())
}
