//! The operations of an optimized program, each as a separate program.
//!
//! XLA's CPU plugin does not report the time of operations. An operation that is compiled apart,
//! without further optimization, has the machine code that it has in the whole program, so its time
//! can be measured.

mod build;
mod lines;
mod memory;
mod work;

use crate::error::{Error, Result};
use crate::executable::Executable;
use crate::hlo;
use crate::hlo_text::SourceLocation;
use crate::hlo_text::proto::{Computation, Instruction, Module};
use crate::program::PjrtProgram;
use crate::types::ArrayType;
use build::{Encoded, Refusal};
use lines::{FoundLines, Lines};
pub use memory::{DeviceMemory, HeldArray};
use oxidax_proto::{DecodeError, Message};
use std::collections::HashMap;

/// An operation of an optimized program: a fusion, a product, a kernel of a loop.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name, unique in the program: `fusion.3`.
    pub name: String,
    /// XLA's name of the opcode.
    pub opcode: String,
    /// The names of its scopes and of the traced operation, if the program has them.
    pub op_name: String,
    /// The source lines, with the share of the work that each has. The shares add up to 1; the list
    /// is empty if no line is known.
    pub sources: Vec<(SourceLocation, f64)>,
    /// True if the compiler recorded no line, and the lines are those of a value that it reads, or
    /// of an operation that uses its result.
    pub is_inferred: bool,
    /// For a matrix product: the number of products, the rows and columns of the result, and the
    /// number of terms of each sum.
    pub product: Option<[u64; 4]>,
    /// The number of runs in one execution of the program. Fractional in branches, which count as
    /// equally frequent; `None` in a loop whose number of steps is not known.
    pub runs: Option<f64>,
    /// Floating-point operations of one run.
    pub flops: f64,
    /// Bytes that one run reads and writes, if no cache holds them.
    pub bytes: f64,
    /// The index of its program in [`Operations::programs`], or the reason why it has none.
    pub program: std::result::Result<usize, &'static str>,
}

/// An operation as a program. Equal operations share one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperationProgram {
    /// A program to be compiled with the option `xla_disable_all_hlo_passes`.
    pub program: PjrtProgram,
    /// The types of its arguments.
    pub parameters: Vec<ArrayType>,
}

/// The operations of a program, and programs that run them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Operations {
    /// In the compiler's order.
    pub operations: Vec<Operation>,
    /// One for each different operation.
    pub programs: Vec<OperationProgram>,
}

impl Executable {
    /// Returns the operations of the optimized program, each with a program that runs it alone.
    ///
    /// Functions and bodies of loops are taken apart; a loop that is compiled as one kernel is one
    /// operation. Operations that only name or select values are left out.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns a program that this version cannot read.
    pub fn operations(&self) -> Result<Operations> {
        const OPERATION: &str = "operations";
        let (code, format) = self.optimized_program()?;
        let undecodable = |error: DecodeError| hlo::undecodable(OPERATION, &error);
        let bytes = hlo::optimized_module(OPERATION, &code, &format)?;
        let module = Module::decode(bytes).map_err(undecodable)?;
        let encoded = Encoded::of(bytes).map_err(undecodable)?;
        let lines = Lines::of(&module);
        let entry = lines.computation(module.entry_computation_id);
        let entry = entry.ok_or_else(|| Error::invalid(OPERATION, "it has no entry"))?;
        let operations = Operations::default();
        let mut found = Found { lines, encoded, by_key: HashMap::new(), operations };
        found.visit(entry, Caller { runs: Some(1.0), lines: &[], depth: 0 })?;
        Ok(found.operations)
    }
}

/// The operations found so far.
struct Found<'a> {
    lines: Lines<'a>,
    encoded: Encoded<'a>,
    /// The indices of programs, by the key of their operations.
    by_key: HashMap<u64, usize>,
    operations: Operations,
}

/// Where a computation is called from.
#[derive(Clone, Copy)]
struct Caller<'a> {
    runs: Option<f64>,
    /// The lines of the call, for operations without their own.
    lines: &'a [(SourceLocation, f64)],
    depth: usize,
}

/// Depth of nested calls at which a program is refused.
const MAX_DEPTH: usize = 64;

impl Found<'_> {
    fn visit(&mut self, computation: &Computation, caller: Caller<'_>) -> Result<()> {
        if caller.depth > MAX_DEPTH {
            return Err(Error::invalid("operations", "the calls are nested too deep"));
        }
        let known = self.lines.of_computation(computation);
        for (instruction, found) in computation.instructions.iter().zip(known) {
            let opcode = instruction.opcode.as_str();
            if work::is_free(opcode) {
                continue;
            }
            let sources = if found.sources.is_empty() { caller.lines } else { &found.sources };
            let called = instruction.called_computation_ids.iter();
            let inner: Vec<&Computation> =
                called.filter_map(|&id| self.lines.computation(id)).collect();
            let runs = match opcode {
                "call" if !work::is_kernel(instruction) => caller.runs,
                "while" => caller.runs.zip(work::known_trips(instruction)).map(|(a, n)| a * n),
                "conditional" => caller.runs.map(|runs| runs / inner.len().max(1) as f64),
                _ => {
                    let found = FoundLines { sources: sources.to_vec(), ..found };
                    self.add(computation, instruction, found, caller.runs);
                    continue;
                }
            };
            let caller = Caller { runs, lines: sources, depth: caller.depth + 1 };
            for computation in inner {
                self.visit(computation, caller)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        computation: &Computation,
        instruction: &Instruction,
        FoundLines { sources, is_inferred }: FoundLines,
        runs: Option<f64>,
    ) {
        let key = self.encoded.key(computation, instruction);
        let program = match self.by_key.get(&key) {
            Some(&index) => Ok(index),
            None => match self.encoded.program(computation, instruction) {
                Ok(program) => {
                    self.operations.programs.push(program);
                    let index = self.operations.programs.len() - 1;
                    self.by_key.insert(key, index);
                    Ok(index)
                }
                Err(Refusal(reason)) => Err(reason),
            },
        };
        let metadata = instruction.metadata.as_ref();
        self.operations.operations.push(Operation {
            name: instruction.name.clone(),
            opcode: instruction.opcode.clone(),
            op_name: metadata.map(|metadata| metadata.op_name.clone()).unwrap_or_default(),
            sources,
            is_inferred,
            product: self.lines.product(computation, instruction),
            runs,
            flops: self.lines.flops(computation, instruction),
            bytes: work::bytes(computation, instruction),
            program,
        });
    }
}
