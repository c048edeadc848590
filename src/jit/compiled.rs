//! [`Compiled`]: a function compiled ahead of time, for one signature.

use super::call_macros::call;
use super::explained::{CallNames, ExplainedCollective, explained};
use super::file_format::ProgramFile;
use super::specialization::{Failure, Gather, Specialization, finished};
use super::stats::Counters;
use super::traced::Traced;
use super::tree_description::{FunctionDescription, TreeDescription};
use crate::core::nan_check::with_argument_paths;
use crate::core::spans::{EventKind, Span};
use crate::core::{
    Array, Error, Layout, Loc, Mesh, Placement, Program, TracerError, TreeError, trace,
};
use crate::parallel::Format;
use crate::passes::{self, Peak};
use crate::profile::StepMemory;
use crate::replay::{Cause, RecordedCall, record_failure};
use crate::runtime::{
    Collectives, CompilerOptions, CompilerReport, Executable, SerializedProgram, Topology,
    TopologyExecutable, is_nan_checked, is_recording, is_tracked, locate_nan,
};
use crate::tree::{Args, Arguments, Passing, Signature, Tree, for_each_arity, leaves_of};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A function compiled ahead of time, for one signature.
///
/// | made by | runs on |
/// |---|---|
/// | [`Lowered::compile`](super::Lowered::compile) | this process's devices |
/// | [`Lowered::compile_for`](super::Lowered::compile_for) | a machine like the topology, after [`serialize`](Compiled::serialize) |
/// | [`Compiled::deserialize`] | this process's devices |
///
/// It is called, and donates its arguments, like a [`Jit`](super::Jit), but never compiles again:
/// arguments with another structure or type are an error. It cannot become part of a trace.
/// [`report`](Compiled::report) returns the compiler's analysis.
///
/// ```
/// use oxidax::prelude::*;
/// let w = Aval::new(DType::F32, [256]);
/// let step = jit(|w: Array, x: Array| &w - &x * 0.1).lower(w.clone(), w)?.compile()?;
/// assert_eq!(step.report().memory_analysis()?.arguments, 2048);
/// let x = ones([256]);
/// let w = step.call(zeros([256]), &x)?; // moved: donated. borrowed: kept.
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct Compiled<A, O> {
    target: CompiledTarget<O>,
    signature: Signature,
    /// The traced program, for `nan_check`. `None` if it was deserialized and cannot be parsed.
    program: Option<Program>,
    captures: Vec<Array>,
    /// The shardings, with the names of arguments and results.
    names: CallNames,
    counters: Counters,
    arguments: PhantomData<fn(A)>,
}

/// Joins the layouts and the placements of leaves.
fn formats(layouts: Vec<Layout>, placements: Vec<Option<Placement>>) -> Vec<Format> {
    let pairs = layouts.into_iter().zip(placements);
    pairs.map(|(layout, placement)| Format::new(layout, placement)).collect()
}

/// The devices that a function is compiled for.
#[allow(clippy::large_enum_variant, reason = "the larger one is the one that is called")]
enum CompiledTarget<O> {
    /// Devices of this process.
    Loaded(Specialization<O>),
    /// Devices that are not attached, with the description of arguments and results.
    Topology(TopologyExecutable, FunctionDescription),
}

impl<A: Args, O: Tree> Compiled<A, O> {
    /// Compiles a traced function for the devices of this process.
    pub(super) fn for_process(
        traced: &Traced<O>,
        signature: Signature,
        options: &CompilerOptions,
    ) -> Result<Compiled<A, O>, Error> {
        let specialization = traced.load(&traced.lower()?, options)?;
        let program = Some(traced.program.clone());
        let captures = traced.captures.clone();
        Ok(Compiled::loaded(specialization, signature, program, captures, traced.names()))
    }

    /// Compiles a traced function for a topology.
    pub(super) fn for_topology(
        traced: &Traced<O>,
        signature: Signature,
        topology: &Topology,
        options: &CompilerOptions,
    ) -> Result<Compiled<A, O>, Error> {
        let Traced { name, program, plan, .. } = traced;
        let executable = TopologyExecutable::compile(program, name, plan, topology, options)?;
        traced.check_collectives(|| executable.report())?;
        let description = traced.description(&signature);
        Ok(Compiled {
            target: CompiledTarget::Topology(executable, description),
            signature,
            program: Some(program.clone()),
            captures: traced.captures.clone(),
            names: traced.names(),
            counters: Counters::default(),
            arguments: PhantomData,
        })
    }

    pub(super) fn loaded(
        specialization: Specialization<O>,
        signature: Signature,
        program: Option<Program>,
        captures: Vec<Array>,
        names: CallNames,
    ) -> Compiled<A, O> {
        Compiled {
            target: CompiledTarget::Loaded(specialization),
            signature,
            program,
            captures,
            names,
            counters: Counters::default(),
            arguments: PhantomData,
        }
    }

    /// Writes the function to bytes; see [`Compiled::serialize`].
    pub(super) fn to_file(&self) -> Result<Vec<u8>, Error> {
        let (description, executable): (FunctionDescription, SerializedProgram) = match &self.target
        {
            CompiledTarget::Loaded(specialization) => {
                let description = FunctionDescription {
                    name: specialization.executable.name().to_string(),
                    arguments: TreeDescription::of_signature(&self.signature),
                    results: TreeDescription::of(specialization.template()),
                };
                (description, specialization.executable.serialize()?)
            }
            CompiledTarget::Topology(executable, description) => {
                (description.clone(), executable.serialize()?)
            }
        };
        ProgramFile::to_bytes(description, self.program.as_ref(), &self.captures, executable)
    }

    /// Returns the traced program; `None` if the function was deserialized and calls closures.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// Returns the topology it was compiled for; `None` for the devices of this process.
    pub fn topology(&self) -> Option<&Topology> {
        match &self.target {
            CompiledTarget::Loaded(_) => None,
            CompiledTarget::Topology(executable, _) => Some(executable.topology()),
        }
    }

    /// Returns the compiler's analysis: memory, cost, optimized HLO and collectives.
    #[doc(alias = "memory_analysis")]
    #[doc(alias = "cost_analysis")]
    pub fn report(&self) -> CompilerReport {
        match &self.target {
            CompiledTarget::Loaded(specialization) => specialization.executable.report(),
            CompiledTarget::Topology(executable, _) => executable.report(),
        }
    }

    /// Returns the collectives of the compiled program, each with the line that needs it and the
    /// reason. In the compiler's order.
    ///
    /// With the feature `roofline`, `explain` returns them with their predicted times, and prints.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    pub fn collectives(&self) -> Result<Vec<ExplainedCollective>, Error> {
        Ok(self.explain_each(&self.report().collectives()?))
    }

    /// Explains collectives of [`report`](Self::report), in their order.
    pub(crate) fn explain_each(&self, found: &Collectives) -> Vec<ExplainedCollective> {
        let explained = explained(self.program.as_ref(), &self.names, found);
        explained.into_iter().map(|found| found.collective).collect()
    }

    /// Returns the mesh that the function runs on; `None` for one device.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.names.plan.mesh()
    }

    /// Returns the placement that each leaf of the arguments must have, in order: a device or a
    /// sharding. `None` for a leaf of a program that was compiled for one device of a topology.
    #[doc(alias = "jax.stages.Compiled.input_shardings")]
    pub fn input_shardings(&self) -> Vec<Option<Placement>> {
        let count = self.names.arguments.len();
        match &self.target {
            CompiledTarget::Loaded(specialization) => {
                let inputs = specialization.executable.inputs().iter().take(count);
                inputs.cloned().map(Some).collect()
            }
            CompiledTarget::Topology(executable, _) => {
                let inputs = executable.plan().inputs.iter().cloned().map(Placement::Mesh);
                inputs.map(Some).chain(std::iter::repeat(None)).take(count).collect()
            }
        }
    }

    /// Returns the placement of each leaf of the result, in order: a device, or the sharding that
    /// was requested or that the compiler chose. `None` for a leaf whose sharding is known only
    /// once the program is loaded on its topology.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let f = jit(|x: Array| (&x * 2.0, x.sum())).in_shardings(&rows);
    /// let compiled = f.lower(Aval::new(DType::F32, [16]))?.compile()?;
    /// assert_eq!(compiled.input_shardings(), [Some(Placement::Mesh(rows.clone()))]);
    /// let outputs = compiled.output_shardings();
    /// assert_eq!(outputs[0], Some(Placement::Mesh(rows)));
    /// assert!(outputs[1].as_ref().is_some_and(|of| of.sharding().unwrap().is_replicated()));
    /// # use oxidax::parallel::Placement;
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "jax.stages.Compiled.output_shardings")]
    pub fn output_shardings(&self) -> Vec<Option<Placement>> {
        match &self.target {
            CompiledTarget::Loaded(specialization) => {
                specialization.executable.outputs().into_iter().map(Some).collect()
            }
            CompiledTarget::Topology(executable, _) => {
                let outputs = executable.plan().outputs.iter().cloned();
                let outputs = outputs.map(|output| output.map(Placement::Mesh));
                outputs.chain(std::iter::repeat(None)).take(self.names.results.len()).collect()
            }
        }
    }

    /// Returns the layout and the placement of each leaf of the arguments, in order. The layout is
    /// that of the shards: the default of the device, what
    /// [`in_layouts`](super::Jit::in_layouts) requests, or the compiler's choice for
    /// [`Layout::AUTO`]. [`device_put`](crate::parallel::device_put) takes a format.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    ///
    /// ```
    /// use oxidax::parallel::Layout;
    /// use oxidax::prelude::*;
    /// let f = jit(|x: Array| (x.t(), x.sum())).lower(Aval::new(DType::F32, [2, 3]))?.compile()?;
    /// assert_eq!(f.input_formats()?[0].layout, Layout::row_major(2));
    /// assert_eq!(f.output_formats()?[1].layout, Layout::row_major(0));
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "jax.stages.Compiled.input_formats")]
    pub fn input_formats(&self) -> Result<Vec<Format>, Error> {
        Ok(formats(self.report().layouts()?.0, self.input_shardings()))
    }

    /// Returns the layout and the placement of each leaf of the result, in order; see
    /// [`input_formats`](Self::input_formats).
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    #[doc(alias = "jax.stages.Compiled.output_formats")]
    pub fn output_formats(&self) -> Result<Vec<Format>, Error> {
        Ok(formats(self.report().layouts()?.1, self.output_shardings()))
    }

    /// Estimates the peak memory of all devices together by source line, as
    /// [`Lowered::peak_memory`](super::Lowered::peak_memory). `None` if the program is not kept;
    /// see [`program`](Self::program). The compiler's own total is that of
    /// [`report`](Self::report).
    pub fn peak_memory(&self) -> Option<Peak> {
        let program = self.program.as_ref()?;
        Some(passes::peak(program).with_paths(&self.names.arguments))
    }

    /// Returns the memory of one device over a call, by the compiled program.
    /// `None` for a topology.
    pub(super) fn device_memory(&self) -> Result<Option<StepMemory>, Error> {
        match &self.target {
            CompiledTarget::Loaded(specialization) => {
                let memory = specialization.executable.device_memory()?;
                Ok(Some(StepMemory::of_device(memory, &self.names.arguments)))
            }
            CompiledTarget::Topology(..) => Ok(None),
        }
    }

    /// Returns the program after the compiler's optimizations, as text; see
    /// [`CompilerReport::as_text`].
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide it.
    pub fn as_text(&self) -> Result<String, Error> {
        self.report().as_text()
    }

    /// Returns the executable on devices of this process.
    pub(super) fn local_executable(&self) -> Result<&Executable, Error> {
        match &self.target {
            CompiledTarget::Loaded(specialization) => Ok(&specialization.executable),
            CompiledTarget::Topology(..) => Err(self.refuse_topology()),
        }
    }

    /// Returns true if it was loaded from the disk [`cache`](crate::jit::cache) instead of
    /// compiled. Profiles then show the source lines of the process that compiled it.
    pub fn is_from_disk(&self) -> bool {
        match &self.target {
            CompiledTarget::Loaded(specialization) => specialization.executable.is_from_disk(),
            CompiledTarget::Topology(..) => false,
        }
    }

    /// Returns the number of leaves passed by value that could not be donated, because something
    /// else held them.
    pub fn not_donated(&self) -> u64 {
        self.counters.not_donated.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>, passing: &[Passing]) -> Result<O, Failure> {
        let CompiledTarget::Loaded(specialization) = &self.target else {
            return Err(self.refuse_topology().into());
        };
        let _span = Span::begin(EventKind::Call, || specialization.executable.shared_name());
        let view = Arguments::<A>(arguments);
        let scratch = match specialization.gather(&self.signature, &view) {
            Gather::Ready(scratch) => scratch,
            Gather::Misplaced(mut scratch) => {
                specialization.transfer::<A>(arguments, &mut scratch, &self.counters)?;
                scratch
            }
            Gather::Mismatch => return Err(self.mismatch(&Signature::of(&view)).into()),
            Gather::Traced(leaf) => return Err(self.refuse_traced(&leaf).into()),
        };
        let execute =
            || specialization.execute::<A>(arguments, scratch, passing, &[], &self.counters);
        let executed = if is_tracked() { Loc::caller().scope(execute) } else { execute() };
        let executed = if is_recording() { executed.and_then(finished) } else { executed };
        let result = executed.map_err(|failure| match failure.is_out_of_memory() {
            true => {
                let program = self.program.as_ref();
                let values = program.map(|program| (program, &self.names.arguments[..]));
                failure.with_values(specialization, values)
            }
            false => failure,
        });
        let (result, _) = result.map_err(|Failure { error, consumed }| {
            let cause = Cause::of_execution(&error);
            Failure { error: self.record_failure(&view, cause, error), consumed }
        })?;
        if let Some(program) = self.program.as_ref().filter(|_| is_nan_checked()) {
            let mut operands = leaves_of(&view);
            operands.extend(self.captures.iter().cloned());
            let locate = || locate_nan(program, &operands, &leaves_of(&result));
            with_argument_paths(&operands, &self.names.arguments, locate)
                .map_err(|error| self.record_failure(&view, Cause::of_nan_check(), error))?;
        }
        Ok(result)
    }

    /// Records a failed call, if failures are recorded, and returns its error.
    #[cold]
    fn record_failure(&self, arguments: &Arguments<'_, A>, cause: Cause, error: Error) -> Error {
        if !is_recording() {
            return error;
        }
        let Some(program) = &self.program else {
            let reason = "the function was loaded from bytes, without the text of its program";
            return error.with_added_help(&format!("the call is not recorded: {reason}"));
        };
        let mut inputs = leaves_of(arguments);
        inputs.extend(self.captures.iter().cloned());
        let paths = &self.names.arguments;
        let call = RecordedCall { name: self.name(), program, inputs: &inputs, paths };
        record_failure(&call, cause, error)
    }

    #[track_caller]
    fn mismatch(&self, signature: &Signature) -> Error {
        Error::Tree(Box::new(TreeError {
            path: "$".into(),
            message: format!(
                "`{}` was compiled for other arguments: {}",
                self.name(),
                self.signature.difference(signature)
            ),
            loc: Loc::caller(),
            help: Some("call the `Jit` itself, which compiles once per signature".into()),
        }))
    }

    #[track_caller]
    fn refuse_traced(&self, leaf: &Array) -> Error {
        if !trace::is_tracing() {
            return trace::escaped_error(leaf);
        }
        Error::Tracer(Box::new(TracerError {
            message: format!(
                "`{}` is compiled already, so it cannot become part of a trace",
                self.name()
            ),
            aval: leaf.aval().clone(),
            loc: Loc::caller(),
            path: trace::path(),
            help: "use the `Jit` that it was compiled from, with `apply`".into(),
        }))
    }

    fn refuse_topology(&self) -> Error {
        let topology = self.topology().map_or("", Topology::name);
        Error::Plugin(format!(
            "`{}` was compiled for {topology}, whose devices are not attached to this process\n  \
             help: `serialize` it, and `deserialize` it on a machine with such devices",
            self.name()
        ))
    }
}

impl<A, O> Compiled<A, O> {
    /// Returns the name of the function.
    pub fn name(&self) -> &str {
        match &self.target {
            CompiledTarget::Loaded(specialization) => specialization.executable.name(),
            CompiledTarget::Topology(executable, _) => executable.name(),
        }
    }
}

impl<A, O> fmt::Debug for Compiled<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            CompiledTarget::Loaded(_) => write!(f, "Compiled({})", self.name()),
            CompiledTarget::Topology(executable, _) => {
                write!(f, "Compiled({} for {})", self.name(), executable.topology().name())
            }
        }
    }
}

for_each_arity!(0..=16 call [
    (Compiled)
    /// Calls the function. Arguments passed by value are donated, those passed by reference are
    /// kept.
    ///
    /// # Errors
    /// [`Error::Tree`] names the first difference if the arguments have another structure or type
    /// than it was compiled for; [`Error::Tracer`] if one of them is traced; [`Error::Plugin`] if
    /// it was compiled for a topology; [`Error::Runtime`]. The arguments that were not consumed are
    /// returned in the error.
]);
