//! Programs of single operations, put together from the encoded module.

use super::work::{self, TUPLE};
use super::{OperationProgram, work::known_trips};
use crate::ffi::is_registered;
use crate::hlo_text::proto::{Computation, Instruction, Shape};
use crate::program::PjrtProgram;
use crate::types::{ArrayType, ElementType};
use oxidax_proto::{DecodeError, Field, Message, RawField, WireValue, raw_fields};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fields of `HloInstructionProto`.
mod field {
    pub(super) const NAME: u32 = 1;
    pub(super) const OPCODE: u32 = 2;
    pub(super) const SHAPE: u32 = 3;
    pub(super) const METADATA: u32 = 7;
    pub(super) const PARAMETER_NUMBER: u32 = 9;
    pub(super) const ID: u32 = 35;
    pub(super) const OPERAND_IDS: u32 = 36;
    pub(super) const CONTROL_PREDECESSOR_IDS: u32 = 37;
    pub(super) const CALLED_COMPUTATION_IDS: u32 = 38;
}

/// Fields of `HloComputationProto` and `HloModuleProto`.
mod outer {
    pub(super) const INSTRUCTIONS: u32 = 2;
    pub(super) const PROGRAM_SHAPE: u32 = 4;
    pub(super) const COMPUTATION_ID: u32 = 5;
    pub(super) const ROOT_ID: u32 = 6;
    pub(super) const COMPUTATIONS: u32 = 3;
    pub(super) const ENTRY_NAME: u32 = 2;
    pub(super) const ENTRY_ID: u32 = 6;
}

/// The reason why an operation has no program.
pub(super) struct Refusal(pub(super) &'static str);

/// A computation with the encoding of its instructions, by id.
struct EncodedComputation<'a> {
    fields: Vec<RawField<'a>>,
    instructions: Vec<(i64, &'a [u8])>,
}

/// The encoding of a module's computations, by id.
pub(super) struct Encoded<'a> {
    computations: HashMap<i64, EncodedComputation<'a>>,
    /// Hashes of computations, without names, numbers and source lines.
    hashes: HashMap<i64, u64>,
}

/// Returns the value of the last field with this number.
fn last<'a>(fields: &[RawField<'a>], number: u32) -> Option<WireValue<'a>> {
    fields.iter().rev().find(|field| field.number == number).map(|field| field.value)
}

fn last_int(fields: &[RawField<'_>], number: u32) -> i64 {
    match last(fields, number) {
        Some(WireValue::Varint(value)) => value.cast_signed(),
        _ => 0,
    }
}

/// Returns the encoding of a message without some of its fields.
fn without(bytes: &[u8], numbers: &[u32]) -> Result<Vec<u8>, DecodeError> {
    let fields = raw_fields(bytes)?;
    let kept = fields.iter().filter(|field| !numbers.contains(&field.number));
    Ok(kept.flat_map(|field| field.encoded).copied().collect())
}

fn put_bytes(number: u32, bytes: Vec<u8>, out: &mut Vec<u8>) {
    bytes.put_present(number, out);
}

impl<'a> Encoded<'a> {
    /// Reads an encoded `HloModuleProto`.
    pub(super) fn of(module: &'a [u8]) -> Result<Encoded<'a>, DecodeError> {
        let fields = raw_fields(module)?;
        let mut computations = HashMap::new();
        for field in fields.iter().filter(|field| field.number == outer::COMPUTATIONS) {
            let WireValue::Bytes(bytes) = field.value else { continue };
            let fields = raw_fields(bytes)?;
            let mut instructions = Vec::new();
            for field in fields.iter().filter(|field| field.number == outer::INSTRUCTIONS) {
                if let WireValue::Bytes(bytes) = field.value {
                    instructions.push((last_int(&raw_fields(bytes)?, field::ID), bytes));
                }
            }
            let id = last_int(&fields, outer::COMPUTATION_ID);
            computations.insert(id, EncodedComputation { fields, instructions });
        }
        Ok(Encoded { computations, hashes: HashMap::new() })
    }

    fn instruction(&self, computation: &Computation, id: i64) -> Option<&'a [u8]> {
        let encoded = self.computations.get(&computation.id)?;
        encoded.instructions.iter().find(|(other, _)| *other == id).map(|&(_, bytes)| bytes)
    }

    /// Hashes an instruction without its name, its number, its operands and its lines.
    fn hash_instruction(&mut self, bytes: &[u8], state: &mut DefaultHasher) {
        const LEFT_OUT: [u32; 6] = [
            field::NAME,
            field::METADATA,
            field::ID,
            field::OPERAND_IDS,
            field::CONTROL_PREDECESSOR_IDS,
            field::CALLED_COMPUTATION_IDS,
        ];
        without(bytes, &LEFT_OUT).unwrap_or_default().hash(state);
        let called = Instruction::decode(bytes).unwrap_or_default().called_computation_ids;
        for id in called {
            self.hash_computation(id).hash(state);
        }
    }

    fn hash_computation(&mut self, id: i64) -> u64 {
        if let Some(&hash) = self.hashes.get(&id) {
            return hash;
        }
        // Ends the recursion of a damaged module.
        self.hashes.insert(id, 0);
        let mut state = DefaultHasher::new();
        let encoded = self.computations.get(&id);
        let instructions = encoded.map(|encoded| encoded.instructions.clone()).unwrap_or_default();
        let root = encoded.map(|encoded| last_int(&encoded.fields, outer::ROOT_ID));
        let position = |id: i64| instructions.iter().position(|(other, _)| *other == id);
        for (id, bytes) in &instructions {
            (Some(*id) == root).hash(&mut state);
            for operand in Instruction::decode(bytes).unwrap_or_default().operand_ids {
                position(operand).hash(&mut state);
            }
            self.hash_instruction(bytes, &mut state);
        }
        let hash = state.finish();
        self.hashes.insert(id, hash);
        hash
    }

    /// Returns a number that operations with equal programs share.
    pub(super) fn key(&mut self, computation: &Computation, instruction: &Instruction) -> u64 {
        let mut state = DefaultHasher::new();
        if let Some(bytes) = self.instruction(computation, instruction.id) {
            self.hash_instruction(bytes, &mut state);
        }
        for (index, id) in instruction.operand_ids.iter().enumerate() {
            instruction.operand_ids.iter().position(|other| other == id).hash(&mut state);
            let operand = work::instruction_of(computation, *id);
            match operand.filter(|operand| operand.opcode == "constant") {
                Some(constant) => {
                    if let Some(bytes) = self.instruction(computation, constant.id) {
                        self.hash_instruction(bytes, &mut state);
                    }
                }
                None => {
                    let shape = work::operand_shape(computation, instruction, index);
                    shape.map(Message::encode_to_vec).hash(&mut state);
                }
            }
        }
        state.finish()
    }

    /// Returns the ids of the computations that an instruction calls, each after those that it
    /// calls itself.
    fn closure(&self, instruction: &Instruction, found: &mut Vec<i64>) {
        for &id in &instruction.called_computation_ids {
            let Some(encoded) = self.computations.get(&id).filter(|_| !found.contains(&id)) else {
                continue;
            };
            for (_, bytes) in &encoded.instructions {
                self.closure(&Instruction::decode(bytes).unwrap_or_default(), found);
            }
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }

    /// Returns an error for an operation that cannot run alone.
    fn check(&self, instruction: &Instruction, called: &[i64]) -> Result<(), Refusal> {
        refuse(instruction)?;
        for id in called {
            for (_, bytes) in self.computations.get(id).iter().flat_map(|c| &c.instructions) {
                let inner = Instruction::decode(bytes).unwrap_or_default();
                refuse(&inner)?;
                if inner.opcode == "while" && known_trips(&inner).is_none() {
                    return Err(Refusal("it contains a loop whose number of steps is not known"));
                }
            }
        }
        Ok(())
    }

    /// Returns a program whose result is that of one instruction.
    pub(super) fn program(
        &self,
        computation: &Computation,
        instruction: &Instruction,
    ) -> Result<OperationProgram, Refusal> {
        let damaged = |_: DecodeError| Refusal("it cannot be decoded");
        let mut called = Vec::new();
        self.closure(instruction, &mut called);
        self.check(instruction, &called)?;

        let mut entry = Entry::new(self, computation);
        for &operand in &instruction.operand_ids {
            entry.define(operand, 0)?;
        }
        let bytes = self.instruction(computation, instruction.id);
        let bytes = bytes.ok_or(Refusal("it cannot be decoded"))?;
        let own = [field::METADATA, field::CONTROL_PREDECESSOR_IDS];
        put_bytes(
            outer::INSTRUCTIONS,
            without(bytes, &own).map_err(damaged)?,
            &mut entry.instructions,
        );

        let mut program_shape = Vec::new();
        for shape in &entry.shapes {
            put_bytes(1, shape.clone(), &mut program_shape);
        }
        let result = raw_fields(bytes).map_err(damaged)?;
        if let Some(WireValue::Bytes(shape)) = last(&result, field::SHAPE) {
            put_bytes(2, shape.to_vec(), &mut program_shape);
        }
        for number in 0..entry.shapes.len() {
            format!("p{number}").put_present(3, &mut program_shape);
        }

        const NAME: &str = "operation";
        let entry_id = self.computations.keys().max().copied().unwrap_or(0) + 1;
        let mut main = Vec::new();
        NAME.to_owned().put(1, &mut main);
        main.extend_from_slice(&entry.instructions);
        put_bytes(outer::PROGRAM_SHAPE, program_shape.clone(), &mut main);
        entry_id.put(outer::COMPUTATION_ID, &mut main);
        instruction.id.put(outer::ROOT_ID, &mut main);

        let mut module = Vec::new();
        NAME.to_owned().put(1, &mut module);
        NAME.to_owned().put(outer::ENTRY_NAME, &mut module);
        for id in &called {
            let bytes = self.without_metadata(*id).map_err(damaged)?;
            put_bytes(outer::COMPUTATIONS, bytes, &mut module);
        }
        put_bytes(outer::COMPUTATIONS, main, &mut module);
        put_bytes(outer::PROGRAM_SHAPE, program_shape, &mut module);
        entry_id.put(outer::ENTRY_ID, &mut module);
        let parameters = entry.parameters;
        let program = PjrtProgram::hlo(module).map_err(|_| Refusal("it cannot be decoded"))?;
        Ok(OperationProgram { program, parameters })
    }

    /// Returns the encoding of a computation without source lines, which refer to a table of the
    /// whole module.
    fn without_metadata(&self, id: i64) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::new();
        for raw in self.computations.get(&id).iter().flat_map(|encoded| &encoded.fields) {
            match raw.value {
                WireValue::Bytes(bytes) if raw.number == outer::INSTRUCTIONS => {
                    put_bytes(outer::INSTRUCTIONS, without(bytes, &[field::METADATA])?, &mut out);
                }
                _ => out.extend_from_slice(raw.encoded),
            }
        }
        Ok(out)
    }
}

/// Returns an error for an instruction with effects.
fn refuse(instruction: &Instruction) -> Result<(), Refusal> {
    let opcode = instruction.opcode.as_str();
    let transfers = opcode.starts_with("send")
        || opcode.starts_with("recv")
        || matches!(opcode, "infeed" | "outfeed");
    let calls_host = opcode == "custom-call"
        && (instruction.has_side_effect || is_registered(&instruction.custom_call_target));
    if transfers || calls_host {
        return Err(Refusal("it calls the host"));
    }
    if opcode.ends_with("-start") || opcode.ends_with("-done") || opcode.ends_with("-update") {
        return Err(Refusal("it is part of an asynchronous operation"));
    }
    Ok(())
}

/// The entry computation of a program under construction.
struct Entry<'a> {
    encoded: &'a Encoded<'a>,
    computation: &'a Computation,
    instructions: Vec<u8>,
    defined: Vec<i64>,
    /// The encoded shapes of the parameters.
    shapes: Vec<Vec<u8>>,
    parameters: Vec<ArrayType>,
    /// An id that no instruction has.
    next_id: i64,
}

impl<'a> Entry<'a> {
    fn new(encoded: &'a Encoded<'a>, computation: &'a Computation) -> Entry<'a> {
        let largest = computation.instructions.iter().map(|instruction| instruction.id).max();
        Entry {
            encoded,
            computation,
            instructions: Vec::new(),
            defined: Vec::new(),
            shapes: Vec::new(),
            parameters: Vec::new(),
            next_id: largest.unwrap_or(0) + 1,
        }
    }

    /// Defines an operand: a constant as it is, a tuple by its elements, and any other array as a
    /// parameter.
    fn define(&mut self, id: i64, depth: usize) -> Result<(), Refusal> {
        const NOT_ARRAYS: Refusal = Refusal("its operands are not arrays");
        if self.defined.contains(&id) {
            return Ok(());
        }
        self.defined.push(id);
        let operand = work::instruction_of(self.computation, id).ok_or(NOT_ARRAYS)?;
        let bytes = self.encoded.instruction(self.computation, id).ok_or(NOT_ARRAYS)?;
        let shape = operand.shape.as_ref().ok_or(NOT_ARRAYS)?;
        match operand.opcode.as_str() {
            "constant" => self.copy(bytes),
            "tuple" if depth < 8 => {
                for &element in &operand.operand_ids {
                    self.define(element, depth + 1)?;
                }
                self.copy(bytes)
            }
            _ if shape.element_type == TUPLE => {
                let fields = raw_fields(bytes).map_err(|_| NOT_ARRAYS)?;
                let Some(WireValue::Bytes(encoded)) = last(&fields, field::SHAPE) else {
                    return Err(NOT_ARRAYS);
                };
                let mut elements = Vec::new();
                for (element, bytes) in shape.tuple_shapes.iter().zip(tuple_shapes(encoded)) {
                    let element_id = self.next_id;
                    self.next_id += 1;
                    self.parameter(element_id, element, bytes)?;
                    elements.push(element_id);
                }
                let mut tuple = Vec::new();
                format!("t{id}").put(field::NAME, &mut tuple);
                "tuple".to_owned().put(field::OPCODE, &mut tuple);
                put_bytes(field::SHAPE, encoded.to_vec(), &mut tuple);
                id.put(field::ID, &mut tuple);
                elements.put(field::OPERAND_IDS, &mut tuple);
                put_bytes(outer::INSTRUCTIONS, tuple, &mut self.instructions);
                Ok(())
            }
            _ => {
                let fields = raw_fields(bytes).map_err(|_| NOT_ARRAYS)?;
                let Some(WireValue::Bytes(encoded)) = last(&fields, field::SHAPE) else {
                    return Err(NOT_ARRAYS);
                };
                self.parameter(id, shape, encoded)
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let left_out = [field::METADATA, field::CONTROL_PREDECESSOR_IDS];
        let copied = without(bytes, &left_out).map_err(|_| Refusal("it cannot be decoded"))?;
        put_bytes(outer::INSTRUCTIONS, copied, &mut self.instructions);
        Ok(())
    }

    fn parameter(&mut self, id: i64, shape: &Shape, encoded: &[u8]) -> Result<(), Refusal> {
        let element = u32::try_from(shape.element_type).ok().and_then(ElementType::from_primitive);
        let array = element.and_then(|element| ArrayType::new(element, &shape.dimensions).ok());
        let array = array.ok_or(Refusal("its operands are not arrays"))?;
        let number = self.shapes.len();
        let mut parameter = Vec::new();
        format!("p{number}").put(field::NAME, &mut parameter);
        "parameter".to_owned().put(field::OPCODE, &mut parameter);
        put_bytes(field::SHAPE, encoded.to_vec(), &mut parameter);
        (number as i64).put(field::PARAMETER_NUMBER, &mut parameter);
        id.put(field::ID, &mut parameter);
        put_bytes(outer::INSTRUCTIONS, parameter, &mut self.instructions);
        self.shapes.push(encoded.to_vec());
        self.parameters.push(array);
        Ok(())
    }
}

/// Returns the encoded shapes of a tuple's elements.
fn tuple_shapes(encoded: &[u8]) -> Vec<&[u8]> {
    let fields = raw_fields(encoded).unwrap_or_default();
    let elements = fields.iter().filter(|field| field.number == 4);
    elements
        .filter_map(|field| match field.value {
            WireValue::Bytes(bytes) => Some(bytes),
            _ => None,
        })
        .collect()
}
