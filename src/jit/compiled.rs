//! [`Jit`]: the signature cache, donation, and the way through an outer trace.

use super::error::CallError;
use super::lowered::Lowered;
use super::stats::{Counters, JitStats};
use crate::control_flow::Call;
use crate::core::{Array, Cache, Error, bind, catch, trace};
use crate::passes;
use crate::runtime::{Executable, blame, is_deleted, is_watched, strong_count};
use crate::transforms::staging::{Traced, jit_disabled, short_name, trace_function};
use crate::tree::{
    Arg, Args, Arguments, Examples, Function, Signature, Tree, TreeDef, leaves_of, rebuild,
};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

/// How many signatures one [`Jit`] keeps compiled.
const SIGNATURES: usize = 256;

/// What is kept for one signature.
struct Entry<O> {
    executable: Executable,
    captures: Vec<Array>,
    template: O,
}

/// A function that is traced and compiled once per signature. Made by [`jit`].
///
/// The signature of a call is the structure of its arguments with their static values, and the
/// dtype, weakness and shape of every leaf.
pub struct Jit<A: Args, O> {
    function: Box<dyn Fn(A) -> O + Send + Sync>,
    name: String,
    cache: Cache<Signature, Entry<O>>,
    counters: Counters,
}

/// Compiles `f`: traced at the first call of each signature, then run as one executable.
///
/// `f` takes owned trees. At a call each argument is passed by value, and is *donated*: its buffers
/// may be reused for the results; or by reference, and is kept. Calls return before the device is
/// done; an error of the device surfaces where the result is read. Arrays that `f` captures are
/// constants of the program.
///
/// Inside another trace a call becomes part of that program; use [`Jit::apply`] there.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let step = jit(|w: Array, x: Array| &w - &(&x * 0.1));
/// let x = ones([3], DType::F32);
/// let mut w = zeros([3], DType::F32);
/// for _ in 0..10 {
///     w = step.call(w, &x)?; // `w` is donated, `x` is kept
/// }
/// assert_eq!(step.stats().compiles, 1);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn jit<A: Args, F: Function<A> + Send + Sync + 'static>(f: F) -> Jit<A, F::Output> {
    Jit {
        name: short_name::<F>(),
        function: Box::new(move |arguments| f.apply(arguments)),
        cache: Cache::new(SIGNATURES),
        counters: Counters::default(),
    }
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A failed call: the error, and whether buffers had already been handed over.
struct Failure {
    error: Error,
    consumed: bool,
}

impl<A: Args, O: Tree> Jit<A, O> {
    /// Sets the name that errors, profiles and lowered text show.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_string();
        self
    }

    /// What it has done so far.
    pub fn stats(&self) -> JitStats {
        self.counters.snapshot(self.cache.len(), self.cache.evictions())
    }

    /// Traces the function on arguments of these types, without compiling or running it.
    ///
    /// # Errors
    /// Whatever the function throws.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let lowered = jit(|x: Array| sin(&x)).lower(Aval::new(DType::F32, [3]))?;
    /// assert!(lowered.as_text("cpu")?.contains("stablehlo.sine"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn lower(&self, arguments: impl Examples<A>) -> Result<Lowered, Error> {
        let arguments = arguments.examples();
        let traced = catch(|| self.trace(arguments.refs()))?;
        Ok(Lowered { name: self.name.clone(), program: passes::dce(&traced.program) })
    }

    fn trace(&self, arguments: A::Refs<'_>) -> Traced<O> {
        Counters::add(&self.counters.traces, 1);
        let leaves = leaves_of(&Arguments::<A>(arguments));
        let avals = leaves.iter().map(|leaf| leaf.aval().clone());
        trace_function(format!("jit({})", self.name), avals, |leaves| {
            (self.function)(A::unflatten(arguments, &mut leaves.into_iter()))
        })
    }

    fn compile(&self, arguments: A::Refs<'_>) -> Result<Entry<O>, Error> {
        let start = Instant::now();
        let traced = catch(|| self.trace(arguments))?;
        let program = passes::dce(&traced.program);
        Counters::add(&self.counters.trace_nanos, nanos_since(start));
        let start = Instant::now();
        let executable = Executable::compile(&program, &self.name, true)?;
        Counters::add(&self.counters.compile_nanos, nanos_since(start));
        Counters::add(&self.counters.compiles, 1);
        let avals = program.avals_out().into_iter().map(Array::of_type).collect();
        let template = rebuild(&traced.template, avals);
        Ok(Entry { executable, captures: traced.captures, template })
    }

    /// Runs at the top level. `owned` says which arguments were passed by value.
    fn run(&self, arguments: A::Refs<'_>, owned: &[bool]) -> Result<O, Failure> {
        let kept = |error| Failure { error, consumed: false };
        Counters::add(&self.counters.calls, 1);
        if jit_disabled() {
            let copy =
                A::unflatten(arguments, &mut leaves_of(&Arguments::<A>(arguments)).into_iter());
            return catch(|| (self.function)(copy)).map_err(kept);
        }
        let mut hasher = FxHasher::default();
        Signature::hash_of(&Arguments::<A>(arguments), &mut hasher);
        let entry = self
            .cache
            .get_or_make(
                hasher.finish(),
                |signature| signature.matches(&Arguments::<A>(arguments)),
                || Signature::of(&Arguments::<A>(arguments)),
                |_| self.compile(arguments),
            )
            .map_err(kept)?;
        let entry = entry.value();
        let mut leaves = leaves_of(&Arguments::<A>(arguments));
        let n_declared = leaves.len();
        // A program that is to run again must keep its arguments.
        let donated = match owned.contains(&true) && !is_watched() {
            true => self.donatable(arguments, &leaves, owned),
            false => Vec::new(),
        };
        leaves.extend(entry.captures.iter().cloned());
        if let Some(position) = leaves.iter().position(Array::is_traced) {
            // Nothing is being traced here, so it escaped its trace, or never had elements.
            return Err(kept(trace::escaped_error(&leaves[position])));
        }
        match entry.executable.execute(&leaves, &donated) {
            Ok(outputs) => {
                if is_watched() {
                    self.blame(arguments, &leaves[..n_declared], &outputs).map_err(kept)?;
                }
                Ok(rebuild(&entry.template, outputs))
            }
            Err(error) => {
                let lost = (0..n_declared).filter(|&at| is_deleted(&leaves[at]));
                let lost: Vec<usize> = lost.collect();
                let consumed = !lost.is_empty();
                let error = match consumed {
                    true => name_lost_leaves(
                        error,
                        TreeDef::of(&Arguments::<A>(arguments)).paths(),
                        &lost,
                    ),
                    false => error,
                };
                Err(Failure { error, consumed })
            }
        }
    }

    /// Under `nan_check`, finds the operation that made a NaN.
    fn blame(
        &self,
        arguments: A::Refs<'_>,
        leaves: &[Array],
        outputs: &[Array],
    ) -> Result<(), Error> {
        let traced = catch(|| self.trace(arguments))?;
        let leaves: Vec<Array> = leaves.iter().chain(&traced.captures).cloned().collect();
        blame(&traced.program, &leaves, outputs)
    }

    /// For each leaf, whether it may be donated: passed by value, and held by nobody but the
    /// argument itself and the list of leaves.
    fn donatable(&self, arguments: A::Refs<'_>, leaves: &[Array], owned: &[bool]) -> Vec<bool> {
        let counts = A::leaf_counts(arguments);
        let by_value = counts.iter().zip(owned).flat_map(|(&n, &owned)| vec![owned; n]);
        let donated: Vec<bool> = leaves
            .iter()
            .zip(by_value)
            .map(|(leaf, by_value)| {
                let sole = by_value && strong_count(leaf) == 2;
                if by_value && !sole {
                    Counters::add(&self.counters.not_donated, 1);
                }
                sole
            })
            .collect();
        donated
    }

    /// Becomes part of the program being traced.
    #[track_caller]
    fn inline(&self, arguments: A::Refs<'_>) -> O {
        let leaves = leaves_of(&Arguments::<A>(arguments));
        if jit_disabled() {
            return (self.function)(A::unflatten(arguments, &mut leaves.into_iter()));
        }
        let traced = self.trace(arguments);
        let operands: Vec<&Array> = leaves.iter().chain(&traced.captures).collect();
        let call = Call { name: self.name.clone(), program: Arc::new(traced.program) };
        rebuild(&traced.template, bind(call, &operands))
    }
}

fn name_lost_leaves(error: Error, paths: &[String], lost: &[usize]) -> Error {
    let names: Vec<&str> = lost.iter().map(|&at| paths[at].as_str()).collect();
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

macro_rules! calls {
    ($($($name:ident $param:ident $value:ident),*;)*) => {$(
        impl<$($name: Tree,)* O: Tree> Jit<($($name,)*), O> {
            /// Runs the function, compiling it first if this signature is new. Arguments passed by
            /// value are donated, those passed by reference are kept.
            ///
            /// Inside another trace the call becomes part of that program, and errors are thrown to
            /// the outer boundary instead of returned.
            ///
            /// # Errors
            /// Whatever the function throws while it is traced, `Compile`, `Runtime`, `Plugin`. All
            /// that can be checked is checked before anything is donated, and the arguments that
            /// were not consumed come back in the error.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn call<$($param: Arg<$name>),*>(
                &self,
                $($value: $param),*
            ) -> Result<O, CallError<<($($name,)*) as Args>::Returned>> {
                if trace::is_tracing() {
                    return Ok(self.inline(($($value.tree(),)*)));
                }
                match self.run(($($value.tree(),)*), &[$($param::OWNED),*]) {
                    Ok(output) => Ok(output),
                    Err(Failure { error, consumed }) => {
                        // Without arguments nothing can have been lost.
                        let _ = consumed;
                        let args = ($({
                            let lost = consumed && crate::tree::leaves($value.tree())
                                .iter()
                                .any(is_deleted);
                            $value.into_owned().filter(|_| !lost)
                        },)*);
                        Err(CallError { error, args: Box::new(args) })
                    }
                }
            }

            /// The function inside traced code, where errors are thrown; at the top level as
            /// [`Jit::call`], but throwing.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply<$($param: Arg<$name>),*>(&self, $($value: $param),*) -> O {
                match self.call($($value),*) {
                    Ok(output) => output,
                    Err(failed) => trace::throw(failed.error),
                }
            }
        }
    )*};
}

calls!(
    ;
    A PA a;
    A PA a, B PB b;
    A PA a, B PB b, C PC c;
    A PA a, B PB b, C PC c, D PD d;
    A PA a, B PB b, C PC c, D PD d, E PE e;
    A PA a, B PB b, C PC c, D PD d, E PE e, G PG g;
    A PA a, B PB b, C PC c, D PD d, E PE e, G PG g, H PH h;
    A PA a, B PB b, C PC c, D PD d, E PE e, G PG g, H PH h, I PI i;
);
