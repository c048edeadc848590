//! The parts of XLA's `HloModuleProto` that are read here, with field numbers as in `hlo.proto` and `xla_data.proto`.

use prost::Message;

use crate::error::{Error, Result};
use crate::types::{ArrayType, ElementType};

/// `xla.PrimitiveType.TUPLE`.
const TUPLE: i32 = 13;

/// `HloModuleProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Module {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    computations: Vec<Computation>,
    #[prost(message, optional, tag = "4")]
    pub(crate) host_program_shape: Option<ProgramShape>,
}

/// `HloModuleProtoWithConfig`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModuleWithConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) hlo_module: Option<Module>,
}

/// `HloComputationProto`, of which only the presence is read.
#[derive(Clone, PartialEq, Message)]
struct Computation {
    #[prost(string, tag = "1")]
    name: String,
}

/// `ProgramShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProgramShape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) parameters: Vec<Shape>,
}

/// `ShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(int32, tag = "2")]
    element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    tuple_shapes: Vec<Shape>,
    #[prost(bool, repeated, tag = "6")]
    is_dynamic_dimension: Vec<bool>,
}

impl Module {
    /// Refuses bytes that happen to decode but are no module, and dimensions that are not known.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(shape) =
            self.host_program_shape.as_ref().filter(|_| !self.computations.is_empty())
        else {
            return Err(Error::invalid(
                "program",
                "these bytes are not an HloModuleProto: it has no computation",
            ));
        };
        if shape.parameters.iter().any(|shape| shape.is_dynamic_dimension.contains(&true)) {
            let message = "the module's parameters have dimensions that are not known";
            return Err(Error::invalid("program", message));
        }
        Ok(())
    }
}

impl Shape {
    /// Adds the shape, or a tuple's parts, to a list of parameters.
    pub(crate) fn flatten_into(&self, parameters: &mut Vec<ArrayType>) -> Result<()> {
        if self.element_type == TUPLE {
            return self.tuple_shapes.iter().try_for_each(|part| part.flatten_into(parameters));
        }
        let element = u32::try_from(self.element_type).ok().and_then(ElementType::from_primitive);
        let element = element.ok_or_else(|| {
            let message =
                format!("the compiled program has a parameter of XLA type {}", self.element_type);
            Error::invalid("signature", message)
        })?;
        parameters.push(ArrayType::new(element, &self.dimensions)?);
        Ok(())
    }
}
