//! [`Jit`]: a function compiled once per signature.

use super::call_key::{CallKey, CallScope, committed_placements, hash_of_call};
use super::call_macros::{apply, call, lower, record};
use super::call_refs::{argument_refs, ref_operands};
use super::creation::{Captured, Creation};
use super::history::History;
use super::lowered::Lowered;
use super::specialization::{Failure, Gather, Specialization, finished};
use super::stats::{Counters, JitStats};
use super::traced::{Staged, Traced};
use crate::control_flow::Call;
use crate::core::nan_check::with_argument_paths;
use crate::core::spans::{EventKind, Span};
use crate::core::trace::RefAccess;
use crate::core::{
    Array, Cache, CompileLimit, Error, LayoutMode, Loc, MemoryKind, NamedSharding, OpErrorKind,
    Program, RuleError, Slot, bind, catch, monitoring, named_axes, no_collectives, trace,
};
use crate::parallel::{LeafKeys, PerArgument};
use crate::passes::{self, Plan, PlanInput};
use crate::primitives::{constrained, in_memory};
use crate::replay::{Cause, record_failure, record_request};
use crate::runtime::{
    CompilerOptions, Scratch, committed_placement, is_nan_checked, is_recording, is_tracked,
    locate_nan,
};
use crate::transforms::staging::{self, trace_rules, trace_with_refs};
use crate::tree::{
    Args, Arguments, Function, Passing, Transformed, Tree, TreeDef, for_each_arity, leaves_of,
    rebuild,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Default number of signatures that one [`Jit`] keeps compiled.
const SIGNATURES: usize = 256;

/// A function that is traced and compiled once per signature. Made by [`jit`].
///
/// The signature of a call is the structure of its arguments with their static values, and the
/// dtype, weakness and shape of every leaf. The scope of
/// [`with_matmul_precision`](crate::core::with_matmul_precision) and the placements of the
/// arguments are part of the cache key too.
pub struct Jit<'f, A: Args, O> {
    function: Box<dyn Fn(A) -> O + Send + Sync + 'f>,
    pub(super) name: Arc<str>,
    pub(super) cache: Cache<CallKey, Specialization<O>>,
    counters: Counters,
    pub(super) creation: Creation,
    pub(super) limit: Option<CompileLimit>,
    pub(super) history: Mutex<History>,
    in_shardings: Option<PerArgument<NamedSharding>>,
    out_shardings: Option<PerArgument<NamedSharding>>,
    pub(super) in_layouts: Option<PerArgument<LayoutMode>>,
    pub(super) out_layouts: Option<PerArgument<LayoutMode>>,
    compiler_options: CompilerOptions,
    /// No collective is allowed in the whole function.
    refuses_collectives: bool,
    /// Inside another trace, the operations become part of that program without a call.
    is_inlined: bool,
}

/// Compiles `f`: traced at the first call of each signature, then run as one executable.
///
/// An argument that a call passes by value is *donated*: its buffers may be reused for the results.
/// An argument passed by reference is kept. Whether `f` itself takes values or references makes no
/// difference. Calls return before the device has finished; an error of the device is reported
/// where the result is read. Arrays that `f` captures are constants of the program.
///
/// # State that `f` captures
///
/// `f` runs while it is traced, once per signature. What it does besides computing arrays happens
/// then, and not at later calls: a print, a counter, a push to a vector behind a `Mutex`. A number
/// that it reads from a `Mutex` or `Cell` becomes a constant of the program. Nothing reports this,
/// as in JAX. Pass the value as an argument and return the new one, keep it in an
/// [`ArrayRef`](crate::core::ArrayRef), which is read and written at each call, or use
/// [`debug::callback`](crate::debug::callback) or [`io_callback`](crate::debug::io_callback), which
/// run at each call.
///
/// ```
/// use oxidax::prelude::*;
/// use std::sync::Mutex;
/// let factor = Mutex::new(2.0_f32);
/// let scale = jit(|x: Array| x * *factor.lock().unwrap());
/// assert_eq!(scale.call(ones([]))?.item::<f32>()?, 2.0);
/// *factor.lock().unwrap() = 3.0;
/// // The program still has the factor of the trace.
/// assert_eq!(scale.call(ones([]))?.item::<f32>()?, 2.0);
/// // As an argument, it can change.
/// let scale = jit(|x: Array, factor: Array| x * factor);
/// assert_eq!(scale.call(ones([]), full([], 3.0_f32))?.item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Inside another trace a call becomes part of that program; use [`Jit::apply`] there.
///
/// ```
/// use oxidax::prelude::*;
/// let step = jit(|w: Array, x: Array| &w - &(&x * 0.1));
/// let x = ones([3]);
/// let mut w = zeros([3]);
/// for _ in 0..10 {
///     w = step.call(w, &x)?; // `w` is donated, `x` is kept
/// }
/// assert_eq!(step.stats().compiles, 1);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "mark_step")]
#[doc(alias = "torch.compile")]
#[track_caller]
pub fn jit<'f, A: Args, M: 'f, F>(f: F) -> A::Callable<Jit<'f, A, F::Output>>
where
    F: Function<A, M> + Send + Sync + 'f,
{
    A::callable(Jit::new(f, Loc::caller()))
}

/// A compiled program, and what is remembered of its compilation if it was compiled for this call.
pub(super) struct Found<O> {
    pub(super) slot: Arc<Slot<CallKey, Specialization<O>>>,
    pub(super) compiled: Option<(Captured, Duration)>,
}

/// A compiled program found in the cache, with the gathered arguments of the call.
struct Hit<O> {
    slot: Arc<Slot<CallKey, Specialization<O>>>,
    scratch: Box<Scratch>,
}

/// A compilation that is requested by a call, or ahead of it.
#[derive(Clone, Copy)]
pub(super) struct CompileRequest {
    /// The line of the call.
    pub(super) loc: Loc,
    /// True for `compile_ahead`.
    pub(super) is_ahead: bool,
}

/// A function compiled for one signature, with what is remembered of its compilation.
pub(super) struct CompiledNow<O> {
    pub(super) specialization: Specialization<O>,
    pub(super) captured: Captured,
    pub(super) duration: Duration,
}

impl<'f, A: Args, O: Tree> Jit<'f, A, O> {
    /// Creates a function that the line `loc` compiles.
    pub(super) fn new<M: 'f, F>(f: F, loc: Loc) -> Jit<'f, A, O>
    where
        F: Function<A, M, Output = O> + Send + Sync + 'f,
    {
        Jit {
            name: f.name().into(),
            creation: Creation::of::<F>(loc),
            limit: None,
            history: Mutex::default(),
            function: Box::new(move |arguments| f.apply(arguments)),
            cache: Cache::new(SIGNATURES),
            counters: Counters::default(),
            in_shardings: None,
            out_shardings: None,
            in_layouts: None,
            out_layouts: None,
            compiler_options: CompilerOptions::default(),
            refuses_collectives: false,
            is_inlined: false,
        }
    }

    /// Sets the name shown in errors, profiles and lowered text.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the number of signatures that are kept compiled, 256 by default; 0 counts as 1.
    ///
    /// When the cache is full, the least recently used signature is dropped, and compiled again
    /// when it is called again. [`JitStats::evictions`] counts them. A smaller number bounds the
    /// memory of programs whose arguments have many shapes; padding these to a few sizes is faster.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let sum = jit(|x: Array| x.sum()).cache_size(2);
    /// for n in [1, 2, 1, 3, 1] {
    ///     sum.call(ones([n]))?;
    /// }
    /// let stats = sum.stats();
    /// assert_eq!((stats.hits, stats.misses, stats.evictions, stats.signatures), (2, 3, 1, 2));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn cache_size(self, signatures: usize) -> Self {
        self.cache.set_capacity(signatures);
        self
    }

    /// Sets the shardings of the arguments: one for all leaves, or a tuple with one for each
    /// argument. Each is a [`NamedSharding`], a [`TreeSharding`](crate::parallel::TreeSharding)
    /// with one for each leaf, or `None::<NamedSharding>`.
    ///
    /// Arguments with another placement are transferred before each call; [`JitStats::transferred`]
    /// counts them, and the first is logged. Without this option arguments stay where they are, and
    /// uncommitted ones are copied to all devices of the mesh that the others are on.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let (replicated, rows) = (mesh.replicated(), mesh.sharding(p!["data"])?);
    /// let layer = jit(|w: Array, x: Array| x.matmul(&w)).in_shardings((&replicated, &rows));
    /// let y = layer.call(&ones([4, 2]), &ones([16, 4]))?;
    /// assert_eq!(y.sharding().map(|sharding| sharding.spec().clone()), Some(p!["data"]));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn in_shardings(mut self, shardings: impl Into<PerArgument<NamedSharding>>) -> Self {
        self.in_shardings = Some(Loc::caller().scope(|| shardings.into()));
        self
    }

    /// Sets the shardings of the results: one for all leaves, or a tuple with one for each part of
    /// a tuple. Without this option the compiler chooses; [`Array::sharding`] returns its choice.
    #[must_use]
    #[track_caller]
    pub fn out_shardings(mut self, shardings: impl Into<PerArgument<NamedSharding>>) -> Self {
        self.out_shardings = Some(Loc::caller().scope(|| shardings.into()));
        self
    }

    /// Sets flags and effort of the compiler; see [`CompilerOptions`].
    ///
    /// They apply to the whole program, so inside another trace, where the call becomes part of
    /// that program, they are an error: set them on the outermost `jit`.
    ///
    /// ```no_run
    /// use oxidax::jit::{CompilerOptions, EffortLevel};
    /// use oxidax::prelude::*;
    /// let options = CompilerOptions::from([("xla_cpu_enable_fast_math", true)])
    ///     .optimization_level(EffortLevel::O3);
    /// let f = jit(|x: Array| sin(&x)).compiler_options(options);
    /// f.call(ones([4]))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn compiler_options(mut self, options: impl Into<CompilerOptions>) -> Self {
        self.compiler_options = options.into();
        self
    }

    /// Makes the operations part of the surrounding program inside another trace, instead of a call
    /// of a function. The results are the same; the printed program and profiles do not show the
    /// call. By default there is a call, and equal calls share one function.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let double = jit(|x: Array| x * 2.0).inline();
    /// let outer = move |x: Array| sin(&double.apply(x));
    /// let program = make_program(outer, Aval::new(DType::F32, [3]))?;
    /// assert!(!program.to_string().contains("call"), "{program}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn inline(mut self) -> Self {
        self.is_inlined = true;
        self
    }

    /// Makes every exchange between devices an error: of the compilation, before the function runs
    /// and before anything is donated. See [`no_collectives`], which covers a part of a function.
    ///
    /// It covers all collectives of the compiled program, also those that move arguments and
    /// results. Inside another trace it covers the operations of the function.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let double = || jit(|x: Array| &x * 2.0).in_shardings(&rows).no_collectives();
    /// double().call(ones([16, 4]))?;
    /// let gathers = double().out_shardings(mesh.replicated());
    /// let error = gathers.call(ones([16, 4])).unwrap_err().error.to_string();
    /// assert!(error.contains("`out_shardings` asks for p![]"), "{error}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn no_collectives(mut self) -> Self {
        self.refuses_collectives = true;
        self
    }

    /// Returns counts and times of the calls so far.
    pub fn stats(&self) -> JitStats {
        self.counters.snapshot(&self.cache)
    }

    #[track_caller]
    pub(super) fn lower_arguments(&self, arguments: &A) -> Result<Lowered<A, O>, Error> {
        let traced = self.trace(arguments.refs(), Loc::caller())?;
        traced.expect_no_refs(Loc::caller())?;
        Ok(Lowered::new(traced, &Arguments::<A>(arguments.refs())))
    }

    /// Returns the requested sharding of each leaf of the arguments.
    fn argument_shardings(
        &self,
        arguments: A::Refs<'_>,
    ) -> Result<Vec<Option<NamedSharding>>, Error> {
        let counts = A::leaf_counts(arguments);
        match &self.in_shardings {
            Some(requested) => {
                let keys = LeafKeys::of_arguments(counts, &Arguments::<A>(arguments));
                requested.shardings(&self.name, "in_shardings", &keys)
            }
            None => Ok(vec![None; counts.iter().sum()]),
        }
    }

    /// Traces the function. `loc` is the line that profiles show, if it is not that of the call.
    #[track_caller]
    fn trace_program(
        &self,
        access: RefAccess,
        arguments: A::Refs<'_>,
        shardings: &[Option<NamedSharding>],
        loc: Loc,
    ) -> staging::Traced<O> {
        Counters::add(&self.counters.traces, 1);
        let leaves = leaves_of(&Arguments::<A>(arguments));
        let avals = leaves.iter().zip(shardings).map(|(leaf, sharding)| match sharding {
            Some(sharding) => leaf.aval().with_sharding(sharding),
            None => leaf.aval().clone(),
        });
        trace_with_refs(access, loc, format!("jit({})", self.name), avals, |leaves| {
            let arguments = A::unflatten(arguments, &mut leaves.into_iter());
            match self.refuses_collectives {
                true => no_collectives(|| (self.function)(arguments)),
                false => (self.function)(arguments),
            }
        })
    }

    /// Traces the function and decides the placement of its arguments and results. `loc` is the
    /// line that profiles show, if it is not that of the call.
    fn trace(&self, arguments: A::Refs<'_>, loc: Loc) -> Result<Traced<O>, Error> {
        let view = Arguments::<A>(arguments);
        let counts = A::leaf_counts(arguments);
        let leaves = leaves_of(&view);
        let shardings = self.argument_shardings(arguments)?;
        let trace = || self.trace_program(RefAccess::Inputs, arguments, &shardings, loc);
        let staged = catch(|| trace::with_numbers_as_operands(false, trace))?;
        let paths = TreeDef::of(&view).rooted_paths();
        let checked = trace::checked_program(&staged.program);
        let program = passes::dce(checked.as_ref().unwrap_or(&staged.program));
        let keys = LeafKeys::of_arguments(counts.clone(), &view);
        let plan = self.plan((shardings, keys), &leaves, &paths, &program, &staged)?;
        let program = with_outputs_in_memories(program, &plan.outputs);
        let mut leaves = leaves.into_iter();
        let mut avals = Vec::with_capacity(counts.len());
        for count in counts {
            let leaves = leaves.by_ref().take(count);
            avals.push(leaves.map(|leaf| leaf.shared_aval().clone()).collect());
        }
        Ok(Traced {
            name: self.name.to_string(),
            program,
            captures: staged.captures,
            refs: staged.refs,
            template: staged.template,
            arguments: avals,
            paths,
            plan,
            compiler_options: self.compiler_options.clone(),
            refuses_collectives: self.refuses_collectives,
        })
    }

    fn plan(
        &self,
        (shardings, keys): (Vec<Option<NamedSharding>>, LeafKeys),
        leaves: &[Array],
        paths: &[String],
        program: &Program,
        staged: &staging::Traced<O>,
    ) -> Result<Plan, Error> {
        let outputs = match &self.out_shardings {
            Some(requested) => {
                let keys = LeafKeys::of_result(&staged.template);
                let mut requested = requested.shardings(&self.name, "out_shardings", &keys)?;
                requested.resize(requested.len() + staged.refs.n_written(), None);
                requested
            }
            None => Vec::new(),
        };
        let arguments = leaves.iter().zip(paths).zip(shardings);
        let mut inputs: Vec<PlanInput> = arguments
            .map(|((leaf, path), sharding)| PlanInput {
                path: Some(path.clone()),
                committed: committed_placement(leaf),
                sharding,
            })
            .collect();
        let values: Vec<Array> = ref_operands(&staged.refs).collect();
        inputs.extend(values.iter().chain(&staged.captures).map(|capture| PlanInput {
            committed: committed_placement(capture),
            ..PlanInput::default()
        }));
        let plan = Plan::new(&self.name, program, &inputs, &outputs)?;
        let results = LeafKeys::of_result(&staged.template);
        Ok(Plan { layouts: self.layouts(program, [keys, results])?, ..plan })
    }

    /// Traces and lowers the function.
    pub(super) fn stage(&self, arguments: A::Refs<'_>) -> Result<Staged<O>, Error> {
        let start = Instant::now();
        let traced = self.trace(arguments, Loc::UNKNOWN)?;
        let trace_time = start.elapsed();
        Counters::add_time(&self.counters.trace_nanos, trace_time);
        monitoring::record_duration_of("/oxidax/compile/trace_duration", &self.name, trace_time);
        let module = traced.lower()?;
        let duration = start.elapsed();
        Counters::add_time(&self.counters.lower_nanos, duration - trace_time);
        Ok(Staged { traced, module, duration })
    }

    /// Compiles a staged function, or loads it from disk.
    pub(super) fn load(&self, staged: Staged<O>) -> Result<CompiledNow<O>, Error> {
        let Staged { traced, module, duration } = staged;
        let start = Instant::now();
        let specialization = traced.load(&module, &traced.compiler_options)?;
        let took = start.elapsed();
        let is_from_disk = specialization.executable.is_from_disk();
        let counter = match is_from_disk {
            true => &self.counters.load_nanos,
            false => &self.counters.compile_nanos,
        };
        Counters::add_time(counter, took);
        Counters::add(&self.counters.compiles, 1);
        Counters::add(&self.counters.loaded, is_from_disk.into());
        Counters::add(&self.counters.bytes_transferred, specialization.capture_bytes());
        let captured = Captured::new(&traced.program, &traced.captures, self.options());
        Ok(CompiledNow { specialization, captured, duration: duration + took })
    }

    fn compile(&self, arguments: A::Refs<'_>) -> Result<CompiledNow<O>, Error> {
        self.load(self.stage(arguments)?)
    }

    /// Returns the options, by name, as reports compare them.
    fn options(&self) -> Vec<(String, String)> {
        let mut options = self.compiler_options.described();
        let shardings =
            [("in_shardings", &self.in_shardings), ("out_shardings", &self.out_shardings)];
        for (name, requested) in shardings {
            options.extend(requested.as_ref().map(|it| (name.to_string(), format!("{it:?}"))));
        }
        let layouts = [("in_layouts", &self.in_layouts), ("out_layouts", &self.out_layouts)];
        for (name, requested) in layouts {
            options.extend(requested.as_ref().map(|it| (name.to_string(), format!("{it:?}"))));
        }
        options
    }

    /// Calls the function, or under a trace makes it part of that program. `passing` says
    /// how each argument was passed.
    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>, passing: &[Passing]) -> Result<O, Failure> {
        if trace::is_tracing() {
            return Ok(self.apply_in_trace(arguments));
        }
        // Named axes are not part of the cache key: with one in scope, the call was inlined above.
        debug_assert!(!named_axes::any_in_scope(), "axes are named while tracing only");
        let span = Span::begin(EventKind::Call, || self.name.clone());
        Counters::add(&self.counters.calls, 1);
        if trace::jit_disabled() {
            return Ok(self.interpret(arguments, Loc::caller())?);
        }
        let refs = argument_refs(&Arguments::<A>(arguments))?;
        let scope = CallScope::current()?;
        let hit = match self.lookup(arguments, scope)? {
            Some(hit) => hit,
            None => self.lookup_or_compile(arguments, scope, &span)?,
        };
        let specialization = hit.slot.value();
        let counters = &self.counters;
        let execute =
            || specialization.execute::<A>(arguments, hit.scratch, passing, &refs, counters);
        let executed = if is_tracked() { Loc::caller().scope(execute) } else { execute() };
        let executed = if is_recording() { executed.and_then(finished) } else { executed };
        let result = executed.map_err(|failure| match failure.is_out_of_memory() {
            // The program is not kept: it is traced again for its values and their lines.
            true => match catch(|| self.trace(arguments, Loc::UNKNOWN)) {
                Ok(Ok(traced)) => {
                    let values = (&traced.program, traced.paths());
                    failure.with_values(specialization, Some(values))
                }
                _ => failure.with_values(specialization, None),
            },
            false => failure,
        });
        let (result, finals) = result.map_err(|Failure { error, consumed }| {
            let cause = Cause::of_execution(&error);
            Failure { error: self.record_failure(arguments, cause, error), consumed }
        })?;
        if is_nan_checked() {
            self.locate_nan(arguments, &result, &finals)
                .map_err(|error| self.record_failure(arguments, Cause::of_nan_check(), error))?;
        }
        specialization.refs.write(&refs, finals);
        Ok(result)
    }

    /// Looks for the program of the previous call, which is by far the most frequent case. Its
    /// signature is checked in the same walk that gathers the arguments.
    #[track_caller]
    fn lookup(&self, arguments: A::Refs<'_>, scope: CallScope) -> Result<Option<Hit<O>>, Error> {
        let view = Arguments::<A>(arguments);
        let recent = self.cache.get_recent(|slot| {
            if slot.key().scope != scope {
                return None;
            }
            match slot.value().gather(&slot.key().signature, &view) {
                Gather::Ready(scratch) => Some(Ok(scratch)),
                Gather::Traced(leaf) => Some(Err(leaf)),
                Gather::Misplaced(scratch) => {
                    slot.value().discard(scratch);
                    None
                }
                Gather::Mismatch => None,
            }
        });
        match recent {
            Some((slot, Ok(scratch))) => Ok(Some(Hit { slot, scratch })),
            // Nothing is traced here: the leaf escaped its trace, or never had elements.
            Some((_, Err(leaf))) => Err(trace::escaped_error(&leaf)),
            None => Ok(None),
        }
    }

    /// Compiles the function for arguments of these types, unless it is compiled already.
    #[track_caller]
    pub(super) fn compile_arguments(&self, arguments: &A) -> Result<(), Error> {
        if trace::jit_disabled() {
            return Ok(());
        }
        let request = CompileRequest { loc: Loc::caller(), is_ahead: true };
        let arguments = arguments.refs();
        let compile = || self.compile(arguments);
        self.slot(arguments, CallScope::current()?, request, compile).map(|_| ())
    }

    /// Looks for the program by its whole key, and compiles and reports it if necessary.
    fn slot(
        &self,
        arguments: A::Refs<'_>,
        scope: CallScope,
        request: CompileRequest,
        compile: impl FnOnce() -> Result<CompiledNow<O>, Error>,
    ) -> Result<Arc<Slot<CallKey, Specialization<O>>>, Error> {
        let mut found = self.find_or_compile(arguments, scope, request, compile)?;
        self.note_found(&mut found, request);
        Ok(found.slot)
    }

    /// Looks for the program by its whole key, and compiles it if necessary.
    pub(super) fn find_or_compile(
        &self,
        arguments: A::Refs<'_>,
        scope: CallScope,
        request: CompileRequest,
        compile: impl FnOnce() -> Result<CompiledNow<O>, Error>,
    ) -> Result<Found<O>, Error> {
        let view = Arguments::<A>(arguments);
        let committed = committed_placements(&leaves_of(&view));
        let mut compiled = None;
        let slot = self.cache.get_or_try_make(
            hash_of_call(&view, scope),
            |key| key.matches(&view, scope, &committed),
            || {
                let key = CallKey::of(&view, scope);
                self.check_limit(&key, request).map(|()| key)
            },
            |key| {
                // Another thread may have failed to compile it, and the limit be reached now.
                self.check_limit(key, request)?;
                Counters::add(&self.counters.ahead, request.is_ahead.into());
                let CompiledNow { specialization, captured, duration } = compile()?;
                compiled = Some((captured, duration));
                Ok(specialization)
            },
        )?;
        Ok(Found { slot, compiled })
    }

    /// Looks for the program by its whole key, compiles it if necessary, and transfers the
    /// arguments.
    #[cold]
    #[track_caller]
    fn lookup_or_compile(
        &self,
        arguments: A::Refs<'_>,
        scope: CallScope,
        span: &Span,
    ) -> Result<Hit<O>, Error> {
        let request = CompileRequest { loc: Loc::caller(), is_ahead: false };
        let slot = self.slot(arguments, scope, request, || {
            span.add("compiled", true);
            self.compile(arguments)
        })?;
        let view = Arguments::<A>(arguments);
        let specialization = slot.value();
        let scratch = match specialization.gather(&slot.key().signature, &view) {
            Gather::Ready(scratch) => scratch,
            Gather::Misplaced(mut scratch) => {
                specialization.transfer::<A>(arguments, &mut scratch, &self.counters)?;
                scratch
            }
            Gather::Traced(leaf) => return Err(trace::escaped_error(&leaf)),
            Gather::Mismatch => unreachable!("the signature of the key is that of the call"),
        };
        Ok(Hit { slot, scratch })
    }

    /// Runs the function operation by operation, under `disable_jit`.
    fn interpret(&self, arguments: A::Refs<'_>, caller: Loc) -> Result<O, Error> {
        Counters::add(&self.counters.interpreted, 1);
        let mut leaves = leaves_of(&Arguments::<A>(arguments)).into_iter();
        let arguments = A::unflatten(arguments, &mut leaves);
        catch(|| {
            trace::interpreted(format!("jit({})", self.name), caller, || (self.function)(arguments))
        })
    }

    /// Under `nan_check`, finds the operation that produced a NaN.
    fn locate_nan(
        &self,
        arguments: A::Refs<'_>,
        result: &O,
        finals: &[Array],
    ) -> Result<(), Error> {
        let shardings = self.argument_shardings(arguments)?;
        let staged =
            catch(|| self.trace_program(RefAccess::Inputs, arguments, &shardings, Loc::UNKNOWN))?;
        let mut operands = leaves_of(&Arguments::<A>(arguments));
        operands.extend(ref_operands(&staged.refs));
        operands.extend(staged.captures);
        let mut results = leaves_of(result);
        results.extend_from_slice(finals);
        let paths = TreeDef::of(&Arguments::<A>(arguments)).rooted_paths();
        with_argument_paths(&operands, &paths, || locate_nan(&staged.program, &operands, &results))
    }

    /// Records a failed call, if failures are recorded, and returns its error. The program is not
    /// kept: it is traced again.
    #[cold]
    fn record_failure(&self, arguments: A::Refs<'_>, cause: Cause, error: Error) -> Error {
        if !is_recording() {
            return error;
        }
        match self.trace_call(arguments) {
            Ok((traced, inputs)) => record_failure(&traced.call(&inputs), cause, error),
            Err(reason) => error.with_added_help(&format!("the call is not recorded: {reason}")),
        }
    }

    /// Traces the function, and returns the inputs of its program.
    fn trace_call(&self, arguments: A::Refs<'_>) -> Result<(Traced<O>, Vec<Array>), Error> {
        let traced = catch(|| self.trace(arguments, Loc::UNKNOWN))??;
        let inputs = traced.operands(leaves_of(&Arguments::<A>(arguments)));
        Ok((traced, inputs))
    }

    fn record_call(&self, path: &Path, arguments: A::Refs<'_>) -> Result<(), Error> {
        let (traced, inputs) = self.trace_call(arguments)?;
        record_request(&traced.call(&inputs), path)
    }

    /// Makes the call part of the program being traced.
    #[track_caller]
    fn apply_in_trace(&self, arguments: A::Refs<'_>) -> O {
        let leaves = leaves_of(&Arguments::<A>(arguments));
        if trace::jit_disabled() {
            let arguments = A::unflatten(arguments, &mut leaves.into_iter());
            let scope = format!("jit({})", self.name);
            return trace::interpreted(scope, Loc::caller(), || (self.function)(arguments));
        }
        if !self.compiler_options.is_empty() {
            let message = format!("`{}` has compiler options inside another trace", self.name);
            let error = trace::op_error(OpErrorKind::Value, "jit", message, Loc::caller());
            trace::throw(error.with_help("set them on the outermost `jit`"));
        }
        self.refuse_layouts_in_trace(Loc::caller());
        let shardings = self.argument_shardings(arguments);
        let shardings = shardings.unwrap_or_else(|error| trace::throw(error));
        let staged = self.trace_program(RefAccess::Captures, arguments, &shardings, Loc::caller());
        let leaves = self.constrain(shardings, "in_shardings", leaves);
        let operands: Vec<&Array> = leaves.iter().chain(&staged.captures).collect();
        let mut results = if self.is_inlined {
            let operands: Vec<Array> = operands.into_iter().cloned().collect();
            passes::eval(&staged.program, &operands)
        } else {
            let call = Call { name: self.name.to_string(), program: Arc::new(staged.program) };
            bind(call, &operands)
        };
        staged.refs.write_back(&mut results);
        if let Some(requested) = &self.out_shardings {
            let keys = LeafKeys::of_result(&staged.template);
            let shardings = requested.shardings(&self.name, "out_shardings", &keys);
            let shardings = shardings.unwrap_or_else(|error| trace::throw(error));
            results = self.constrain(shardings, "out_shardings", results);
        }
        rebuild(&staged.template, results)
    }

    /// Applies `in_shardings` or `out_shardings` to leaves inside another program.
    #[track_caller]
    fn constrain(
        &self,
        shardings: Vec<Option<NamedSharding>>,
        option: &str,
        leaves: Vec<Array>,
    ) -> Vec<Array> {
        let mut placed = Vec::with_capacity(leaves.len());
        for (leaf, sharding) in leaves.into_iter().zip(shardings) {
            placed.push(match sharding {
                Some(sharding) => {
                    let shape = sharding.spec().shard_shape(sharding.mesh(), leaf.shape());
                    if let Err(error) = shape {
                        let message = format!("{option}: {}", error.message);
                        let error = RuleError { message, ..error };
                        trace::throw(trace::rule_error(&self.name, error, Loc::caller()));
                    }
                    constrained(&leaf, sharding)
                }
                None => leaf,
            });
        }
        placed
    }
}

/// Moves the outputs of a program to the memories of the shardings that are requested for them.
fn with_outputs_in_memories(program: Program, outputs: &[Option<NamedSharding>]) -> Program {
    let memories = program.avals_out().into_iter().enumerate().map(|(index, aval)| {
        let requested = outputs.get(index).and_then(Option::as_ref);
        (aval.memory, requested.map_or(aval.memory, NamedSharding::memory_kind))
    });
    let memories: Vec<(MemoryKind, MemoryKind)> = memories.collect();
    if memories.iter().all(|(current, requested)| current == requested) {
        return program;
    }
    trace_rules(program.avals_in(), |inputs| {
        let outputs = passes::eval(&program, inputs).into_iter().zip(&memories);
        outputs.map(|(output, (_, requested))| in_memory(&output, *requested)).collect()
    })
}

#[diagnostic::do_not_recommend]
impl<A: Args, O: Tree> Function<A, Transformed> for Jit<'_, A, O> {
    type Output = O;
    /// As [`Jit::apply`] with arguments by value.
    #[track_caller]
    fn apply(&self, arguments: A) -> O {
        let passing = vec![Passing::Value; A::leaf_counts(arguments.refs()).len()];
        match self.run(arguments.refs(), &passing) {
            Ok(output) => output,
            Err(failure) => trace::throw(failure.error.at(Loc::caller())),
        }
    }
    fn name(&self) -> String {
        self.name.to_string()
    }
}

for_each_arity!(0..=16 call [
    (Jit '_)
    /// Calls the function, compiling it first if this signature is new. Arguments passed by value
    /// are donated, those passed by reference are kept.
    ///
    /// Inside another trace the call becomes part of that program, and errors are thrown to the
    /// outer boundary instead of returned.
    ///
    /// # Errors
    /// Errors that the function throws while it is traced, `Compile`, `Runtime`, `Plugin`.
    /// Everything that can be checked is checked before anything is donated, and the arguments that
    /// were not consumed are returned in the error.
]);
for_each_arity!(0..=16 apply []);
for_each_arity!(0..=16 lower []);
for_each_arity!(0..=8 record []);

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
