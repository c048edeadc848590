//! Runs many small programs as one module, because compilation dominates the time of the laws.

use crate::core::{Array, Error, Loc, Program};
use crate::jit::{block_until_ready, jit};
use crate::passes;

/// Programs and lists of arguments to run them on. Equal programs are compiled once, and all of
/// them as one module.
#[derive(Default)]
pub(super) struct Jobs {
    programs: Vec<QueuedProgram>,
}

/// A program and the lists of arguments to run it on.
struct QueuedProgram {
    program: Program,
    arguments: Vec<Vec<Array>>,
}

/// The handle of one run: indices of the program and of its list of arguments.
#[derive(Clone, Copy)]
pub(super) struct Job {
    program: usize,
    run: usize,
}

/// The results of one program for each of its lists of arguments.
type ProgramResults = Result<Vec<Vec<Array>>, String>;

/// The results of all programs.
pub(super) struct Results(Vec<ProgramResults>);

impl Jobs {
    /// Adds a run of a program on these arguments.
    pub(super) fn add(&mut self, program: &Program, arguments: Vec<Array>) -> Job {
        let existing = self.programs.iter().position(|queued| queued.program == *program);
        let position = existing.unwrap_or_else(|| {
            self.programs.push(QueuedProgram { program: program.clone(), arguments: Vec::new() });
            self.programs.len() - 1
        });
        let queued = &mut self.programs[position].arguments;
        queued.push(arguments);
        Job { program: position, run: queued.len() - 1 }
    }

    /// Runs all programs. A program that cannot be compiled does not affect the others.
    pub(super) fn run(self) -> Results {
        let all: Vec<&QueuedProgram> = self.programs.iter().collect();
        if all.is_empty() {
            return Results(Vec::new());
        }
        Results(match run_as_module(&all) {
            Ok(runs) => runs.into_iter().map(Ok).collect(),
            // Running each program alone shows which one fails.
            Err(_) => all.into_iter().map(run_alone).collect(),
        })
    }
}

/// Runs one program alone.
fn run_alone(queued: &QueuedProgram) -> ProgramResults {
    let runs = run_as_module(&[queued]).map_err(|error| error.to_string())?;
    Ok(runs.into_iter().next().unwrap_or_default())
}

/// Runs programs as one module and returns, for each, the results on each list of arguments. The
/// module is dropped at the end: thousands of them would fill the memory of a process.
fn run_as_module(all: &[&QueuedProgram]) -> Result<Vec<Vec<Vec<Array>>>, Error> {
    let programs: Vec<Program> = all.iter().map(|queued| queued.program.clone()).collect();
    let joined = jit(move |inputs: Vec<Array>| evaluate_all(&programs, &inputs));
    let rounds = all.iter().map(|queued| queued.arguments.len()).max().unwrap_or(0);
    let mut runs = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        // Programs with fewer lists of arguments repeat their last list.
        let of = |queued: &QueuedProgram| {
            queued.arguments[round.min(queued.arguments.len() - 1)].clone()
        };
        let arguments: Vec<Array> = all.iter().flat_map(|queued| of(queued)).collect();
        let results = joined.call(&arguments)?;
        // A program that fails after the call must not fail the others.
        block_until_ready(&results)?;
        let mut results = results.into_iter();
        for (queued, runs) in all.iter().zip(&mut runs) {
            let own: Vec<Array> = results.by_ref().take(queued.program.outputs().len()).collect();
            if round < queued.arguments.len() {
                runs.push(own);
            }
        }
    }
    Ok(runs)
}

/// Evaluates all programs, each on its part of the inputs, and joins their outputs.
pub(super) fn evaluate_all<'a>(
    programs: impl IntoIterator<Item = &'a Program>,
    mut inputs: &[Array],
) -> Vec<Array> {
    let mut outputs = Vec::new();
    for program in programs {
        let (own, rest) = inputs.split_at(program.inputs().len());
        outputs.extend(passes::eval(program, own));
        inputs = rest;
    }
    outputs
}

impl Results {
    /// Returns the outputs of a run.
    ///
    /// # Errors
    /// If the program could not be compiled or run.
    pub(super) fn of(&self, job: Job) -> Result<&[Array], Error> {
        match &self.0[job.program] {
            Ok(runs) => Ok(&runs[job.run]),
            Err(message) => Err(Error::Runtime {
                doing: "running a program of this law".into(),
                code: None,
                loc: Loc::UNKNOWN,
                message: message.clone(),
                help: None,
            }),
        }
    }
}
