//! The backend below every trace: eager operations and whole programs, compiled once each.

use super::buffer::{concrete, element_type, wrap};
use super::client::{runtime, runtime_error};
use super::executable::{Executable, Kept, Scratch};
use crate::core::callback::refuse_inside;
use crate::core::watch::{made, made_by, not_reproduced, watched};
use crate::core::{Array, Aval, Backend, Cache, Eqn, Error, Loc, Primitive, Program, catch};
use crate::passes;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// How many single operations, and how many whole programs, are kept compiled.
const OPERATIONS: usize = 4096;
const PROGRAMS: usize = 1024;

struct OperationKey {
    primitive: Arc<dyn Primitive>,
    operands: Vec<Aval>,
}

/// Evaluates on the default device.
pub(crate) struct Evaluator {
    operations: Cache<OperationKey, Executable>,
    programs: Cache<Program, Executable>,
}

/// The process's evaluator.
pub(crate) fn evaluator() -> &'static dyn Backend {
    static EVALUATOR: OnceLock<Evaluator> = OnceLock::new();
    EVALUATOR.get_or_init(|| Evaluator {
        operations: Cache::new(OPERATIONS),
        programs: Cache::new(PROGRAMS),
    })
}

impl Backend for Evaluator {
    fn put(&self, bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
        refuse_inside("copying an array to the device")?;
        let runtime = runtime()?;
        let dims: Vec<i64> = aval.shape.iter().map(|&dim| dim as i64).collect();
        let buffer = runtime
            .client
            .buffer_from_host(bytes, element_type(aval.dtype), &dims, &runtime.device)
            .map_err(|error| runtime_error(format!("copying {aval} to the device"), &error))?;
        let buffer = buffer.into_unique().expect("nobody else knows of it yet");
        Ok(wrap(aval.clone(), buffer))
    }

    fn apply(
        &self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        location: Loc,
    ) -> Result<Vec<Array>, Error> {
        let outputs = match (primitive.on_host(), &results[..]) {
            (Some(bytes), [result]) => vec![self.put(&bytes, result)?],
            _ => self.compiled(primitive, operands, results, location)?,
        };
        let Some(watch) = watched() else { return Ok(outputs) };
        let Some(found) = made_by(watch, operands, &outputs)? else { return Ok(outputs) };
        // If it holds programs, the operation to blame is in there.
        if let Some(holder) = primitive.as_higher_order() {
            let arguments: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
            catch(|| holder.interpret(&arguments))??;
        }
        Err(made(primitive.name(), found, operands, location))
    }

    fn run(&self, program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
        let executable = self.programs.get_or_make(
            program.structural_hash(),
            |other| other == program,
            || program.clone(),
            |program| Executable::compile(program, "staged"),
        )?;
        let outputs = evaluate(executable.value(), arguments.iter())?;
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
        location: Loc,
    ) -> Result<Vec<Array>, Error> {
        let mut hasher = FxHasher::default();
        (**primitive).dyn_hash(&mut hasher);
        for operand in operands {
            operand.aval().hash(&mut hasher);
        }
        let matches = |key: &OperationKey| {
            *key.primitive == **primitive
                && key.operands.iter().eq(operands.iter().map(|operand| operand.aval()))
        };
        let key = || OperationKey {
            primitive: primitive.clone(),
            operands: operands.iter().map(|operand| operand.aval().clone()).collect(),
        };
        let operation = self.operations.get_or_make(hasher.finish(), matches, key, |key| {
            let program = single(key, results, location);
            Executable::compile(&program, primitive.name())
        })?;
        evaluate(operation.value(), operands.iter().copied())
    }
}

/// Runs a program that takes no donations.
fn evaluate<'a>(
    executable: &Executable,
    arguments: impl Iterator<Item = &'a Array>,
) -> Result<Vec<Array>, Error> {
    let mut scratch = Scratch::default();
    scratch.arguments.extend(arguments.map(|argument| concrete(argument).clone()));
    let outputs = executable.execute(&mut scratch, Kept::These(&[]))?;
    Ok(outputs.collect())
}

/// Whether results are looked at for NaN on this thread.
pub(crate) fn is_watched() -> bool {
    watched().is_some()
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
    let Some(watch) = watched() else { return Ok(()) };
    let operands: Vec<&Array> = arguments.iter().collect();
    if made_by(watch, &operands, outputs)?.is_none() {
        return Ok(());
    }
    catch(|| passes::eval(program, arguments))?;
    Err(not_reproduced(program))
}

/// The program of one operation.
fn single(key: &OperationKey, results: Vec<Aval>, location: Loc) -> Program {
    let n_operands = key.operands.len() as u32;
    let n_all = n_operands + results.len() as u32;
    let avals: Vec<Aval> = key.operands.iter().cloned().chain(results).collect();
    let inputs: Vec<u32> = (0..n_operands).collect();
    let outputs: Vec<u32> = (n_operands..n_all).collect();
    let eqn = Eqn {
        primitive: key.primitive.clone(),
        operands: inputs.iter().copied().collect(),
        results: outputs.iter().copied().collect(),
        location,
    };
    Program::new(&avals, &inputs, vec![eqn], &outputs)
}
