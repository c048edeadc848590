//! Running many small programs as one: compiling dominates the laws, and a module costs more than
//! what is in it.

use crate::core::{Array, Error, Program, backend};
use crate::passes;
use crate::transforms::staging::trace_rules;

/// Programs to be run, each on one list of arguments or several. Equal programs are compiled once,
/// and all of them as one module.
#[derive(Default)]
pub(super) struct Jobs {
    programs: Vec<Asked>,
}

/// A program, and the lists of arguments that it is to be run on.
struct Asked {
    program: Program,
    arguments: Vec<Vec<Array>>,
}

/// One run that was asked for.
#[derive(Clone, Copy)]
pub(super) struct Job {
    program: usize,
    run: usize,
}

/// What one program gave on each of its lists of arguments.
type Runs = Result<Vec<Vec<Array>>, String>;

/// What all of them gave.
pub(super) struct Results(Vec<Runs>);

impl Jobs {
    /// Asks for a program to be run on these arguments.
    pub(super) fn add(&mut self, program: &Program, arguments: Vec<Array>) -> Job {
        let known = self.programs.iter().position(|asked| asked.program == *program);
        let position = known.unwrap_or_else(|| {
            self.programs.push(Asked { program: program.clone(), arguments: Vec::new() });
            self.programs.len() - 1
        });
        let asked = &mut self.programs[position].arguments;
        asked.push(arguments);
        Job { program: position, run: asked.len() - 1 }
    }

    /// Runs all of them. A program that cannot be compiled takes no other with it.
    pub(super) fn run(self) -> Results {
        let all: Vec<&Asked> = self.programs.iter().collect();
        if all.is_empty() {
            return Results(Vec::new());
        }
        Results(match together(&all) {
            Ok(runs) => runs.into_iter().map(Ok).collect(),
            // Which of them is at fault shows when each is on its own.
            Err(_) => all.into_iter().map(alone).collect(),
        })
    }
}

/// Runs one program without the others.
fn alone(asked: &Asked) -> Runs {
    let runs = together(&[asked]).map_err(|error| error.to_string())?;
    Ok(runs.into_iter().next().unwrap_or_default())
}

/// Runs programs as one module: for each, the results on each list of arguments.
fn together(all: &[&Asked]) -> Result<Vec<Vec<Vec<Array>>>, Error> {
    let joined = join(all);
    let rounds = all.iter().map(|asked| asked.arguments.len()).max().unwrap_or(0);
    let mut runs = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        // Whoever has had its turn repeats its last one.
        let of = |asked: &Asked| asked.arguments[round.min(asked.arguments.len() - 1)].clone();
        let arguments: Vec<Array> = all.iter().flat_map(|asked| of(asked)).collect();
        let mut results = backend().run(&joined, &arguments)?.into_iter();
        for (asked, runs) in all.iter().zip(&mut runs) {
            let own: Vec<Array> = results.by_ref().take(asked.program.outputs().len()).collect();
            if round < asked.arguments.len() {
                runs.push(own);
            }
        }
    }
    Ok(runs)
}

/// The program that has the inputs and outputs of all.
fn join(all: &[&Asked]) -> Program {
    let avals = all.iter().flat_map(|asked| asked.program.avals_in());
    trace_rules(avals, |mut inputs| {
        let mut outputs = Vec::new();
        for asked in all {
            let (own, rest) = inputs.split_at(asked.program.inputs().len());
            outputs.extend(passes::eval(&asked.program, own));
            inputs = rest;
        }
        outputs
    })
}

impl Results {
    /// The outputs of a run.
    ///
    /// # Errors
    /// Why the program could not be compiled or run.
    pub(super) fn of(&self, job: Job) -> Result<&[Array], Error> {
        match &self.0[job.program] {
            Ok(runs) => Ok(&runs[job.run]),
            Err(message) => Err(Error::Runtime {
                doing: "running a program of this law".into(),
                code: None,
                message: message.clone(),
                help: None,
            }),
        }
    }
}
