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

/// `HloComputationProto`.
#[derive(Clone, PartialEq, Message)]
struct Computation {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<RawInstruction>,
}

/// `HloInstructionProto`.
#[derive(Clone, PartialEq, Message)]
struct RawInstruction {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    opcode: String,
    #[prost(message, optional, tag = "3")]
    shape: Option<Shape>,
}

/// An operation of an optimized program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its name, unique in its computation: `all-reduce.3`.
    pub name: String,
    /// What it does, by XLA's name: `all-reduce`, `fusion`.
    pub opcode: String,
    /// The size of each array of its result, in bytes; those of tuples one after the other.
    pub bytes: Vec<usize>,
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
    /// Reads a compiled program in the form in which a plugin returns it; `operation` is what it is read for.
    pub(crate) fn from_optimized(
        operation: &'static str,
        code: &[u8],
        format: &str,
    ) -> Result<Module> {
        let undecodable = |error: prost::DecodeError| {
            Error::invalid(operation, format!("the compiled program cannot be decoded: {error}"))
        };
        match format {
            "hlo" => Module::decode(code).map_err(undecodable),
            "hlo_with_config" => {
                let module = ModuleWithConfig::decode(code).map_err(undecodable)?;
                Ok(module.hlo_module.unwrap_or_default())
            }
            other => {
                let message = format!(
                    "the plugin returns the compiled program in the form {other:?}, which is not known"
                );
                Err(Error::invalid(operation, message))
            }
        }
    }

    /// The operations of all computations.
    pub(crate) fn instructions(self) -> Vec<Instruction> {
        let raw = self.computations.into_iter().flat_map(|computation| computation.instructions);
        let instructions = raw.map(|RawInstruction { name, opcode, shape }| {
            let mut bytes = Vec::new();
            if let Some(shape) = shape {
                shape.bytes_into(&mut bytes);
            }
            Instruction { name, opcode, bytes }
        });
        instructions.collect()
    }

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
    /// Adds the size of the array, or those of a tuple's parts; 0 for what is no array, such as a token.
    fn bytes_into(&self, bytes: &mut Vec<usize>) {
        if self.element_type == TUPLE {
            return self.tuple_shapes.iter().for_each(|part| part.bytes_into(bytes));
        }
        let element = u32::try_from(self.element_type).ok().and_then(ElementType::from_primitive);
        let elements = self
            .dimensions
            .iter()
            .try_fold(1_usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?));
        let bits = element.map_or(0, ElementType::bits);
        bytes.push(elements.and_then(|n| n.checked_mul(bits)).unwrap_or(0).div_ceil(8));
    }

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
