//! [`Specialization`]: a function compiled for one signature, and the warm path of every call.

use super::call_refs::CallRefs;
use super::stats::Counters;
use crate::core::{Array, ArrayRef, Aval, Buffer, Error, Kind, Program, trace};
use crate::runtime::{
    Executable, HeldValues, NonDonatable, Scratch, is_deleted, keeps_arguments, transfer,
};
use crate::tree::{
    Args, Arguments, Gathered, Passing, Signature, Tree, TreeDef, Walk, leaves_of, rooted,
};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

/// A function compiled for one signature.
///
/// A call is [`gather`](Specialization::gather), [`transfer`](Specialization::transfer) for
/// arguments with another placement, then [`execute`](Specialization::execute).
pub(super) struct Specialization<O> {
    pub(super) executable: Executable,
    /// Buffers of captured arrays, with the placements that the program expects.
    captures: Vec<Arc<dyn Buffer>>,
    /// The references that it uses.
    pub(super) refs: CallRefs,
    /// Bytes of the captured arrays that were transferred.
    capture_bytes: u64,
    /// The structure of the result, with the types of its leaves.
    template: O,
    /// The argument that each leaf belongs to.
    argument_of: Vec<usize>,
    /// The indices of all leaves, values of references and captures.
    all: Vec<i64>,
    /// State of each leaf and value of a reference: unknown, or the plugin consumes or keeps it
    /// when it is donated.
    consumption: Vec<AtomicU8>,
    /// The types of the arguments' leaves.
    avals: Vec<Aval>,
    /// True once a leaf that could not be donated has been logged.
    logged_not_donated: AtomicBool,
    /// True once a transferred leaf has been logged.
    logged_transfer: AtomicBool,
    /// The lists of the previous call. Locked to take them or put them back, never while the
    /// program runs.
    scratch: Mutex<Option<Box<Scratch>>>,
}

/// Values of [`Specialization::consumption`].
mod consumption {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const CONSUMED: u8 = 1;
    pub(super) const KEPT: u8 = 2;
}

/// The outcome of [`Specialization::gather`].
pub(super) enum Gather {
    /// The arguments are ready.
    Ready(Box<Scratch>),
    /// An argument must be transferred first.
    Misplaced(Box<Scratch>),
    /// The arguments have another signature.
    Mismatch,
    /// This leaf is traced.
    Traced(Array),
}

/// A failed call.
pub(super) struct Failure {
    pub(super) error: Error,
    /// True if the program consumed donated buffers before it failed.
    pub(super) consumed: bool,
}

impl From<Error> for Failure {
    /// A failure before any buffer was consumed.
    fn from(error: Error) -> Failure {
        Failure { error, consumed: false }
    }
}

impl Failure {
    /// Returns true if the device's memory was exhausted.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.error.is_out_of_memory()
    }

    /// Adds the largest values to the error of a program that exhausted the memory: those of
    /// `program`, whose arguments have these paths, or without it the arguments and results.
    #[cold]
    pub(super) fn with_values<O: Tree>(
        self,
        failed: &Specialization<O>,
        program: Option<(&Program, &[String])>,
    ) -> Failure {
        let results: Vec<Aval> =
            leaves_of(&failed.template).iter().map(|leaf| leaf.aval().clone()).collect();
        let values = match program {
            Some((program, paths)) => HeldValues::Program(program, paths),
            None => HeldValues::Avals { arguments: &failed.avals, results: &results },
        };
        let error = failed.executable.with_memory_report(self.error, values);
        Failure { error, consumed: self.consumed }
    }
}

impl<O: Tree> Specialization<O> {
    /// Prepares an executable for calls and transfers its captured arrays. `arguments` are the
    /// types of each argument's leaves.
    pub(super) fn new(
        executable: Executable,
        template: O,
        captures: &[Array],
        arguments: &[Vec<Arc<Aval>>],
        refs: CallRefs,
    ) -> Result<Specialization<O>, Error> {
        let first = executable.inputs().len() - captures.len();
        let mut buffers = Vec::with_capacity(captures.len());
        let mut capture_bytes = 0;
        for (index, capture) in (first..).zip(captures) {
            let placed = match &capture.kind {
                Kind::Concrete(buffer) if executable.accepts(index, buffer) => capture.clone(),
                _ => {
                    capture_bytes += capture.aval().bytes() as u64;
                    transfer(capture, &executable.inputs()[index], capture.aval().memory)?
                }
            };
            match placed.kind {
                Kind::Concrete(buffer) => buffers.push(buffer),
                Kind::Traced { .. } => return Err(trace::escaped_error(capture)),
            }
        }
        let mut argument_of = Vec::new();
        for (argument, leaves) in arguments.iter().enumerate() {
            argument_of.extend(std::iter::repeat_n(argument, leaves.len()));
        }
        let unknown = || AtomicU8::new(consumption::UNKNOWN);
        let n_refs = refs.n_operands();
        Ok(Specialization {
            template,
            avals: arguments.iter().flatten().map(|aval| (**aval).clone()).collect(),
            all: (0..(argument_of.len() + n_refs + buffers.len()) as i64).collect(),
            refs,
            captures: buffers,
            capture_bytes,
            consumption: (0..argument_of.len() + n_refs).map(|_| unknown()).collect(),
            argument_of,
            logged_not_donated: AtomicBool::new(false),
            logged_transfer: AtomicBool::new(false),
            scratch: Mutex::default(),
            executable,
        })
    }

    /// Returns the bytes of the captured arrays that were transferred.
    pub(super) fn capture_bytes(&self) -> u64 {
        self.capture_bytes
    }

    /// Returns the structure of the result, with the types of its leaves.
    pub(super) fn template(&self) -> &O {
        &self.template
    }

    /// Collects the buffers of the arguments, if they have this signature.
    #[inline]
    pub(super) fn gather(&self, signature: &Signature, arguments: &impl Walk) -> Gather {
        let mut scratch = self.take_scratch();
        match signature.gather(arguments, &mut scratch.arguments) {
            Gathered::All if self.executable.are_placed(&scratch) => Gather::Ready(scratch),
            Gathered::All => Gather::Misplaced(scratch),
            Gathered::Differs => {
                self.discard(scratch);
                Gather::Mismatch
            }
            Gathered::Traced(leaf) => {
                self.discard(scratch);
                Gather::Traced(leaf)
            }
        }
    }

    /// Transfers the gathered arguments that have another placement than the program expects.
    pub(super) fn transfer<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<(), Error> {
        let transferred = self.executable.transfer_arguments(scratch, &self.avals)?;
        let Some(&first) = transferred.first() else { return Ok(()) };
        Counters::add(&counters.transferred, transferred.len() as u64);
        let bytes: usize = transferred.iter().map(|&leaf| self.avals[leaf].bytes()).sum();
        Counters::add(&counters.bytes_transferred, bytes as u64);
        if !self.logged_transfer.swap(true, Ordering::Relaxed) {
            let structure = TreeDef::of(&Arguments::<A>(arguments));
            tracing::warn!(
                target: "oxidax::jit",
                function = self.executable.name(),
                leaf = rooted(&structure.paths()[first]),
                to = %self.executable.inputs()[first],
                leaves = transferred.len(),
                "transferred at each call, because it has another placement or layout; \
                 `device_put` it once"
            );
        }
        Ok(())
    }

    /// Runs the program on gathered arguments. `passing` says how each argument was passed.
    /// Of those passed by value, the leaves that nothing else holds are donated. `references` are
    /// those of the arguments. Returns the result, and the final values of references.
    pub(super) fn execute<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        mut scratch: Box<Scratch>,
        passing: &[Passing],
        references: &[ArrayRef],
        counters: &Counters,
    ) -> Result<(O, Vec<Array>), Failure> {
        let n_leaves = scratch.arguments.len();
        let values = self.refs.values(&self.executable, n_leaves, references)?;
        // `nan_check` may evaluate the program again, and a failure may be recorded. Arguments are
        // then not donated.
        let any_owned = passing.iter().any(|&passing| passing != Passing::Reference);
        let non_donatable = if (any_owned || self.refs.any_written()) && !keeps_arguments() {
            self.donate::<A>(arguments, &mut scratch, passing, &values, counters);
            NonDonatable::InScratch
        } else {
            NonDonatable::Indices(&self.all)
        };
        scratch.arguments.extend(values);
        scratch.arguments.extend(self.captures.iter().cloned());
        let outcome = self.executable.execute(&mut scratch, non_donatable, |results| {
            let result = self.template.unflatten(results);
            (result, results.collect())
        });
        match outcome {
            Ok(result) => {
                match non_donatable {
                    NonDonatable::InScratch => {
                        scratch.clear_donated(|leaf, buffer| self.is_consumed(leaf, buffer));
                    }
                    NonDonatable::Indices(_) => scratch.clear(),
                }
                self.put_back(scratch);
                Ok(result)
            }
            Err(error) => {
                let is_lost = |&leaf: &usize| is_deleted(&scratch.arguments[leaf]);
                let lost: Vec<usize> = (0..n_leaves).filter(is_lost).collect();
                self.discard(scratch);
                if lost.is_empty() {
                    return Err(error.into());
                }
                let structure = TreeDef::of(&Arguments::<A>(arguments));
                let error = name_lost_arguments(error, structure.paths(), &lost);
                Err(Failure { error, consumed: true })
            }
        }
    }

    /// Takes the lists of the previous call, or new ones while another thread has them.
    pub(super) fn take_scratch(&self) -> Box<Scratch> {
        self.scratch.try_lock().ok().and_then(|mut scratch| scratch.take()).unwrap_or_default()
    }

    fn put_back(&self, scratch: Box<Scratch>) {
        if let Ok(mut slot) = self.scratch.try_lock() {
            *slot = Some(scratch);
        }
    }

    /// Clears the lists of a call that was not executed and puts them back.
    pub(super) fn discard(&self, mut scratch: Box<Scratch>) {
        scratch.clear();
        self.put_back(scratch);
    }

    /// Returns true if the program consumes a donated leaf: a result can use its memory. That is
    /// fixed at compile time, so the plugin is queried once.
    fn is_consumed(&self, leaf: usize, buffer: &Arc<dyn Buffer>) -> bool {
        let cached = &self.consumption[leaf];
        match cached.load(Ordering::Relaxed) {
            consumption::UNKNOWN => {
                let is_consumed = is_deleted(buffer);
                let value = if is_consumed { consumption::CONSUMED } else { consumption::KEPT };
                cached.store(value, Ordering::Relaxed);
                is_consumed
            }
            value => value == consumption::CONSUMED,
        }
    }

    /// Lists the leaves, `values` of references and captures that are not donated. A leaf is
    /// donated if it was passed by value and only the argument and `scratch` hold its buffer. The
    /// value of a reference is donated if the program writes the reference and nothing else holds
    /// the buffer.
    fn donate<A: Args>(
        &self,
        arguments: A::Refs<'_>,
        scratch: &mut Scratch,
        passing: &[Passing],
        values: &[Arc<dyn Buffer>],
        counters: &Counters,
    ) {
        let Scratch { arguments: buffers, non_donatable, .. } = scratch;
        let mut count = 0;
        let mut first = None;
        for (leaf, (buffer, &argument)) in buffers.iter().zip(&self.argument_of).enumerate() {
            let reference = self.refs.is_leaf_written(leaf);
            let is_owned = reference.unwrap_or(passing[argument] != Passing::Reference);
            // Only the list holds a transferred buffer.
            if is_owned && Arc::strong_count(buffer) <= 2 {
                continue;
            }
            non_donatable.push(leaf as i64);
            if passing[argument] == Passing::Value && reference.is_none() {
                count += 1;
                first.get_or_insert(leaf);
            }
        }
        for (position, value) in values.iter().enumerate() {
            if !self.refs.is_operand_written(position) || Arc::strong_count(value) > 2 {
                non_donatable.push((buffers.len() + position) as i64);
            }
        }
        non_donatable.extend_from_slice(&self.all[buffers.len() + values.len()..]);
        if let Some(first) = first {
            Counters::add(&counters.not_donated, count);
            self.log_not_donated::<A>(arguments, first);
        }
    }

    /// Logs the first leaf that was passed by value and could not be donated.
    #[cold]
    fn log_not_donated<A: Args>(&self, arguments: A::Refs<'_>, leaf: usize) {
        if !self.logged_not_donated.swap(true, Ordering::Relaxed) {
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

/// Waits for a result, so that errors of the device are those of the call.
#[cold]
pub(super) fn finished<O: Tree>(
    (result, finals): (O, Vec<Array>),
) -> Result<(O, Vec<Array>), Failure> {
    for leaf in leaves_of(&result).iter().chain(&finals) {
        leaf.block_until_ready()?;
    }
    Ok((result, finals))
}

fn name_lost_arguments(error: Error, paths: &[String], lost: &[usize]) -> Error {
    let names: Vec<String> = lost.iter().map(|&leaf| rooted(&paths[leaf])).collect();
    match error {
        Error::Runtime { doing, code, message, loc, help } => {
            let lost = format!(
                "these donated arguments were lost: {}; load them from a checkpoint, or pass them \
                 by reference to keep them",
                names.join(", ")
            );
            let help = match help {
                Some(remedy) => format!("{remedy}\n  help: {lost}"),
                None => lost,
            };
            Error::Runtime { doing, code, message, loc, help: Some(help.into()) }
        }
        other => other,
    }
}
