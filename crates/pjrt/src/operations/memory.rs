//! [`DeviceMemory`]: the memory of one device while it runs an optimized program.

use super::lines::Lines;
use super::work;
use crate::error::{Error, Result};
use crate::executable::Executable;
use crate::hlo;
use crate::hlo_text::SourceLocation;
use crate::hlo_text::proto::{Computation, Instruction, Module, Shape};
use oxidax_proto::{DecodeError, Message};
use std::collections::HashMap;

/// The memory of one device over an execution, as far as the order of operations determines it.
///
/// The compiler's own plan reuses memory in more ways, and adds space for alignment;
/// [`CompiledMemoryStats`](crate::CompiledMemoryStats) has its totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// The bytes in memory while each operation runs, in the compiler's order. The operations of a
    /// loop occur once. Before them, the bytes of the arguments.
    pub timeline: Vec<u64>,
    /// The arrays in memory at the peak, largest first.
    pub at_peak: Vec<HeldArray>,
}

/// An array in memory at the peak.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldArray {
    /// The type on one device, such as `f32[64,512]`.
    pub array_type: String,
    /// Its bytes.
    pub bytes: u64,
    /// The names of the scopes and of the operation that produces it, or the opcode without them;
    /// `None` for arguments.
    pub produced_by: Option<String>,
    /// The number of the argument.
    pub parameter: Option<usize>,
    /// The line of that operation.
    pub source: Option<SourceLocation>,
}

impl Executable {
    /// Returns the memory of one device over an execution, by the optimized program.
    ///
    /// An array is in memory from the operation that produces it to the last that reads it, and a
    /// result takes the place of an operand of its size that is not read again. Arguments stay
    /// unless the program can take them as donated. The temporary memory of single operations, such
    /// as packed operands of a product, is not known.
    ///
    /// # Errors
    /// Those of [`operations`](Self::operations).
    pub fn device_memory(&self) -> Result<DeviceMemory> {
        const OPERATION: &str = "device memory";
        let (code, format) = self.optimized_program()?;
        let undecodable = |error: DecodeError| hlo::undecodable(OPERATION, &error);
        let bytes = hlo::optimized_module(OPERATION, &code, &format)?;
        let module = Module::decode(bytes).map_err(undecodable)?;
        let entry = module.computations.iter().find(|c| c.id == module.entry_computation_id);
        let entry = entry.ok_or_else(|| Error::invalid(OPERATION, "it has no entry"))?;
        let donated = module.input_output_alias.iter().flat_map(|alias| &alias.entries);
        let donated: Vec<i64> = donated.map(|entry| entry.parameter_number).collect();
        Ok(simulated(&module, entry, &donated))
    }
}

fn simulated(module: &Module, entry: &Computation, donated: &[i64]) -> DeviceMemory {
    let mut simulation = Simulation {
        lines: Lines::of(module),
        live: Vec::new(),
        bytes: 0,
        timeline: Vec::new(),
        peak: 0,
        at_peak: Vec::new(),
    };
    simulation.run(entry, Some(donated), 0);
    simulation.finish()
}

/// Depth of nested calls below which nothing is counted.
const MAX_DEPTH: usize = 64;

/// The memory of the values of a computation, by the indices of its instructions.
struct Storage {
    /// The instructions in whose memory a value is. Empty for constants, and for the parameters of
    /// a called computation, which are values of its caller.
    owners: Vec<Vec<usize>>,
    /// The owners whose memory each instruction is the last to read. Those that nothing reads end
    /// with themselves, and results with none.
    ending: Vec<Vec<usize>>,
}

impl Storage {
    fn of(computation: &Computation, is_entry: bool) -> Storage {
        let instructions = &computation.instructions;
        let index_of: HashMap<i64, usize> =
            instructions.iter().enumerate().map(|(index, other)| (other.id, index)).collect();
        let mut owners: Vec<Vec<usize>> = Vec::with_capacity(instructions.len());
        // The last instruction that reads each owner; `None` for results.
        let mut last_read: Vec<Option<usize>> = (0..instructions.len()).map(Some).collect();
        for (index, instruction) in instructions.iter().enumerate() {
            // Operands come first in a schedule; those of a damaged module are left out.
            let operands =
                instruction.operand_ids.iter().filter_map(|id| index_of.get(id).copied());
            let operands: Vec<usize> = operands.filter(|operand| *operand < index).collect();
            for owner in operands.iter().flat_map(|&operand| &owners[operand]) {
                last_read[*owner] = Some(index);
            }
            let element = usize::try_from(instruction.tuple_index).unwrap_or(usize::MAX);
            owners.push(match (instruction.opcode.as_str(), &operands[..]) {
                ("constant", _) => Vec::new(),
                ("parameter", _) if !is_entry => Vec::new(),
                ("get-tuple-element", &[tuple]) if instructions[tuple].opcode == "tuple" => {
                    let id = instructions[tuple].operand_ids.get(element);
                    let element = id.and_then(|id| index_of.get(id)).filter(|at| **at < index);
                    element.map_or_else(Vec::new, |&element| owners[element].clone())
                }
                (opcode, operands) if names_operands(opcode) => {
                    operands.iter().flat_map(|&operand| owners[operand].clone()).collect()
                }
                _ => vec![index],
            });
        }
        let root = index_of.get(&computation.root_id).map_or(&[][..], |&root| &owners[root][..]);
        root.iter().for_each(|&owner| last_read[owner] = None);
        let mut ending = vec![Vec::new(); instructions.len()];
        for (owner, last) in last_read.into_iter().enumerate() {
            if let (true, Some(last)) = (owners[owner] == [owner], last) {
                ending[last].push(owner);
            }
        }
        Storage { owners, ending }
    }

    fn owns(&self, index: usize) -> bool {
        self.owners[index] == [index]
    }
}

/// Returns true for an operation whose result is in the memory of its operands.
fn names_operands(opcode: &str) -> bool {
    (work::is_free(opcode) && opcode != "parameter")
        || opcode == "while"
        || opcode.ends_with("-done")
        || opcode.ends_with("-update")
}

/// Runs an optimized program without its arithmetic.
struct Simulation<'a> {
    lines: Lines<'a>,
    /// The values that have memory: computations, and indices of their instructions.
    live: Vec<(&'a Computation, usize)>,
    bytes: u64,
    timeline: Vec<u64>,
    peak: u64,
    at_peak: Vec<(&'a Computation, usize)>,
}

impl<'a> Simulation<'a> {
    /// Runs a computation. `donated` has the numbers of the entry's donated parameters; it is
    /// `None` for other computations.
    fn run(&mut self, computation: &'a Computation, donated: Option<&[i64]>, depth: usize) {
        let instructions = &computation.instructions;
        let storage = Storage::of(computation, donated.is_some());
        let of_caller = (self.bytes, self.live.len());
        if donated.is_some() {
            let is_argument = |index: &usize| instructions[*index].opcode == "parameter";
            (0..instructions.len()).filter(is_argument).for_each(|at| self.add(computation, at));
            self.record();
        }
        let may_end = |index: usize| {
            let instruction = &instructions[index];
            let stays = |donated: &[i64]| !donated.contains(&instruction.parameter_number);
            !(instruction.opcode == "parameter" && donated.is_some_and(stays))
        };
        for (index, instruction) in instructions.iter().enumerate() {
            if work::is_free(&instruction.opcode) {
                continue;
            }
            let is_composed =
                matches!(instruction.opcode.as_str(), "call" | "while" | "conditional");
            if is_composed && !work::is_kernel(instruction) && depth < MAX_DEPTH {
                let called = instruction.called_computation_ids.iter();
                let called: Vec<&Computation> =
                    called.filter_map(|&id| self.lines.computation(id)).collect();
                called.into_iter().for_each(|inner| self.run(inner, None, depth + 1));
            }
            let ended = storage.ending[index].iter().copied();
            let mut ended: Vec<usize> = ended.filter(|&owner| may_end(owner)).collect();
            if storage.owns(index) {
                let size = bytes_of(instruction);
                let lends =
                    |&owner: &usize| owner != index && bytes_of(&instructions[owner]) == size;
                if let Some(lender) = ended.iter().position(lends) {
                    self.remove(computation, ended.remove(lender));
                }
                self.add(computation, index);
            }
            self.record();
            ended.into_iter().for_each(|owner| self.remove(computation, owner));
        }
        if donated.is_none() {
            // The result is counted as that of the call.
            self.live.truncate(of_caller.1);
            self.bytes = of_caller.0;
        }
    }

    fn add(&mut self, computation: &'a Computation, index: usize) {
        self.live.push((computation, index));
        self.bytes = self.bytes.saturating_add(bytes_of(&computation.instructions[index]));
    }

    fn remove(&mut self, computation: &'a Computation, index: usize) {
        let is_same =
            |&(other, at): &(&Computation, usize)| std::ptr::eq(other, computation) && at == index;
        if let Some(at) = self.live.iter().rposition(is_same) {
            self.live.remove(at);
            self.bytes -= bytes_of(&computation.instructions[index]);
        }
    }

    fn record(&mut self) {
        self.timeline.push(self.bytes);
        if self.bytes > self.peak {
            self.peak = self.bytes;
            self.at_peak.clone_from(&self.live);
        }
    }

    fn finish(self) -> DeviceMemory {
        let mut known = HashMap::new();
        let mut at_peak = Vec::new();
        for &(computation, index) in &self.at_peak {
            let instruction = &computation.instructions[index];
            let is_argument = instruction.opcode == "parameter";
            let parameter = usize::try_from(instruction.parameter_number).ok();
            let lines = known
                .entry(computation.id)
                .or_insert_with(|| self.lines.of_computation(computation));
            let sources = lines[index].sources.iter();
            let source = sources.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at.clone());
            let name = instruction.metadata.as_ref().map(|metadata| metadata.op_name.as_str());
            let name = name.filter(|name| !name.is_empty()).unwrap_or(&instruction.opcode);
            for shape in instruction.shape.iter().flat_map(leaves) {
                at_peak.push(HeldArray {
                    array_type: work::array_type(shape),
                    bytes: work::shape_bytes(shape) as u64,
                    parameter: parameter.filter(|_| is_argument),
                    produced_by: (!is_argument).then(|| name.to_owned()),
                    source: source.clone().filter(|_| !is_argument),
                });
            }
        }
        at_peak.sort_by_key(|array| std::cmp::Reverse(array.bytes));
        DeviceMemory { timeline: self.timeline, at_peak }
    }
}

fn bytes_of(instruction: &Instruction) -> u64 {
    instruction.shape.as_ref().map_or(0.0, work::shape_bytes) as u64
}

/// Returns the arrays of a shape.
fn leaves(shape: &Shape) -> Vec<&Shape> {
    match shape.element_type {
        work::TUPLE => shape.tuple_shapes.iter().flat_map(leaves).collect(),
        _ => vec![shape],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo_text::proto::Metadata;

    fn array(name: &str, id: i64, opcode: &str, operands: &[i64], kilobytes: i64) -> Instruction {
        const F32: i32 = 11;
        let shape =
            Shape { element_type: F32, dimensions: vec![256 * kilobytes], ..Default::default() };
        let metadata = Metadata { op_name: format!("f/{name}"), ..Default::default() };
        Instruction {
            name: name.into(),
            opcode: opcode.into(),
            shape: Some(shape),
            metadata: Some(metadata),
            id,
            operand_ids: operands.to_vec(),
            ..Default::default()
        }
    }

    fn simulate(instructions: Vec<Instruction>, donated: &[i64]) -> (Vec<u64>, Vec<String>) {
        let root_id = instructions.last().expect("a result").id;
        let main = Computation { name: "main".into(), instructions, id: 1, root_id };
        let module =
            Module { computations: vec![main], entry_computation_id: 1, ..Default::default() };
        let memory = simulated(&module, &module.computations[0], donated);
        let name = |array: HeldArray| array.produced_by.unwrap_or_else(|| "argument".into());
        let timeline = memory.timeline.iter().map(|bytes| bytes / 1024).collect();
        (timeline, memory.at_peak.into_iter().map(name).collect())
    }

    #[test]
    fn results_take_the_place_of_operands_that_end() {
        let program = || {
            vec![
                array("x", 1, "parameter", &[], 4),
                array("double", 2, "dot", &[1], 8),
                array("sine", 3, "fusion", &[2], 8),
                array("sum", 4, "reduce", &[3], 1),
            ]
        };
        // The argument stays; `sine` is written where `double` was.
        let (timeline, at_peak) = simulate(program(), &[]);
        assert_eq!(timeline, [4, 12, 12, 13]);
        assert_eq!(at_peak, ["f/sine", "argument", "f/sum"]);
        // A donated argument ends with its last use.
        let (timeline, _) = simulate(program(), &[0]);
        assert_eq!(timeline, [4, 12, 8, 9]);
    }

    #[test]
    fn names_of_values_keep_them_in_memory() {
        let program = vec![
            array("x", 1, "parameter", &[], 1),
            array("big", 2, "dot", &[1], 10),
            array("pair", 3, "tuple", &[1, 2], 0),
            array("other", 4, "dot", &[1], 2),
            Instruction { tuple_index: 1, ..array("second", 5, "get-tuple-element", &[3], 10) },
            array("end", 6, "reduce", &[5], 1),
            array("after", 7, "reduce", &[4], 1),
        ];
        let (timeline, at_peak) = simulate(program, &[]);
        // `big` is read through `second`; `other` lasts longer. `end` is never read.
        assert_eq!(timeline, [1, 11, 13, 14, 4]);
        assert_eq!(at_peak, ["f/big", "f/other", "argument", "f/end"]);
    }
}
