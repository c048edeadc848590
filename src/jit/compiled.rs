//! [`Compiled`]: a function compiled ahead of time, for one signature.

use super::artifact::{Artifact, Described, Head};
use super::calls::call;
use super::entry::{Entry, Failure, Staged};
use super::stats::Counters;
use crate::core::{Array, Error, Program, TracerError, TreeError, trace};
use crate::runtime::{Collectives, MemoryAnalysis, blame, is_watched};
use crate::tree::for_each_arity;
use crate::tree::{Args, Arguments, Gathered, Signature, Tree, leaves_of};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// A function compiled for one signature, without having been called. Made by
/// [`Lowered::compile`](super::Lowered::compile).
///
/// It is called as a [`Jit`](super::Jit) is, and donates as one, but never compiles anew: arguments
/// of another structure or type are an error. It cannot become part of a trace.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let w = Aval::new(DType::F32, [256]);
/// let step = jit(|w: Array, x: Array| &w - &x * 0.1).lower((w.clone(), w))?.compile()?;
/// assert_eq!(step.memory_analysis()?.arguments, 2048);
/// let x = ones([256], DType::F32);
/// let w = step.call(zeros([256], DType::F32), &x)?; // moved: donated. borrowed: kept.
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct Compiled<A, O> {
    entry: Entry<O>,
    signature: Signature,
    /// To run again operation by operation, when `nan_check` looks for the one that made a NaN; of what was read from bytes it
    /// is not always known.
    program: Option<Program>,
    captures: Vec<Array>,
    counters: Counters,
    arguments: PhantomData<fn(A)>,
}

impl<A: Args, O: Tree> Compiled<A, O> {
    pub(super) fn new(staged: &Staged<O>, entry: Entry<O>, signature: Signature) -> Compiled<A, O> {
        let program = Some(staged.program.clone());
        Compiled::of_parts(entry, signature, program, staged.captures.clone())
    }

    pub(super) fn of_parts(
        entry: Entry<O>,
        signature: Signature,
        program: Option<Program>,
        captures: Vec<Array>,
    ) -> Compiled<A, O> {
        let counters = Counters::default();
        Compiled { entry, signature, program, captures, counters, arguments: PhantomData }
    }

    /// The function as bytes.
    ///
    /// # Errors
    /// As [`Compiled::serialize`].
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let head = Head {
            name: self.entry.executable.name().to_string(),
            arguments: Described::of_signature(&self.signature),
            results: Described::of(self.entry.template()),
        };
        let shipped = self.entry.executable.ship()?;
        Artifact::to_bytes(head, self.program.as_ref(), &self.captures, shipped)
    }

    /// The memory that it takes on the device, in bytes.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not say.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis, Error> {
        self.entry.executable.asked().memory()
    }

    /// What the compiler reckons it costs, by the compiler's names: `flops`, `bytes accessed`, and
    /// so on. Not every plugin tells; [`Lowered::cost`](super::Lowered::cost) counts on the program.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not say.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>, Error> {
        self.entry.executable.asked().costs()
    }

    /// The program after the compiler's optimizations: a protocol buffer of type
    /// `HloModuleProtoWithConfig`, which XLA's tools read and print.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not give it.
    pub fn optimized_hlo(&self) -> Result<Vec<u8>, Error> {
        self.entry.executable.asked().optimized_hlo()
    }

    /// What the optimized program sends from device to device, by kind: what the compiler has made of the shardings.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not give the program.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let (whole, rows) = (mesh.replicated(), mesh.sharding(p!["data"])?);
    /// let mean = jit(|x: Array| x.mean()).in_shardings(&rows).out_shardings(&whole);
    /// let compiled = mean.lower(Aval::new(DType::F32, [16]))?.compile()?;
    /// assert_eq!(compiled.collectives()?.to_string(), "1 all-reduce");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn collectives(&self) -> Result<Collectives, Error> {
        self.entry.executable.asked().collectives()
    }

    /// Whether it was compiled before, by this process or another, and loaded from disk ([`cache`](crate::jit::cache)). It answers as
    /// one that was compiled just now, except that profiles show the lines of the source as they were then.
    pub fn is_from_disk(&self) -> bool {
        self.entry.executable.is_from_disk()
    }

    /// Leaves passed by value that could not be donated so far, because something else held them.
    pub fn not_donated(&self) -> u64 {
        self.counters.not_donated.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>, owned: &[bool]) -> Result<O, Failure> {
        let view = Arguments::<A>(arguments);
        let mut scratch = self.entry.scratch();
        match self.signature.gather(&view, &mut scratch.arguments) {
            Gathered::All => {
                if !self.entry.is_where(&scratch) {
                    let brought = self.entry.bring::<A>(arguments, &mut scratch, &self.counters);
                    brought.map_err(Failure::before)?;
                }
                let result = self.entry.run::<A>(arguments, scratch, owned, &self.counters)?;
                if let Some(program) = self.program.as_ref().filter(|_| is_watched()) {
                    let operands =
                        leaves_of(&view).into_iter().chain(self.captures.iter().cloned());
                    let operands: Vec<Array> = operands.collect();
                    blame(program, &operands, &leaves_of(&result)).map_err(Failure::before)?;
                }
                Ok(result)
            }
            Gathered::Differs => {
                let found = Signature::of(&view);
                Err(Failure::before(self.mismatch(&found, Location::caller())))
            }
            Gathered::Traced(leaf) => {
                Err(Failure::before(self.refuse_traced(&leaf, Location::caller())))
            }
        }
    }

    fn mismatch(&self, found: &Signature, location: &'static Location<'static>) -> Error {
        Error::Tree(Box::new(TreeError {
            path: "$".into(),
            message: format!(
                "`{}` was compiled for other arguments: {}",
                self.entry.executable.name(),
                self.signature.difference(found)
            ),
            location: Some(location),
            help: Some("call the `Jit` itself, which compiles once per signature".into()),
        }))
    }

    fn refuse_traced(&self, traced: &Array, location: &'static Location<'static>) -> Error {
        if !trace::is_tracing() {
            return trace::escaped_error(traced);
        }
        Error::Tracer(Box::new(TracerError {
            message: format!(
                "`{}` is compiled already, so it cannot become part of a trace",
                self.entry.executable.name()
            ),
            aval: traced.aval().clone(),
            location: Some(location),
            path: trace::path(),
            help: "use the `Jit` that it was compiled from, with `apply`".into(),
        }))
    }
}

impl<A, O> fmt::Debug for Compiled<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiled({})", self.entry.executable.name())
    }
}

for_each_arity!(0..=8 call [
    Compiled
    /// Runs it. Arguments passed by value are donated, those passed by reference are kept.
    ///
    /// # Errors
    /// [`Error::Tree`] names the first difference if the arguments are not those that it was compiled
    /// for; [`Error::Tracer`] if one of them is traced; `Runtime`. The arguments that were not
    /// consumed come back in the error.
]);
