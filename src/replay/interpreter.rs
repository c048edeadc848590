//! Runs a recorded program operation by operation, and finds the first bad one.
//!
//! A primitive that holds programs runs compiled first. If its results are bad, it is interpreted:
//! [`HigherOrder::interpret`](crate::core::HigherOrder::interpret) evaluates its programs with
//! [`passes::eval`], which [`passes::with_evaluation`] redirects to this interpreter. Each held
//! program is known by its address, so its name, its number of runs and the source lines of its
//! equations are known too.

use super::lines::{count, held_count};
use super::range::Range;
use super::recording::Recording;
use super::report::{BadOperation, Frame, Problem, Replay, Site};
use crate::core::{
    Array, Aval, Eqn, Error, HostArray, OpErrorKind, Placement, Program, RunCount, Var, catch,
    throw,
};
use crate::passes;
use crate::passes::Evaluate;
use crate::runtime::{devices_of, transfer, with_default_device};
use std::cell::RefCell;
use std::rc::Rc;

/// Replays a recording. `finite` stops at infinities too.
pub(super) fn replay(recording: &Recording, finite: bool) -> Result<Replay, Error> {
    let devices = devices_of("cpu")?;
    if devices.len() < recording.devices {
        let (needed, count) = (recording.devices, devices.len());
        return Err(Error::Plugin(format!(
            "the replay of `{}` needs {needed} CPU devices, and this process has {count}\n  help: \
             OXIDAX_CPU_DEVICES={needed}, or `parallel::set_cpu_devices({needed})` before the \
             first array",
            recording.function
        )));
    }
    with_default_device(devices[0].id(), || {
        let interpreter = Rc::new(Interpreter {
            lines: recording.lines.clone(),
            finite,
            state: RefCell::default(),
        });
        let mut arguments = Vec::with_capacity(recording.inputs.len());
        let mut bad_inputs = Vec::new();
        for (input, &var) in recording.inputs.iter().zip(recording.program.inputs()) {
            let aval = recording.program.aval(var);
            let range = Range::of_host(&input.elements, aval);
            if range.has_nan() {
                bad_inputs.push((input.path.clone(), range));
            }
            arguments.push(input_array(&input.elements, aval)?);
        }
        let outcome = interpreter.run(&recording.program, Some(0), &arguments);
        let state = interpreter.state.take();
        if let Err(Stop::Failed(error)) = outcome {
            return Err(error);
        }
        Ok(Replay {
            function: recording.function.clone(),
            cause: recording.cause,
            found: state.found,
            first_infinity: state.first_infinity,
            bad_inputs,
            operations: state.operations,
        })
    })?
}

/// Copies an input to its placement.
fn input_array(elements: &HostArray, aval: &Aval) -> Result<Array, Error> {
    let shape = elements.shape().clone();
    let array = Array::from_bytes(elements.as_bytes(), elements.dtype(), shape)?;
    match (&aval.sharding, array.placement()) {
        (Some(sharding), _) => {
            let sharding = sharding.with_memory_kind(aval.memory);
            transfer(&array, &Placement::Mesh(sharding), aval.memory)
        }
        (None, Some(placement)) if aval.memory.is_host() => {
            transfer(&array, &placement, aval.memory)
        }
        _ => Ok(array),
    }
}

/// The reason for which an interpretation stops.
enum Stop {
    /// A bad operation was found.
    Found,
    /// The interpreter failed.
    Failed(Error),
}

struct Interpreter {
    /// The source lines of all equations, in the order of the text.
    lines: Vec<String>,
    /// True if infinities are bad.
    finite: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The primitives that are being interpreted, outermost first.
    levels: Vec<Level>,
    found: Option<BadOperation>,
    first_infinity: Option<Site>,
    operations: usize,
}

/// A primitive that is being interpreted.
struct Level {
    operation: &'static str,
    line: String,
    programs: Vec<HeldProgram>,
    /// The program that runs, and the index of its run.
    current: Option<(usize, usize)>,
}

/// A program of a primitive that is being interpreted.
struct HeldProgram {
    name: String,
    address: *const Program,
    /// The number of its first equation; `None` if it is unknown.
    first: Option<usize>,
    runs: usize,
    count: RunCount,
}

impl Level {
    fn new(eqn: &Eqn, number: Option<usize>, program: &Program, line: String) -> Level {
        let mut programs = Vec::new();
        if let Some(holder) = eqn.primitive.as_higher_order() {
            let (operands, results) =
                (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
            let counts = holder.run_counts(&operands, &results);
            let held = holder.programs();
            let mut first = number.map(|number| number + 1);
            for (index, (name, held_program)) in held.iter().enumerate() {
                let is_one_of_many = held.iter().filter(|(other, _)| other == name).count() > 1;
                programs.push(HeldProgram {
                    name: if is_one_of_many { format!("{name} {index}") } else { (*name).into() },
                    address: std::ptr::from_ref(*held_program),
                    first,
                    runs: 0,
                    count: counts.get(index).copied().unwrap_or(RunCount::Unknown),
                });
                first = first.map(|first| first + count(held_program));
            }
        }
        Level { operation: eqn.primitive.name(), line, programs, current: None }
    }

    fn frame(&self) -> Frame {
        let current = self.current.and_then(|(index, run)| Some((self.programs.get(index)?, run)));
        let (program, iteration, iterations) = match current {
            Some((held, run)) => match held.count {
                RunCount::Times(1) | RunCount::Choice | RunCount::Devices(_) => {
                    (held.name.clone(), None, None)
                }
                RunCount::Times(n) => (held.name.clone(), Some(run), Some(n)),
                _ => (held.name.clone(), Some(run), None),
            },
            None => ("a program made of it".to_string(), None, None),
        };
        let (operation, line) = (self.operation.to_string(), self.line.clone());
        Frame { operation, line, program, iteration, iterations }
    }
}

/// The last use of each variable: the index of an equation, or `usize::MAX` for an output.
fn last_uses(program: &Program) -> Vec<usize> {
    let mut last = vec![0; program.avals().len()];
    for (index, eqn) in program.eqns().iter().enumerate() {
        for &var in &eqn.operands {
            last[var as usize] = index;
        }
    }
    for &var in program.outputs() {
        last[var as usize] = usize::MAX;
    }
    last
}

impl Interpreter {
    /// Runs a program. `first` is the number of its first equation.
    fn run(
        self: &Rc<Self>,
        program: &Program,
        first: Option<usize>,
        arguments: &[Array],
    ) -> Result<Vec<Array>, Stop> {
        let last = last_uses(program);
        let mut values: Vec<Option<Array>> = vec![None; program.avals().len()];
        for (&var, argument) in program.inputs().iter().zip(arguments) {
            values[var as usize] = Some(argument.clone());
        }
        let read = |values: &[Option<Array>], var: Var| -> Result<Array, Stop> {
            let undefined = || Stop::Failed(Error::Plugin(format!("variable {var} has no value")));
            values[var as usize].clone().ok_or_else(undefined)
        };
        let mut number = first;
        for (index, eqn) in program.eqns().iter().enumerate() {
            let operands: Vec<Array> =
                eqn.operands.iter().map(|&var| read(&values, var)).collect::<Result<_, _>>()?;
            let results = self.apply(program, eqn, number, &operands)?;
            for (&var, result) in eqn.results.iter().zip(results) {
                values[var as usize] = Some(result);
            }
            for &var in &eqn.operands {
                if last[var as usize] == index {
                    values[var as usize] = None;
                }
            }
            number = number.map(|number| number + 1 + held_count(eqn));
        }
        program.outputs().iter().map(|&var| read(&values, var)).collect()
    }

    fn line(&self, number: Option<usize>) -> String {
        number.and_then(|number| self.lines.get(number)).cloned().unwrap_or_default()
    }

    /// Applies an equation, and stops if it is bad.
    fn apply(
        self: &Rc<Self>,
        program: &Program,
        eqn: &Eqn,
        number: Option<usize>,
        operands: &[Array],
    ) -> Result<Vec<Array>, Stop> {
        let holder = eqn.primitive.as_higher_order();
        if holder.is_some_and(|holder| holder.inlined().is_some()) {
            return self.interpret(program, eqn, number, operands).map_err(|stop| match stop {
                // Nothing inside is bad by itself.
                Stop::Failed(error) => self.found(program, eqn, number, operands, &error),
                Stop::Found => Stop::Found,
            });
        }
        self.state.borrow_mut().operations += 1;
        let references: Vec<&Array> = operands.iter().collect();
        let bind = || catch(|| passes::bind(eqn, &references));
        let (avals_in, avals_out) =
            (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        let outcome = passes::with_evaluation(None, bind)
            .and_then(|results| Ok((ranges(&results, &avals_out)?, results)));
        let problem = match &outcome {
            Ok((results, _)) => {
                let operands = ranges(operands, &avals_in).map_err(Stop::Failed)?;
                let Some(problem) = self.problem(eqn, number, &operands, results) else {
                    return Ok(outcome.map_err(Stop::Failed)?.1);
                };
                problem
            }
            Err(error) => problem_of(error),
        };
        // Values in another representation mean nothing to a primitive that looks at them.
        if holder.is_some() && !passes::is_bind_replaced() {
            match self.interpret(program, eqn, number, operands) {
                Err(Stop::Found) => return Err(Stop::Found),
                // The search inside failed or found nothing: the operation itself is reported.
                Err(Stop::Failed(_)) | Ok(_) => {}
            }
        }
        let results = outcome.map(|(ranges, _)| ranges).unwrap_or_default();
        Err(self.report(program, eqn, number, operands, problem, results))
    }

    /// Returns the problem of an equation with these operands and results.
    fn problem(
        &self,
        eqn: &Eqn,
        number: Option<usize>,
        operands: &[Range],
        results: &[Range],
    ) -> Option<Problem> {
        let introduces =
            |has: fn(&Range) -> bool| results.iter().any(has) && !operands.iter().any(has);
        if introduces(Range::has_nan) {
            return Some(Problem::Nan);
        }
        // Constants may be infinite on purpose, for example in masks.
        if operands.is_empty() || !introduces(Range::has_infinity) {
            return None;
        }
        if self.finite {
            return Some(Problem::Infinity);
        }
        let mut state = self.state.borrow_mut();
        if state.first_infinity.is_none() {
            let frames = state.levels.iter().map(Level::frame).collect();
            let operation = eqn.primitive.name().to_string();
            state.first_infinity = Some(Site { operation, line: self.line(number), frames });
        }
        None
    }

    /// Interprets a primitive that holds programs, equation by equation.
    fn interpret(
        self: &Rc<Self>,
        program: &Program,
        eqn: &Eqn,
        number: Option<usize>,
        operands: &[Array],
    ) -> Result<Vec<Array>, Stop> {
        let Some(holder) = eqn.primitive.as_higher_order() else { return Ok(Vec::new()) };
        let level = Level::new(eqn, number, program, self.line(number));
        let depth = self.state.borrow().levels.len();
        self.state.borrow_mut().levels.push(level);
        let interpreter = self.clone();
        let evaluate: Rc<Evaluate> =
            Rc::new(move |program, arguments| interpreter.run_held(program, arguments));
        let interpret = || catch(|| holder.interpret(operands));
        let outcome = passes::with_evaluation(Some(evaluate), interpret);
        let mut state = self.state.borrow_mut();
        state.levels.truncate(depth);
        match outcome.flatten() {
            _ if state.found.is_some() => Err(Stop::Found),
            Ok(results) => Ok(results),
            Err(error) => Err(Stop::Failed(error)),
        }
    }

    /// Runs a program that the primitive of the innermost level holds. Throws to end the
    /// interpretation of that primitive.
    fn run_held(self: &Rc<Self>, program: &Program, arguments: &[Array]) -> Vec<Array> {
        let first = self.enter(program);
        let outcome = self.run(program, first, arguments);
        match outcome {
            Ok(results) => {
                if let Some(level) = self.state.borrow_mut().levels.last_mut() {
                    level.current = None;
                }
                results
            }
            Err(Stop::Failed(error)) => throw(error),
            Err(Stop::Found) => throw(Error::Plugin("the replay has found an operation".into())),
        }
    }

    /// Notes a run of a program at the innermost level. Returns the number of its first equation.
    fn enter(&self, program: &Program) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let level = state.levels.last_mut()?;
        let index = level.programs.iter().position(|held| std::ptr::eq(held.address, program))?;
        let held = &mut level.programs[index];
        level.current = Some((index, held.runs));
        held.runs += 1;
        held.first
    }

    /// Notes an equation whose interpretation failed.
    fn found(
        &self,
        program: &Program,
        eqn: &Eqn,
        number: Option<usize>,
        operands: &[Array],
        error: &Error,
    ) -> Stop {
        self.report(program, eqn, number, operands, problem_of(error), Vec::new())
    }

    /// Notes a bad equation.
    fn report(
        &self,
        program: &Program,
        eqn: &Eqn,
        number: Option<usize>,
        operands: &[Array],
        problem: Problem,
        results: Vec<Range>,
    ) -> Stop {
        let operand_ranges = match ranges(operands, &program.avals_of(&eqn.operands)) {
            Ok(ranges) => ranges,
            Err(error) => return Stop::Failed(error),
        };
        let host: Result<Vec<_>, Error> = operands.iter().map(Array::to_host).collect();
        let mut state = self.state.borrow_mut();
        let frames = state.levels.iter().map(Level::frame).collect();
        state.found = Some(BadOperation {
            problem,
            operation: eqn.primitive.name().to_string(),
            text: text_of(eqn),
            line: self.line(number),
            frames,
            operands: operand_ranges,
            results,
            alone: host
                .ok()
                .filter(|_| !passes::is_bind_replaced())
                .map(|operands| (alone(program, eqn), operands)),
        });
        Stop::Found
    }
}

/// Reads the numbers of values of these types.
fn ranges(arrays: &[Array], avals: &[Aval]) -> Result<Vec<Range>, Error> {
    let range = |(array, aval): (&Array, &Aval)| Ok(Range::of_host(&array.to_host()?, aval));
    arrays.iter().zip(avals).map(range).collect()
}

fn problem_of(error: &Error) -> Problem {
    match error {
        Error::Op(error) if error.kind == OpErrorKind::Value && error.primitive == "check" => {
            Problem::Check(error.message.clone())
        }
        error => Problem::Device(error.to_string()),
    }
}

/// Returns the operation and its parameters without the programs that it holds.
fn text_of(eqn: &Eqn) -> String {
    let name = eqn.primitive.name();
    match eqn.primitive.params() {
        serde_json::Value::Object(fields) if !fields.is_empty() => {
            let fields: Vec<String> =
                fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
            format!("{name}[{}]", fields.join(" "))
        }
        _ => name.to_string(),
    }
}

/// Returns the program of one equation.
fn alone(program: &Program, eqn: &Eqn) -> Program {
    let mut avals = program.avals_of(&eqn.operands);
    let n_operands = avals.len() as Var;
    avals.extend(program.avals_of(&eqn.results));
    let (inputs, outputs): (Vec<Var>, Vec<Var>) =
        ((0..n_operands).collect(), (n_operands..avals.len() as Var).collect());
    let eqn = Eqn {
        primitive: eqn.primitive.clone(),
        operands: inputs.iter().copied().collect(),
        results: outputs.iter().copied().collect(),
        loc: eqn.loc,
    };
    Program::new(&avals, &inputs, vec![eqn], &outputs)
}
