//! The backend below every trace: single operations and whole programs, each compiled once.

use super::compile_scope::CompileScope;
use super::default_device::default_device;
use super::device_buffer::concrete;
use super::eager_collectives;
use super::executable::Executable;
use super::live_arrays::is_tracked;
use super::memory_report::HeldValues;
use super::placement::{committed_placement, is_committed};
use super::recompiles::Recompiles;
use super::scratch::{NonDonatable, Scratch};
use super::transfer::{put, put_on_default_device};
use crate::core::nan_check::{introduced, nan_check, nan_error, not_reproduced_error};
use crate::core::options::{TransferDirection, TransferRequest, check_transfer};
use crate::core::spans::{EventKind, Span};
use crate::core::{
    Array, Aval, Backend, Cache, DeviceId, Error, Loc, Placement, Primitive, Program, catch,
};
use crate::passes::{self, Plan, PlanInput};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

// On the CPU a compiled operation takes 3 memory maps, and a program of a hundred operations 50.
// Linux allows a process 65,530, and XLA ends a process that has no more.
/// Default number of single operations that are cached.
const OPERATIONS: usize = 4096;
/// Default number of whole programs that are cached.
const PROGRAMS: usize = 256;
/// Default number of bytes of machine code that are cached, of operations and of programs.
const MAX_BYTES: u64 = 512 << 20;
/// Number of numbers on the device that are kept for later calls.
const NUMBERS: usize = 1024;

/// The cache key of a single operation.
struct OperationKey {
    primitive: Arc<dyn Primitive>,
    operands: Vec<Aval>,
    placements: OperandPlacements,
}

/// The scope of an eager operation or program, and the placements of its operands.
#[derive(Clone, PartialEq, Eq)]
struct OperandPlacements {
    scope: CompileScope,
    /// The placement that each operand is committed to. Empty if none is committed.
    committed: Vec<Option<Placement>>,
}

impl OperandPlacements {
    fn of<'a>(arrays: impl Iterator<Item = &'a Array> + Clone) -> Result<OperandPlacements, Error> {
        let scope = CompileScope::current()?;
        let committed = if arrays.clone().any(|array| is_committed(concrete(array))) {
            arrays.map(committed_placement).collect()
        } else {
            Vec::new()
        };
        Ok(OperandPlacements { scope, committed })
    }

    /// Returns the plan of a program with such operands.
    fn plan(&self, name: &str, program: &Program) -> Result<Plan, Error> {
        if self.committed.is_empty() && program.mesh().is_none() {
            return Ok(Plan::default());
        }
        let mut inputs = vec![PlanInput::default(); program.inputs().len()];
        for (input, committed) in inputs.iter_mut().zip(&self.committed) {
            input.committed.clone_from(committed);
        }
        Plan::new(name, program, &inputs, &[])
    }
}

/// Size and use of a cache of compiled programs in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Entries in the cache.
    pub entries: usize,
    /// The largest number of entries.
    pub limit: usize,
    /// Bytes of machine code in the cache, as the plugin reports them.
    pub bytes: u64,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that compiled a new entry.
    pub misses: u64,
    /// Entries dropped because the cache was full.
    pub evictions: u64,
}

/// Evaluates operations and programs with the plugin of the process.
pub(crate) struct Evaluator {
    operations: Cache<OperationKey, Executable>,
    programs: Cache<(Program, OperandPlacements), Executable>,
    /// Scalars by default device, type and bytes.
    numbers: Cache<(DeviceId, Aval, Vec<u8>), Array>,
    recompiles: Recompiles,
    operation_lookups: AtomicU64,
    program_lookups: AtomicU64,
}

/// Returns the evaluator of the process.
pub(crate) fn backend() -> &'static dyn Backend {
    evaluator()
}

fn evaluator() -> &'static Evaluator {
    static EVALUATOR: OnceLock<Evaluator> = OnceLock::new();
    EVALUATOR.get_or_init(|| Evaluator {
        operations: Cache::new(OPERATIONS).with_max_bytes(MAX_BYTES, Executable::code_bytes),
        programs: Cache::new(PROGRAMS).with_max_bytes(MAX_BYTES, Executable::code_bytes),
        numbers: Cache::new(NUMBERS),
        recompiles: Recompiles::default(),
        operation_lookups: AtomicU64::new(0),
        program_lookups: AtomicU64::new(0),
    })
}

fn counts<K, V>(cache: &Cache<K, V>, lookups: &AtomicU64) -> CacheCounts {
    let misses = cache.misses();
    CacheCounts {
        entries: cache.len(),
        limit: cache.capacity(),
        bytes: cache.bytes(),
        hits: lookups.load(Ordering::Relaxed).saturating_sub(misses),
        misses,
        evictions: cache.evictions(),
    }
}

/// Returns the counts of the cache of single operations outside of traces.
pub(crate) fn operation_counts() -> CacheCounts {
    counts(&evaluator().operations, &evaluator().operation_lookups)
}

/// Returns the counts of the cache of transformed programs outside of `jit`.
pub(crate) fn program_counts() -> CacheCounts {
    counts(&evaluator().programs, &evaluator().program_lookups)
}

/// Sets the number of operations and of programs that are cached, at least one of each.
pub(crate) fn set_eager_limits(operations: usize, programs: usize) {
    evaluator().operations.set_capacity(operations);
    evaluator().programs.set_capacity(programs);
}

/// Sets the bytes of machine code that are cached, of operations and of programs.
pub(crate) fn set_eager_max_bytes(bytes: u64) {
    evaluator().operations.set_max_bytes(bytes);
    evaluator().programs.set_max_bytes(bytes);
}

impl Backend for Evaluator {
    fn put(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
        let direction = TransferDirection::HostToDevice;
        check_transfer(direction, TransferRequest::Explicit, aval, Loc::UNKNOWN)?;
        put(bytes, aval)
    }

    fn number(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
        let direction = TransferDirection::HostToDevice;
        check_transfer(direction, TransferRequest::Implicit, aval, Loc::UNKNOWN)?;
        let device = default_device()?;
        let mut hasher = FxHasher::default();
        (device, aval, bytes).hash(&mut hasher);
        let slot = self.numbers.get_or_make(
            hasher.finish(),
            |key| key.0 == device && key.1 == *aval && key.2 == bytes,
            || (device, aval.clone(), bytes.to_vec()),
            |_| put_on_default_device(bytes, aval),
        )?;
        Ok(slot.value().clone())
    }

    fn apply(
        &self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        loc: Loc,
    ) -> Result<Vec<Array>, Error> {
        let _span = Span::at(EventKind::Eager, loc, || primitive.name());
        let evaluate = || match (primitive.constant_bytes(), &results[..]) {
            (Some(bytes), [result]) => {
                let direction = TransferDirection::HostToDevice;
                check_transfer(direction, TransferRequest::Implicit, result, loc)?;
                Ok(vec![put_on_default_device(&bytes, result)?])
            }
            _ => self.apply_compiled(primitive, operands, results, loc),
        };
        let outputs = if is_tracked() { loc.scope(evaluate) } else { evaluate() };
        let outputs = outputs.map_err(|error| error.at(loc))?;
        let Some(check) = nan_check() else { return Ok(outputs) };
        let Some(value) = introduced(check, operands, &outputs)? else { return Ok(outputs) };
        // A primitive that holds programs is interpreted, to find the operation inside.
        if let Some(holder) = primitive.as_higher_order() {
            let arguments: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
            catch(|| holder.interpret(&arguments))??;
        }
        Err(nan_error(primitive.name(), &value, operands, loc))
    }

    fn run(&self, program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
        let _span = Span::within(EventKind::Eager, || "staged");
        let placements = OperandPlacements::of(arguments.iter())?;
        self.program_lookups.fetch_add(1, Ordering::Relaxed);
        let executable = self.programs.get_or_make(
            program.structural_hash(),
            |(other, other_placements)| *other_placements == placements && other == program,
            || (program.clone(), placements.clone()),
            |(program, placements)| {
                let loc = program.eqns().first().map_or(Loc::UNKNOWN, |eqn| eqn.loc);
                self.recompiles.note(program, loc);
                let plan = placements.plan("staged", program)?;
                Executable::compile(program, "staged", &plan)
            },
        )?;
        if program.refuses_collectives() {
            eager_collectives::check_program(executable.value(), program)?;
        }
        let evaluate = || execute(executable.value(), arguments.iter(), || program.avals_in());
        let outputs = if is_tracked() {
            let loc = program.eqns().last().map_or(Loc::UNKNOWN, |eqn| eqn.loc);
            Loc::scoped().or(loc).scope(evaluate)
        } else {
            evaluate()
        };
        let outputs = outputs.map_err(|error| with_values(error, executable.value(), program))?;
        locate_nan(program, arguments, &outputs)?;
        Ok(outputs)
    }
}

impl Evaluator {
    /// Applies one operation, compiled once for each type and placement of its operands.
    fn apply_compiled(
        &self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        loc: Loc,
    ) -> Result<Vec<Array>, Error> {
        let mut hasher = FxHasher::default();
        (**primitive).dyn_hash(&mut hasher);
        for operand in operands {
            operand.aval().hash(&mut hasher);
        }
        let placements = OperandPlacements::of(operands.iter().copied())?;
        self.operation_lookups.fetch_add(1, Ordering::Relaxed);
        let matches = |key: &OperationKey| {
            key.placements == placements
                && *key.primitive == **primitive
                && key.operands.iter().eq(operands.iter().map(|operand| operand.aval()))
        };
        let key = || OperationKey {
            primitive: primitive.clone(),
            operands: operands.iter().map(|operand| operand.aval().clone()).collect(),
            placements: placements.clone(),
        };
        let program = |key: &OperationKey| {
            let primitive = key.primitive.clone();
            Program::of_operation(primitive, key.operands.clone(), results.clone(), loc)
        };
        let operation = self.operations.get_or_make(hasher.finish(), matches, key, |key| {
            let program = program(key);
            self.recompiles.note(&program, loc);
            let plan = key.placements.plan(primitive.name(), &program)?;
            Executable::compile(&program, primitive.name(), &plan)
        })?;
        if loc.refuses_collectives() {
            eager_collectives::check_operation(operation.value(), loc)?;
        }
        let avals = || operands.iter().map(|operand| operand.aval().clone()).collect();
        let outputs = execute(operation.value(), operands.iter().copied(), avals);
        outputs.map_err(|error| {
            let program = program(operation.key());
            with_values(error, operation.value(), &program)
        })
    }
}

/// Adds the largest values of `program` to an error of exhausted memory.
fn with_values(error: Error, executable: &Executable, program: &Program) -> Error {
    match error.is_out_of_memory() {
        true => executable.with_memory_report(error, HeldValues::Program(program, &[])),
        false => error,
    }
}

/// Executes a program whose arguments are not donated.
pub(super) fn execute<'a>(
    executable: &Executable,
    arguments: impl Iterator<Item = &'a Array>,
    avals: impl FnOnce() -> Vec<Aval>,
) -> Result<Vec<Array>, Error> {
    let mut scratch = Scratch::default();
    scratch.arguments.extend(arguments.map(|argument| concrete(argument).clone()));
    if !executable.are_placed(&scratch) {
        executable.transfer_arguments(&mut scratch, &avals())?;
    }
    executable.execute(&mut scratch, NonDonatable::Indices(&[]), |results| results.collect())
}

/// Returns true if results are checked for NaN on this thread.
pub(crate) fn is_nan_checked() -> bool {
    nan_check().is_some()
}

/// Under `nan_check`, finds the operation that produced a NaN: if `outputs` contain one and
/// `arguments` do not, evaluates the program operation by operation.
///
/// # Errors
/// The error that names the operation.
pub(crate) fn locate_nan(
    program: &Program,
    arguments: &[Array],
    outputs: &[Array],
) -> Result<(), Error> {
    let Some(check) = nan_check() else { return Ok(()) };
    let operands: Vec<&Array> = arguments.iter().collect();
    if introduced(check, &operands, outputs)?.is_none() {
        return Ok(());
    }
    catch(|| passes::eval(program, arguments))?;
    Err(not_reproduced_error(program))
}
