//! Types and shardings as JAX names them.

use super::flat::LeafType;
use crate::core::{Aval, NamedSharding};
use crate::parallel::AxisType;
use oxidax_jax_export::{AbstractValue, JaxDType, MeshAxisType, MeshShape, Sharding};

/// Returns JAX's type of a leaf; `None` if the format has no number for its dtype.
pub(super) fn abstract_value(leaf: &LeafType) -> Option<AbstractValue> {
    let sizes = |shape: &[usize]| shape.iter().map(|size| *size as u64).collect::<Vec<_>>();
    Some(match leaf {
        LeafType::Array(Aval { dtype, shape, .. }) => {
            AbstractValue::new(JaxDType::from_stablehlo(dtype.stablehlo())?, sizes(shape))
        }
        LeafType::Float0(shape) => AbstractValue::new(JaxDType::Float0, sizes(shape)),
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
