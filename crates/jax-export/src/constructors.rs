//! Constructors of what a program writes.

use crate::abstract_value::{AbstractValue, JaxDType, MemorySpace};
use crate::dimension::Dimension;
use crate::exported::Exported;
use crate::sharding::{MeshAxis, MeshAxisType, MeshShape, Sharding};
use crate::tree::PyTreeDef;

/// The version of the calling convention that JAX has from 0.4.31 to 0.10.2.
const CALLING_CONVENTION: u16 = 9;

impl Exported {
    /// Creates a function without arguments and results for one device, that its module computes: a
    /// StableHLO portable artifact. The fields state the rest.
    pub fn new(name: impl Into<String>, module: Vec<u8>) -> Exported {
        let no_arguments = vec![PyTreeDef::Tuple(Vec::new()), PyTreeDef::Dict(Vec::new())];
        Exported {
            version: 2,
            name: name.into(),
            input_tree: PyTreeDef::Tuple(no_arguments),
            inputs: Vec::new(),
            output_tree: PyTreeDef::Tuple(Vec::new()),
            outputs: Vec::new(),
            devices: 1,
            input_shardings: Vec::new(),
            output_shardings: Vec::new(),
            platforms: vec!["cpu".to_owned()],
            ordered_effects: Vec::new(),
            unordered_effects: Vec::new(),
            disabled_checks: Vec::new(),
            calling_convention: CALLING_CONVENTION,
            used_inputs: Vec::new(),
            uses_global_constants: false,
            module,
            vjp: None,
        }
    }
}

impl AbstractValue {
    /// Creates the type of an array in the device's memory.
    ///
    /// ```
    /// use oxidax_jax_export::{AbstractValue, JaxDType};
    /// let batch = AbstractValue::new(JaxDType::Bfloat16, [8, 128]);
    /// assert_eq!(batch.to_string(), "bfloat16[8,128]");
    /// ```
    pub fn new(dtype: JaxDType, shape: impl IntoIterator<Item = u64>) -> AbstractValue {
        let shape = shape.into_iter().map(Dimension::Known).collect();
        AbstractValue { dtype, shape, memory: MemorySpace::Device }
    }
}

impl MeshShape {
    /// Creates a mesh of axes along which the compiler splits arrays.
    pub fn new<'a>(axes: impl IntoIterator<Item = (&'a str, u32)>) -> MeshShape {
        let axis = |(name, size): (&str, u32)| MeshAxis {
            name: name.to_owned(),
            size,
            kind: MeshAxisType::Auto,
        };
        MeshShape { axes: axes.into_iter().map(axis).collect(), device: None }
    }
}

impl Sharding {
    /// Creates a sharding over a mesh: the axes of the mesh over which each axis of the array is
    /// split.
    pub fn named(mesh: MeshShape, spec: Vec<Vec<String>>) -> Sharding {
        Sharding::Named {
            mesh,
            spec,
            unreduced: Vec::new(),
            reduced: Vec::new(),
            memory_kind: None,
        }
    }
}
