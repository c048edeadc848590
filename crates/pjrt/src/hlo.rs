//! The parts of XLA's `HloModuleProto` that are read here, with field numbers as in `hlo.proto` and `xla_data.proto`.

use prost::Message;
use std::collections::HashMap;

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
    #[prost(int64, tag = "6")]
    entry_computation_id: i64,
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
    #[prost(int64, tag = "5")]
    id: i64,
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
    #[prost(int64, repeated, tag = "38")]
    called_computation_ids: Vec<i64>,
    #[prost(bytes = "vec", tag = "43")]
    backend_config: Vec<u8>,
    /// What older compilers write.
    #[prost(message, repeated, tag = "49")]
    replica_groups: Vec<Group>,
    #[prost(message, repeated, tag = "52")]
    source_target_pairs: Vec<Pair>,
    #[prost(message, optional, tag = "87")]
    collective_device_list: Option<DeviceList>,
}

/// `ReplicaGroup`.
#[derive(Clone, PartialEq, Message)]
struct Group {
    #[prost(int64, repeated, tag = "1")]
    replica_ids: Vec<i64>,
}

/// `SourceTarget`.
#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(int64, tag = "1")]
    source: i64,
    #[prost(int64, tag = "2")]
    target: i64,
}

/// `CollectiveDeviceListProto`.
#[derive(Clone, PartialEq, Message)]
struct DeviceList {
    #[prost(message, repeated, tag = "1")]
    replica_groups: Vec<Group>,
    #[prost(message, optional, tag = "2")]
    iota: Option<IotaGroups>,
}

/// `IotaReplicaGroupListProto`: the numbers from 0, reshaped, transposed, and cut into groups.
#[derive(Clone, PartialEq, Message)]
struct IotaGroups {
    #[prost(int64, tag = "1")]
    num_replica_groups: i64,
    #[prost(int64, tag = "2")]
    num_devices_per_group: i64,
    #[prost(int64, repeated, tag = "3")]
    reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    transpose_perm: Vec<i32>,
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
    /// For operations between devices, which of them exchange with each other; empty: all of them.
    pub groups: Vec<Vec<usize>>,
    /// For permutations between devices, from whom to whom.
    pub pairs: Vec<(usize, usize)>,
    /// How often it runs; `None` in a loop of which the compiler does not say how often it does.
    pub runs: Option<u64>,
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
        let runs = self.runs();
        let raw = self.computations.into_iter().flat_map(|computation| {
            let runs = runs.get(&computation.id).copied().flatten();
            computation.instructions.into_iter().map(move |raw| raw.read(runs))
        });
        raw.collect()
    }

    /// How often each computation runs, by its id, as far as the compiler says how often loops do.
    fn runs(&self) -> HashMap<i64, Option<u64>> {
        let by_id: HashMap<i64, &Computation> =
            self.computations.iter().map(|computation| (computation.id, computation)).collect();
        let mut runs: HashMap<i64, Option<u64>> = by_id
            .keys()
            .map(|&id| (id, Some(u64::from(id == self.entry_computation_id))))
            .collect();
        // Computations stand behind those that they call.
        for computation in self.computations.iter().rev() {
            let own = runs[&computation.id];
            for raw in &computation.instructions {
                let times = if raw.opcode == "while" { raw.known_trips() } else { Some(1) };
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

impl RawInstruction {
    fn read(self, runs: Option<u64>) -> Instruction {
        let mut bytes = Vec::new();
        if let Some(shape) = &self.shape {
            shape.bytes_into(&mut bytes);
        }
        let index = |id: i64| usize::try_from(id).unwrap_or_default();
        let list = self.collective_device_list.unwrap_or_default();
        let groups = match list.iota {
            Some(iota) => iota.groups(),
            None if list.replica_groups.is_empty() => explicit(&self.replica_groups),
            None => explicit(&list.replica_groups),
        };
        let pairs = self.source_target_pairs.iter();
        let pairs = pairs.map(|pair| (index(pair.source), index(pair.target))).collect();
        Instruction { name: self.name, opcode: self.opcode, bytes, groups, pairs, runs }
    }

    /// How often a loop's body runs, where the compiler found out: it writes `"known_trip_count":{"n":"10"}`.
    fn known_trips(&self) -> Option<u64> {
        let config = std::str::from_utf8(&self.backend_config).ok()?;
        let (_, rest) = config.split_once("\"known_trip_count\"")?;
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    }
}

fn explicit(groups: &[Group]) -> Vec<Vec<usize>> {
    let index = |&id: &i64| usize::try_from(id).unwrap_or_default();
    groups.iter().map(|group| group.replica_ids.iter().map(index).collect()).collect()
}

impl IotaGroups {
    /// The groups written out; none if the numbers do not fit together.
    fn groups(&self) -> Vec<Vec<usize>> {
        let sizes: Option<Vec<usize>> =
            self.reshape_dims.iter().map(|&size| usize::try_from(size).ok()).collect();
        let Some(sizes) = sizes else { return Vec::new() };
        let identity: Vec<usize> = (0..sizes.len()).collect();
        let given = self.transpose_perm.iter().filter_map(|&axis| usize::try_from(axis).ok());
        let order: Vec<usize> =
            if self.transpose_perm.is_empty() { identity } else { given.collect() };
        let total = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size));
        let each = usize::try_from(self.num_devices_per_group).unwrap_or(0);
        let fits = order.len() == sizes.len() && order.iter().all(|&axis| axis < sizes.len());
        let Some(total) = total.filter(|&n| fits && each > 0 && n <= MOST_DEVICES) else {
            return Vec::new();
        };
        let strides: Vec<usize> =
            (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product()).collect();
        let number = |mut at: usize| {
            let mut number = 0;
            for &axis in order.iter().rev() {
                number += at % sizes[axis] * strides[axis];
                at /= sizes[axis];
            }
            number
        };
        let numbers: Vec<usize> = (0..total).map(number).collect();
        numbers.chunks(each).map(<[usize]>::to_vec).collect()
    }
}

/// More than any machine has, so that damaged bytes ask for no more memory than there is.
const MOST_DEVICES: usize = 1 << 20;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_written_as_numbers_that_are_transposed() {
        let iota = |groups: i64, each: i64, dims: &[i64], perm: &[i32]| IotaGroups {
            num_replica_groups: groups,
            num_devices_per_group: each,
            reshape_dims: dims.into(),
            transpose_perm: perm.into(),
        };
        assert_eq!(iota(2, 2, &[4], &[]).groups(), [[0, 1], [2, 3]]);
        assert_eq!(iota(2, 2, &[2, 2], &[1, 0]).groups(), [[0, 2], [1, 3]]);
        let strided = iota(4, 2, &[2, 2, 2], &[0, 2, 1]).groups();
        assert_eq!(strided, [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert!(iota(2, 2, &[2, -2], &[]).groups().is_empty());
        assert!(iota(2, 0, &[4], &[]).groups().is_empty());
        assert!(iota(2, 2, &[1 << 40], &[]).groups().is_empty());
    }

    #[test]
    fn what_a_loop_holds_runs_as_often_as_it_does() {
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
