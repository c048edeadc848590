//! The parts of XLA's `HloModuleProto` that this crate reads, with field numbers from `hlo.proto`
//! and `xla_data.proto`.

use oxidax_proto::{DecodeError, Message, WireValue, messages, raw_fields};
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::groups::{DeviceList, Group, IotaGroups, MeshAxes, explicit};
use crate::types::{ArrayType, ElementType};

/// `xla.PrimitiveType.TUPLE`.
const TUPLE: i32 = 13;

messages! {
    /// `HloModuleProto`.
    pub(crate) struct Module {
        name: String = 1,
        computations: Vec<Computation> = 3,
        entry_computation_id: i64 = 6,
        pub(crate) host_program_shape: Option<ProgramShape> = 4,
    }

    /// `HloComputationProto`.
    struct Computation {
        name: String = 1,
        instructions: Vec<RawInstruction> = 2,
        id: i64 = 5,
    }

    /// `HloInstructionProto`.
    struct RawInstruction {
        name: String = 1,
        opcode: String = 2,
        shape: Option<Shape> = 3,
        called_computation_ids: Vec<i64> = 38,
        backend_config: Vec<u8> = 43,
        /// The encoding that older compilers write.
        replica_groups: Vec<Group> = 49,
        source_target_pairs: Vec<Pair> = 52,
        collective_device_list: Option<DeviceList> = 87,
        /// The encoding that newer compilers write.
        iota_groups: Option<IotaGroups> = 92,
        /// The encoding that newer compilers write for groups along mesh axes.
        mesh_axes: Option<MeshAxes> = 93,
    }

    /// `SourceTarget`.
    struct Pair {
        source: i64 = 1,
        target: i64 = 2,
    }
}

/// An operation of an optimized program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation's name, unique in its computation: `all-reduce.3`.
    pub name: String,
    /// XLA's name of the opcode: `all-reduce`, `fusion`.
    pub opcode: String,
    /// The size of each array of the result, in bytes; arrays in tuples are listed in order.
    pub bytes: Vec<usize>,
    /// For operations between devices, the groups of devices that communicate; empty for a single
    /// group of all devices.
    pub groups: Vec<Vec<usize>>,
    /// For permutations between devices, pairs of source and target.
    pub pairs: Vec<(usize, usize)>,
    /// The number of times that the operation runs; `None` in a loop whose trip count the compiler
    /// does not report.
    pub runs: Option<u64>,
}

messages! {
    /// `ProgramShapeProto`.
    pub(crate) struct ProgramShape {
        pub(crate) parameters: Vec<Shape> = 1,
    }

    /// `ShapeProto`.
    pub(crate) struct Shape {
        element_type: i32 = 2,
        dimensions: Vec<i64> = 3,
        tuple_shapes: Vec<Shape> = 4,
        is_dynamic_dimension: Vec<bool> = 6,
    }
}

/// Returns the encoded `HloModuleProto` of a compiled program in the format in which a plugin
/// returns it. `operation` names the caller's operation in errors.
pub(crate) fn optimized_module<'a>(
    operation: &'static str,
    code: &'a [u8],
    format: &str,
) -> Result<&'a [u8]> {
    match format {
        "hlo" => Ok(code),
        // `HloModuleProtoWithConfig`, whose first field is the module.
        "hlo_with_config" => {
            let fields = raw_fields(code).map_err(|error| undecodable(operation, &error))?;
            Ok(fields
                .iter()
                .rev()
                .find_map(|field| match (field.number, field.value) {
                    (1, WireValue::Bytes(module)) => Some(module),
                    _ => None,
                })
                .unwrap_or_default())
        }
        other => {
            let message = format!(
                "the plugin returns the compiled program in the format {other:?}, which this \
                 version cannot read"
            );
            Err(Error::invalid(operation, message))
        }
    }
}

/// Decodes the parts of a compiled program that `M` declares.
pub(crate) fn decode_optimized<M: Message>(
    operation: &'static str,
    code: &[u8],
    format: &str,
) -> Result<M> {
    let module = optimized_module(operation, code, format)?;
    M::decode(module).map_err(|error| undecodable(operation, &error))
}

/// The error for a compiled program that cannot be decoded.
pub(crate) fn undecodable(operation: &'static str, error: &DecodeError) -> Error {
    Error::invalid(operation, format!("the compiled program cannot be decoded: {error}"))
}

impl Module {
    /// Reads a compiled program in the format in which a plugin returns it. `operation` names the
    /// caller's operation in errors.
    pub(crate) fn from_optimized(
        operation: &'static str,
        code: &[u8],
        format: &str,
    ) -> Result<Module> {
        decode_optimized(operation, code, format)
    }

    /// Returns the operations of all computations.
    pub(crate) fn instructions(self) -> Vec<Instruction> {
        let runs = self.runs();
        let raw = self.computations.into_iter().flat_map(|computation| {
            let runs = runs.get(&computation.id).copied().flatten();
            // On TPUs, a reduce-scatter is a fusion with this name, in which the compiler keeps a
            // full all-reduce.
            let scatters = computation.name.starts_with("all-reduce-scatter");
            let read = move |raw: RawInstruction| {
                let read = raw.read(runs);
                if scatters { read.scattered() } else { read }
            };
            computation.instructions.into_iter().map(read)
        });
        raw.collect()
    }

    /// Returns the number of times that each computation runs, by id; `None` if the compiler does
    /// not report a loop's trip count.
    fn runs(&self) -> HashMap<i64, Option<u64>> {
        let by_id: HashMap<i64, &Computation> =
            self.computations.iter().map(|computation| (computation.id, computation)).collect();
        let mut runs: HashMap<i64, Option<u64>> = by_id
            .keys()
            .map(|&id| (id, Some(u64::from(id == self.entry_computation_id))))
            .collect();
        // Computations follow the computations that they call.
        for computation in self.computations.iter().rev() {
            let own = runs[&computation.id];
            for raw in &computation.instructions {
                let times =
                    if raw.opcode == "while" { known_trips(&raw.backend_config) } else { Some(1) };
                for called in &raw.called_computation_ids {
                    if let Some(sum) = runs.get_mut(called) {
                        let more = own.zip(times).map(|(own, times)| own.saturating_mul(times));
                        *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
                    }
                }
            }
        }
        runs
    }

    /// Returns an error for bytes that decode but are not a module, and for unknown dimensions.
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

impl RawInstruction {
    fn read(self, runs: Option<u64>) -> Instruction {
        let mut bytes = Vec::new();
        if let Some(shape) = &self.shape {
            shape.bytes_into(&mut bytes);
        }
        let index = |id: i64| usize::try_from(id).unwrap_or_default();
        let list = self.collective_device_list.unwrap_or_default();
        let axes = self.mesh_axes.as_ref().and_then(MeshAxes::groups);
        let groups = match self.iota_groups.or(list.iota) {
            _ if axes.is_some() => axes.unwrap_or_default(),
            Some(iota) => iota.groups(),
            None if list.replica_groups.is_empty() => explicit(&self.replica_groups),
            None => explicit(&list.replica_groups),
        };
        let pairs = self.source_target_pairs.iter();
        let pairs = pairs.map(|pair| (index(pair.source), index(pair.target))).collect();
        Instruction { name: self.name, opcode: self.opcode, bytes, groups, pairs, runs }
    }
}

/// Reads a loop's trip count from its backend configuration, if the compiler determined it. The
/// compiler writes `"known_trip_count":{"n":"10"}`.
pub(crate) fn known_trips(backend_config: &[u8]) -> Option<u64> {
    let config = std::str::from_utf8(backend_config).ok()?;
    let (_, rest) = config.split_once("\"known_trip_count\"")?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

impl Instruction {
    /// Converts an all-reduce to the reduce-scatter in which each device keeps its part.
    fn scattered(self) -> Instruction {
        let Some(parts) = self.groups.first().map(Vec::len).filter(|&n| n > 0) else { return self };
        match self.opcode.as_str() {
            "all-reduce" | "all-reduce-start" => Instruction {
                opcode: self.opcode.replace("all-reduce", "reduce-scatter"),
                bytes: self.bytes.iter().map(|bytes| bytes / parts).collect(),
                ..self
            },
            _ => self,
        }
    }
}

impl Shape {
    /// Appends the size of the array, or the sizes of a tuple's elements; 0 for a type that is not
    /// an array, such as a token.
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

    /// Appends the shape, or a tuple's elements, to a list of parameters.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_reduce_inside_a_scatter_fusion_is_a_reduce_scatter() {
        let raw = RawInstruction {
            opcode: "all-reduce".into(),
            replica_groups: vec![Group { replica_ids: vec![0, 1] }],
            ..RawInstruction::default()
        };
        let computation =
            Computation { name: "all-reduce-scatter.1".into(), instructions: vec![raw], id: 1 };
        let module = Module { computations: vec![computation], ..Module::default() };
        assert_eq!(module.instructions()[0].opcode, "reduce-scatter");
    }

    #[test]
    fn operations_in_a_loop_run_once_per_iteration() {
        let raw = |opcode: &str, called: &[i64], config: &str| RawInstruction {
            opcode: opcode.into(),
            called_computation_ids: called.into(),
            backend_config: config.into(),
            ..RawInstruction::default()
        };
        let of = |id, instructions| Computation { id, instructions, ..Computation::default() };
        let known = r#"{"known_trip_count":{"n":"10"}}"#;
        let module = Module {
            computations: vec![
                of(1, vec![raw("all-reduce", &[], "")]),
                of(2, vec![raw("while", &[1], known)]),
                of(3, vec![raw("all-gather", &[], "")]),
                of(4, vec![raw("while", &[2], known), raw("while", &[3], "{}")]),
            ],
            entry_computation_id: 4,
            ..Module::default()
        };
        let runs: Vec<(String, Option<u64>)> =
            module.instructions().into_iter().map(|found| (found.opcode, found.runs)).collect();
        assert_eq!(runs[0], ("all-reduce".into(), Some(100)));
        assert_eq!(runs[2], ("all-gather".into(), None));
    }
}
