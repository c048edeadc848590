//! What one signature is compiled to, and how it is run: the warm path of every call.

use super::artifact::{Described, Head};
use super::stats::Counters;
use crate::core::{Array, Aval, Buffer, Error, Kind, NamedSharding, Program, trace};
use crate::passes::Placed;
use crate::runtime::{
    Executable, Kept, Lies, Plan, Scratch, Wishes, home_of, is_deleted, is_watched, moved,
};
use crate::tree::{Args, Arguments, Signature, Tree, TreeDef, rebuild, rooted};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

/// A function traced for one signature, before it is compiled.
pub(super) struct Staged<O> {
    pub(super) name: String,
    /// Without what is not needed.
    pub(super) program: Program,
    pub(super) captures: Vec<Array>,
    /// The result's structure, with leaves of any kind.
    pub(super) template: O,
    /// The types of each argument's leaves.
    pub(super) arguments: Vec<Vec<Arc<Aval>>>,
    pub(super) spread: Spread,
}

/// What is known of where a function's arguments and results are to lie.
pub(super) struct Spread {
    /// Where the arguments lie, then what was captured.
    pub(super) lies: Vec<Lies>,
    /// What the user wants of each argument's leaves, and of each result's; empty for nothing.
    pub(super) inputs: Vec<Option<NamedSharding>>,
    pub(super) outputs: Vec<Option<NamedSharding>>,
    pub(super) paths: Vec<String>,
}

/// What is known of an answer that the plugin gives.
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// What is kept for one signature.
pub(super) struct Entry<O> {
    pub(super) executable: Executable,
    captures: Vec<Arc<dyn Buffer>>,
    template: O,
    /// For each leaf, the position of the argument that it belongs to.
    argument_of: Vec<usize>,
    /// The positions of all leaves and captures.
    all: Vec<i64>,
    /// For each leaf, whether it is consumed when it is donated.
    consumed: Vec<AtomicU8>,
    /// Whether a leaf that could not be donated has been logged.
    logged: AtomicBool,
    /// The types of the arguments' leaves, to move those that lie elsewhere.
    avals: Vec<Aval>,
    /// Whether a leaf that had to be moved has been logged.
    moved_before: AtomicBool,
    /// The last call's lists, for the next one. Locked to take them out or put them back, never while
    /// the program runs.
    scratch: Mutex<Option<Box<Scratch>>>,
}

/// A failed call: the error, and whether buffers had already been handed over.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) consumed: bool,
}

impl Failure {
    /// Nothing was handed over.
    pub(super) fn before(error: Error) -> Failure {
        Failure { error, consumed: false }
    }
}

impl<O: Tree> Staged<O> {
    fn wishes(&self) -> Wishes<'_> {
        let Spread { inputs, outputs, paths, .. } = &self.spread;
        Wishes { inputs, outputs, paths }
    }

    /// Where it runs.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        Plan::of(&self.name, &self.program, &self.spread.lies, &self.wishes())
    }

    /// How its arguments and results lie, if it is for several devices.
    pub(super) fn placed(&self) -> Result<Option<Placed>, Error> {
        let plan = Plan::over(&self.name, &self.program, &self.spread.lies, &self.wishes())?;
        Ok(plan.map(|plan| Placed { inputs: plan.input_shardings(), outputs: plan.outputs }))
    }

    /// The text of the module for the default platform.
    pub(super) fn lower(&self, plan: &Plan) -> Result<String, Error> {
        Executable::lower(&self.program, &self.name, plan, true)
    }

    /// What it takes and gives.
    pub(super) fn head(&self, signature: &Signature) -> Head {
        Head {
            name: self.name.clone(),
            arguments: Described::of_signature(signature),
            results: Described::of_template(&self.template, &self.program.avals_out()),
        }
    }

    /// Compiles that text.
    pub(super) fn load(&self, text: &str, plan: Plan) -> Result<Entry<O>, Error> {
        // Results share their types with the arguments, which the next call's comparison then sees.
        let mut known: FxHashMap<&Aval, &Arc<Aval>> = FxHashMap::default();
        known.extend(self.arguments.iter().flatten().map(|aval| (&**aval, aval)));
        let shared = |aval: Aval| match known.get(&aval) {
            Some(&known) => known.clone(),
            None => Arc::new(aval),
        };
        let results: Vec<_> = self.program.avals_out().into_iter().map(shared).collect();
        let leaves = results.iter().map(|aval| Array::of_shared_type(aval.clone())).collect();
        let template = rebuild(&self.template, leaves);
        let executable = Executable::load(&self.program, &self.name, text, results, plan)?;
        Entry::new(executable, template, &self.captures, &self.arguments)
    }
}

impl<O: Tree> Entry<O> {
    /// An executable with its captured arrays brought to where it takes them; `arguments` are the types of each one's leaves.
    pub(super) fn new(
        executable: Executable,
        template: O,
        captures: &[Array],
        arguments: &[Vec<Arc<Aval>>],
    ) -> Result<Entry<O>, Error> {
        let homes = &executable.inputs()[executable.inputs().len() - captures.len()..];
        let captures = captures.iter().zip(homes).map(|(capture, home)| {
            let moved = if home_of(capture).as_ref() == Some(home) {
                capture.clone()
            } else {
                moved(capture, home)?
            };
            match moved.kind {
                Kind::Concrete(buffer) => Ok(buffer),
                // It escaped its trace, or never had elements.
                Kind::Traced { .. } => Err(trace::escaped_error(capture)),
            }
        });
        let captures = captures.collect::<Result<Vec<_>, _>>()?;
        let argument_of: Vec<usize> = arguments
            .iter()
            .enumerate()
            .flat_map(|(at, of)| std::iter::repeat_n(at, of.len()))
            .collect();
        Ok(Entry {
            template,
            avals: arguments.iter().flatten().map(|aval| (**aval).clone()).collect(),
            moved_before: AtomicBool::new(false),
            all: (0..(argument_of.len() + captures.len()) as i64).collect(),
            captures,
            consumed: argument_of.iter().map(|_| AtomicU8::new(UNKNOWN)).collect(),
            argument_of,
            logged: AtomicBool::new(false),
            scratch: Mutex::default(),
            executable,
        })
    }

    /// Types of the results, in their structure.
    pub(super) fn template(&self) -> &O {
        &self.template
    }

    /// The lists of a call, empty: the last call's, or new ones while another thread has those.
    pub(super) fn scratch(&self) -> Box<Scratch> {
        self.scratch.try_lock().ok().and_then(|mut kept| kept.take()).unwrap_or_default()
    }

    /// Keeps the lists of a call that came to nothing for the next one.
    pub(super) fn keep(&self, mut scratch: Box<Scratch>) {
        scratch.clear();
        self.put_back(scratch);
    }

    /// Whether the arguments gathered lie where the program takes them.
    #[inline]
    pub(super) fn is_where(&self, scratch: &Scratch) -> bool {
        let mut pairs = scratch.arguments.iter().zip(self.executable.inputs());
        pairs.all(|(buffer, home)| home.is_of(buffer))
    }

    /// Brings the arguments gathered to where the program takes them.
    pub(super) fn bring<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<(), Error> {
        let moved = self.executable.bring(scratch, &self.avals)?;
        let Some(&first) = moved.first() else { return Ok(()) };
        Counters::add(&counters.moved, moved.len() as u64);
        if !self.moved_before.swap(true, Ordering::Relaxed) {
            let structure = TreeDef::of(&Arguments::<A>(arguments));
            tracing::warn!(
                target: "oxidax::jit",
                function = self.executable.name(),
                leaf = rooted(&structure.paths()[first]),
                to = %self.executable.inputs()[first],
                leaves = moved.len(),
                "moved at each call, because it lies elsewhere; `device_put` it once"
            );
        }
        Ok(())
    }

    fn put_back(&self, scratch: Box<Scratch>) {
        if let Ok(mut kept) = self.scratch.try_lock() {
            *kept = Some(scratch);
        }
    }

    /// Runs it on arguments whose buffers are in `scratch`. `owned` says which of them were passed by
    /// value; of those, the leaves that nothing else holds are donated.
    pub(super) fn run<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        mut scratch: Box<Scratch>,
        owned: &[bool],
        counters: &Counters,
    ) -> Result<O, Failure> {
        let n_declared = scratch.arguments.len();
        // A program that `nan_check` is to run again must keep its arguments.
        let kept = match owned.contains(&true) && !is_watched() {
            true => {
                self.donate::<A>(arguments, &mut scratch, owned, counters);
                Kept::Listed
            }
            false => Kept::These(&self.all),
        };
        scratch.arguments.extend(self.captures.iter().cloned());
        let outcome = self.executable.execute(&mut scratch, kept).map(|mut outputs| {
            let result = self.template.unflatten(&mut outputs);
            assert!(outputs.next().is_none(), "as many results as the template has leaves");
            result
        });
        match outcome {
            Ok(result) => {
                match kept {
                    Kept::Listed => scratch.clear_consumed(|at, leaf| self.is_consumed(at, leaf)),
                    Kept::These(_) => scratch.clear(),
                }
                self.put_back(scratch);
                Ok(result)
            }
            Err(error) => {
                let lost = (0..n_declared).filter(|&at| is_deleted(&scratch.arguments[at]));
                let lost: Vec<usize> = lost.collect();
                self.keep(scratch);
                if lost.is_empty() {
                    return Err(Failure::before(error));
                }
                let structure = TreeDef::of(&Arguments::<A>(arguments));
                Err(Failure { error: name_lost(error, structure.paths(), &lost), consumed: true })
            }
        }
    }

    /// Whether the program consumes a leaf that is donated to it: one whose memory no result can take
    /// over it leaves alone. That is decided when it is compiled, so the plugin is asked once.
    fn is_consumed(&self, at: usize, leaf: &Arc<dyn Buffer>) -> bool {
        match self.consumed[at].load(Ordering::Relaxed) {
            UNKNOWN => {
                let answer = is_deleted(leaf);
                self.consumed[at].store(if answer { YES } else { NO }, Ordering::Relaxed);
                answer
            }
            answer => answer == YES,
        }
    }

    /// Decides which leaves are donated: those passed by value and held by nobody but the argument
    /// itself and `scratch`. The others are listed.
    fn donate<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        scratch: &mut Scratch,
        owned: &[bool],
        counters: &Counters,
    ) {
        let Scratch { arguments: buffers, kept, .. } = scratch;
        let mut not_donated = 0;
        let mut first = None;
        for (at, (buffer, &argument)) in buffers.iter().zip(&self.argument_of).enumerate() {
            // What was moved here is held by the list alone.
            if owned[argument] && Arc::strong_count(buffer) <= 2 {
                continue;
            }
            kept.push(at as i64);
            if owned[argument] {
                not_donated += 1;
                first.get_or_insert(at);
            }
        }
        kept.extend_from_slice(&self.all[buffers.len()..]);
        if let Some(first) = first {
            Counters::add(&counters.not_donated, not_donated);
            self.log_kept::<A>(arguments, first);
        }
    }

    /// Says once which leaf was passed by value and could not be donated.
    #[cold]
    fn log_kept<A: Args>(&self, arguments: A::Refs<'_>, leaf: usize) {
        if !self.logged.swap(true, Ordering::Relaxed) {
            let structure = TreeDef::of(&Arguments::<A>(arguments));
            tracing::warn!(
                target: "oxidax::jit",
                function = self.executable.name(),
                leaf = rooted(&structure.paths()[leaf]),
                "passed by value but not donated, because something else holds the array; drop the \
                 clone, or pass by reference"
            );
        }
    }
}

fn name_lost(error: Error, paths: &[String], lost: &[usize]) -> Error {
    let names: Vec<String> = lost.iter().map(|&at| rooted(&paths[at])).collect();
    match error {
        Error::Runtime { doing, code, message, .. } => Error::Runtime {
            doing,
            code,
            message,
            help: Some(format!(
                "these donated arguments were lost: {}; load them from a checkpoint, or pass them \
                 by reference to keep them",
                names.join(", ")
            )),
        },
        other => other,
    }
}
