//! The backend below every trace: eager operations and whole programs, compiled once each.

use super::buffer::concrete;
use super::executable::{Executable, Kept, Scratch};
use super::home::{Lies, default_device};
use super::plan::{Plan, Wishes};
use super::put::{put, put_default};
use crate::core::nan_check::{introduced, nan_check, nan_error, not_reproduced_error};
use crate::core::{Array, Aval, Backend, Cache, Eqn, Error, Loc, Primitive, Program, catch};
use crate::passes;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How many single operations, and how many whole programs, are kept compiled unless somebody says otherwise.
const OPERATIONS: usize = 4096;
const PROGRAMS: usize = 1024;

struct OperationKey {
    primitive: Arc<dyn Primitive>,
    operands: Vec<Aval>,
    where_to: Where,
}

/// Where the operands of an operation lie.
#[derive(Clone, PartialEq, Eq)]
enum Where {
    /// All on this device, and nobody put them there.
    Default(i32),
    /// Each in its place.
    Each(i32, Vec<Lies>),
}

impl Where {
    /// Of these arrays.
    fn of<'a>(arrays: impl Iterator<Item = &'a Array> + Clone) -> Result<Where, Error> {
        let device = default_device()?;
        let free = |array: &Array| Lies::Anywhere.is_of(concrete(array));
        if arrays.clone().all(free) {
            return Ok(Where::Default(device));
        }
        Ok(Where::Each(device, arrays.map(|array| Lies::of(concrete(array))).collect()))
    }

    /// The plan of a program of such operands.
    fn plan(&self, name: &str, program: &Program) -> Result<Plan, Error> {
        match self {
            Where::Default(device) if program.mesh().is_none() => {
                Ok(Plan::on(*device, program.inputs().len()))
            }
            Where::Default(_) => {
                let lies = vec![Lies::Anywhere; program.inputs().len()];
                Plan::of(name, program, &lies, &Wishes::default())
            }
            Where::Each(_, lies) => Plan::of(name, program, lies, &Wishes::default()),
        }
    }
}

/// Compiled programs in memory: how many there are, and how they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Those that are there now.
    pub entries: usize,
    /// How many there may be.
    pub limit: usize,
    /// Uses of one that was there.
    pub hits: u64,
    /// Times that one had to be made.
    pub misses: u64,
    /// Those that were dropped because there were too many.
    pub evictions: u64,
}

/// Evaluates on the default device.
pub(crate) struct Evaluator {
    operations: Cache<OperationKey, Executable>,
    programs: Cache<(Program, Where), Executable>,
    /// How often the one and the other were asked for something.
    used: [AtomicU64; 2],
}

/// The process's evaluator.
pub(crate) fn evaluator() -> &'static dyn Backend {
    the_evaluator()
}

fn the_evaluator() -> &'static Evaluator {
    static EVALUATOR: OnceLock<Evaluator> = OnceLock::new();
    EVALUATOR.get_or_init(|| Evaluator {
        operations: Cache::new(OPERATIONS),
        programs: Cache::new(PROGRAMS),
        used: [AtomicU64::new(0), AtomicU64::new(0)],
    })
}

/// What is compiled of single operations, and of programs of transforms outside `jit`.
pub(crate) fn eager_counts() -> [Counts; 2] {
    fn counts<K, V>(cache: &Cache<K, V>, used: &AtomicU64) -> Counts {
        let misses = cache.misses();
        Counts {
            entries: cache.len(),
            limit: cache.capacity(),
            hits: used.load(Ordering::Relaxed).saturating_sub(misses),
            misses,
            evictions: cache.evictions(),
        }
    }
    let Evaluator { operations, programs, used } = the_evaluator();
    [counts(operations, &used[0]), counts(programs, &used[1])]
}

/// Sets how many of both are kept, one at least.
pub(crate) fn set_eager_limits(operations: usize, programs: usize) {
    the_evaluator().operations.set_capacity(operations);
    the_evaluator().programs.set_capacity(programs);
}

impl Backend for Evaluator {
    fn put(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
        put(bytes, aval)
    }

    fn apply(
        &self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        loc: Loc,
    ) -> Result<Vec<Array>, Error> {
        let outputs = match (primitive.constant_bytes(), &results[..]) {
            (Some(bytes), [result]) => vec![put_default(&bytes, result)?],
            _ => self.compiled(primitive, operands, results, loc)?,
        };
        let Some(check) = nan_check() else { return Ok(outputs) };
        let Some(value) = introduced(check, operands, &outputs)? else { return Ok(outputs) };
        // If it holds programs, the operation to blame is in there.
        if let Some(holder) = primitive.as_higher_order() {
            let arguments: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
            catch(|| holder.interpret(&arguments))??;
        }
        Err(nan_error(primitive.name(), value, operands, loc))
    }

    fn run(&self, program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
        let where_to = Where::of(arguments.iter())?;
        self.used[1].fetch_add(1, Ordering::Relaxed);
        let executable = self.programs.get_or_make(
            program.structural_hash(),
            |(other, known)| *known == where_to && other == program,
            || (program.clone(), where_to.clone()),
            |(program, known)| {
                let plan = known.plan("staged", program)?;
                Executable::compile(program, "staged", plan)
            },
        )?;
        let outputs = evaluate(executable.value(), arguments.iter(), || program.avals_in())?;
        blame(program, arguments, &outputs)?;
        Ok(outputs)
    }
}

impl Evaluator {
    /// Applies one operation, compiled once for each type of its operands.
    fn compiled(
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
        let where_to = Where::of(operands.iter().copied())?;
        self.used[0].fetch_add(1, Ordering::Relaxed);
        let matches = |key: &OperationKey| {
            key.where_to == where_to
                && *key.primitive == **primitive
                && key.operands.iter().eq(operands.iter().map(|operand| operand.aval()))
        };
        let key = || OperationKey {
            primitive: primitive.clone(),
            operands: operands.iter().map(|operand| operand.aval().clone()).collect(),
            where_to: where_to.clone(),
        };
        let operation = self.operations.get_or_make(hasher.finish(), matches, key, |key| {
            let program = single(key, results, loc);
            let plan = key.where_to.plan(primitive.name(), &program)?;
            Executable::compile(&program, primitive.name(), plan)
        })?;
        let avals = || operands.iter().map(|operand| operand.aval().clone()).collect();
        evaluate(operation.value(), operands.iter().copied(), avals)
    }
}

/// Runs a program that takes no donations.
fn evaluate<'a>(
    executable: &Executable,
    arguments: impl Iterator<Item = &'a Array>,
    avals: impl FnOnce() -> Vec<Aval>,
) -> Result<Vec<Array>, Error> {
    let mut scratch = Scratch::default();
    scratch.arguments.extend(arguments.map(|argument| concrete(argument).clone()));
    let mut lie = scratch.arguments.iter().zip(executable.inputs());
    if !lie.all(|(buffer, home)| home.is_of(buffer)) {
        executable.bring(&mut scratch, &avals())?;
    }
    let outputs = executable.execute(&mut scratch, Kept::These(&[]))?;
    Ok(outputs.collect())
}

/// Whether results are looked at for NaN on this thread.
pub(crate) fn is_watched() -> bool {
    nan_check().is_some()
}

/// Under `nan_check`, finds the operation that made a NaN which the outputs of a program have and its
/// arguments have not, by running it again operation by operation.
///
/// # Errors
/// The operation, if there is one to blame.
pub(crate) fn blame(
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

/// The program of one operation.
fn single(key: &OperationKey, results: Vec<Aval>, loc: Loc) -> Program {
    let n_operands = key.operands.len() as u32;
    let n_all = n_operands + results.len() as u32;
    let avals: Vec<Aval> = key.operands.iter().cloned().chain(results).collect();
    let inputs: Vec<u32> = (0..n_operands).collect();
    let outputs: Vec<u32> = (n_operands..n_all).collect();
    let eqn = Eqn {
        primitive: key.primitive.clone(),
        operands: inputs.iter().copied().collect(),
        results: outputs.iter().copied().collect(),
        loc,
    };
    Program::new(&avals, &inputs, vec![eqn], &outputs)
}
