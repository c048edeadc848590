//! [`Jit`]: the signature cache, donation, and the way through an outer trace.

use super::calls::{apply, call};
use super::entry::{Entry, Failure, Spread, Staged};
use super::lowered::Lowered;
use super::stats::{Counters, JitStats};
use crate::control_flow::Call;
use crate::core::{
    Array, Cache, Error, Kind, Precision, axes, bind, bind1, catch, matmul_precision, trace,
};
use crate::parallel::Placements;
use crate::passes;
use crate::primitives::ShardingConstraint;
use crate::runtime::{Lies, blame, default_device, is_watched};
use crate::transforms::staging::{Traced, short_name, trace_function};
use crate::tree::for_each_arity;
use crate::tree::{
    Args, Arguments, Examples, Function, Gathered, Signature, Tree, TreeDef, Walk, leaves_of,
    rebuild, rooted,
};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

/// How many signatures one [`Jit`] keeps compiled unless it says otherwise.
const SIGNATURES: usize = 256;

/// A function that is traced and compiled once per signature. Made by [`jit`].
///
/// The signature of a call is the structure of its arguments with their static values, and the
/// dtype, weakness and shape of every leaf. A call under another
/// [`with_matmul_precision`](crate::core::with_matmul_precision) is another signature.
pub struct Jit<A: Args, O> {
    function: Box<dyn Fn(A) -> O + Send + Sync>,
    name: String,
    cache: Cache<CallKey, Entry<O>>,
    counters: Counters,
    in_shardings: Option<Placements>,
    out_shardings: Option<Placements>,
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
        in_shardings: None,
        out_shardings: None,
    }
}

/// By what a call finds its program.
struct CallKey {
    signature: Signature,
    /// The scope that it was traced under.
    precision: Precision,
    /// Where arrays go of which nothing is said.
    device: i32,
    /// Where the leaves lie; `None` if nobody put one anywhere.
    lies: Option<Vec<Lies>>,
}

/// Where leaves lie; `None` if nobody put one anywhere.
fn lies_of(leaves: &[Array]) -> Option<Vec<Lies>> {
    let of = |leaf: &Array| match &leaf.kind {
        Kind::Concrete(buffer) => Lies::of(buffer),
        Kind::Traced { .. } => Lies::Anywhere,
    };
    let lies: Vec<Lies> = leaves.iter().map(of).collect();
    lies.iter().any(|lies| *lies != Lies::Anywhere).then_some(lies)
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl<A: Args, O: Tree> Jit<A, O> {
    /// Sets the name that errors, profiles and lowered text show.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_string();
        self
    }

    /// How many signatures are kept compiled: 256 unless set. With one more, the one longest unused goes, and is compiled
    /// anew when it comes back; [`JitStats::evictions`] counts them. 0 counts as 1.
    ///
    /// A smaller number bounds the memory of programs whose arguments come in ever new shapes; padding these to a few sizes
    /// is faster.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let sum = jit(|x: Array| x.sum()).cache_size(2);
    /// for n in [1, 2, 1, 3, 1] {
    ///     sum.call(ones([n], DType::F32))?;
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

    /// How the arguments are to lie on a mesh: one sharding for all leaves, or a tuple with one for each argument, each a
    /// [`NamedSharding`](crate::core::NamedSharding), a [`TreeSharding`](crate::parallel::TreeSharding) with one for each leaf, or
    /// `None::<NamedSharding>`.
    ///
    /// Arguments that lie otherwise are moved before each call; [`JitStats::moved`] counts them, and the first is logged.
    /// Without it arguments stay as they lie, and those that nobody put anywhere are copied to all devices of the mesh that
    /// the others lie on.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let (whole, rows) = (mesh.replicated(), mesh.sharding(p!["data"])?);
    /// let layer = jit(|w: Array, x: Array| x.matmul(&w)).in_shardings((&whole, &rows));
    /// let y = layer.call(&ones([4, 2], DType::F32), &ones([16, 4], DType::F32))?;
    /// assert_eq!(y.sharding().map(|sharding| sharding.spec().clone()), Some(p!["data"]));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn in_shardings(mut self, shardings: impl Into<Placements>) -> Self {
        self.in_shardings = Some(shardings.into());
        self
    }

    /// How the results are to lie: one for all leaves, or a tuple with one for each part if the result is a tuple. Without
    /// it the compiler chooses, and the results say how they lie.
    #[must_use]
    pub fn out_shardings(mut self, shardings: impl Into<Placements>) -> Self {
        self.out_shardings = Some(shardings.into());
        self
    }

    fn spread(
        &self,
        counts: &[usize],
        view: &impl Walk,
        traced: &Traced<O>,
    ) -> Result<Spread, Error> {
        let mut leaves = leaves_of(view);
        let paths = TreeDef::of(view).paths().iter().map(|path| rooted(path)).collect();
        leaves.extend(traced.captures.iter().cloned());
        let lies = lies_of(&leaves).unwrap_or_else(|| vec![Lies::Anywhere; leaves.len()]);
        let inputs = match &self.in_shardings {
            Some(wished) => wished.leaves(&self.name, "in_shardings", counts)?,
            None => Vec::new(),
        };
        let outputs = match &self.out_shardings {
            Some(wished) => wished.leaves(
                &self.name,
                "out_shardings",
                &TreeDef::of(&traced.template).parts(),
            )?,
            None => Vec::new(),
        };
        Ok(Spread { lies, inputs, outputs, paths })
    }

    /// Inside of another program, leaves to lie as `wished`.
    #[track_caller]
    fn constrained(
        &self,
        wished: &Option<Placements>,
        option: &str,
        counts: &[usize],
        leaves: Vec<Array>,
    ) -> Vec<Array> {
        let Some(wished) = wished else { return leaves };
        let shardings = wished.leaves(&self.name, option, counts);
        let shardings = shardings.unwrap_or_else(|error| trace::throw(error));
        let mut constrained = Vec::with_capacity(leaves.len());
        for (leaf, sharding) in leaves.into_iter().zip(shardings) {
            constrained.push(match sharding {
                Some(sharding) => bind1(ShardingConstraint { sharding }, [&leaf]),
                None => leaf,
            });
        }
        constrained
    }

    /// What it has done so far.
    pub fn stats(&self) -> JitStats {
        self.counters.snapshot(&self.cache)
    }

    /// Traces the function on arguments of these types, without compiling or running it:
    /// [`Lowered::compile`] does that.
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
    pub fn lower(&self, arguments: impl Examples<A>) -> Result<Lowered<A, O>, Error> {
        let arguments = arguments.examples();
        let staged = self.stage(arguments.refs())?;
        Ok(Lowered::new(staged, Signature::of(&Arguments::<A>(arguments.refs()))))
    }

    fn trace(&self, arguments: A::Refs<'_>) -> Traced<O> {
        Counters::add(&self.counters.traces, 1);
        let leaves = leaves_of(&Arguments::<A>(arguments));
        let avals = leaves.iter().map(|leaf| leaf.aval().clone());
        trace_function(format!("jit({})", self.name), avals, |leaves| {
            (self.function)(A::unflatten(arguments, &mut leaves.into_iter()))
        })
    }

    fn stage(&self, arguments: A::Refs<'_>) -> Result<Staged<O>, Error> {
        let traced = catch(|| self.trace(arguments))?;
        let view = Arguments::<A>(arguments);
        let mut leaves = leaves_of(&view).into_iter();
        let counts = A::leaf_counts(arguments).into_iter();
        let avals = counts
            .map(|n| leaves.by_ref().take(n).map(|leaf| leaf.shared_aval().clone()).collect())
            .collect();
        let spread = self.spread(&A::leaf_counts(arguments), &view, &traced)?;
        Ok(Staged {
            name: self.name.clone(),
            program: passes::dce(&traced.program),
            captures: traced.captures,
            template: traced.template,
            arguments: avals,
            spread,
        })
    }

    fn compile(&self, arguments: A::Refs<'_>) -> Result<Entry<O>, Error> {
        let start = Instant::now();
        let staged = self.stage(arguments)?;
        let plan = staged.plan()?;
        let text = staged.lower(&plan)?;
        Counters::add(&self.counters.trace_nanos, nanos_since(start));
        let start = Instant::now();
        let entry = staged.load(&text, plan)?;
        Counters::add(&self.counters.compile_nanos, nanos_since(start));
        Counters::add(&self.counters.compiles, 1);
        Counters::add(&self.counters.loaded, entry.executable.is_from_disk().into());
        Ok(entry)
    }

    /// Runs it, or under a trace makes it part of that program. `owned` says which arguments were
    /// passed by value.
    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>, owned: &[bool]) -> Result<O, Failure> {
        if trace::is_tracing() {
            return Ok(self.inline(arguments));
        }
        // Names of axes need no place in the key: with one in scope, the call has gone into a trace above.
        debug_assert!(!axes::any_in_scope(), "axes are named while tracing only");
        Counters::add(&self.counters.calls, 1);
        let view = Arguments::<A>(arguments);
        if trace::jit_disabled() {
            Counters::add(&self.counters.interpreted, 1);
            let copy = A::unflatten(arguments, &mut leaves_of(&view).into_iter());
            return catch(|| (self.function)(copy)).map_err(Failure::before);
        }
        // Nearly every call is like the one before, and is recognized in the walk that gathers its
        // leaves.
        let precision = matmul_precision();
        let device = default_device().map_err(Failure::before)?;
        let recent = self.cache.get_recent(|slot| {
            if slot.key().precision != precision || slot.key().device != device {
                return None;
            }
            let mut scratch = slot.value().scratch();
            match slot.key().signature.gather(&view, &mut scratch.arguments) {
                Gathered::Differs => {
                    slot.value().keep(scratch);
                    None
                }
                Gathered::All if !slot.value().is_where(&scratch) => {
                    slot.value().keep(scratch);
                    None
                }
                gathered => Some((scratch, gathered)),
            }
        });
        let (slot, (scratch, gathered)) = match recent {
            Some(found) => found,
            None => {
                let lies = lies_of(&leaves_of(&view));
                let mut hasher = FxHasher::default();
                Signature::hash_of(&view, &mut hasher);
                (precision, device).hash(&mut hasher);
                let made = self.cache.get_or_make(
                    hasher.finish(),
                    |key| {
                        key.precision == precision
                            && key.device == device
                            && key.lies == lies
                            && key.signature.matches(&view)
                    },
                    || CallKey {
                        signature: Signature::of(&view),
                        precision,
                        device,
                        lies: lies.clone(),
                    },
                    |_| self.compile(arguments),
                );
                let slot = made.map_err(Failure::before)?;
                let mut scratch = slot.value().scratch();
                let gathered = slot.key().signature.gather(&view, &mut scratch.arguments);
                if matches!(gathered, Gathered::All) && !slot.value().is_where(&scratch) {
                    let brought = slot.value().bring::<A>(arguments, &mut scratch, &self.counters);
                    brought.map_err(Failure::before)?;
                }
                (slot, (scratch, gathered))
            }
        };
        if let Gathered::Traced(leaf) = gathered {
            // Nothing is being traced here, so it escaped its trace, or never had elements.
            return Err(Failure::before(trace::escaped_error(&leaf)));
        }
        let result = slot.value().run::<A>(arguments, scratch, owned, &self.counters)?;
        if is_watched() {
            self.blame(arguments, &result).map_err(Failure::before)?;
        }
        Ok(result)
    }

    /// Under `nan_check`, finds the operation that made a NaN.
    fn blame(&self, arguments: A::Refs<'_>, result: &O) -> Result<(), Error> {
        let traced = catch(|| self.trace(arguments))?;
        let mut operands = leaves_of(&Arguments::<A>(arguments));
        operands.extend(traced.captures);
        blame(&traced.program, &operands, &leaves_of(result))
    }

    /// Becomes part of the program being traced.
    #[track_caller]
    fn inline(&self, arguments: A::Refs<'_>) -> O {
        let leaves = leaves_of(&Arguments::<A>(arguments));
        if trace::jit_disabled() {
            return (self.function)(A::unflatten(arguments, &mut leaves.into_iter()));
        }
        let traced = self.trace(arguments);
        let counts = A::leaf_counts(arguments);
        let leaves = self.constrained(&self.in_shardings, "in_shardings", &counts, leaves);
        let operands: Vec<&Array> = leaves.iter().chain(&traced.captures).collect();
        let call = Call { name: self.name.clone(), program: Arc::new(traced.program) };
        let parts = TreeDef::of(&traced.template).parts();
        let results = bind(call, &operands);
        let results = self.constrained(&self.out_shardings, "out_shardings", &parts, results);
        rebuild(&traced.template, results)
    }
}

for_each_arity!(0..=8 call [
    Jit
    /// Runs the function, compiling it first if this signature is new. Arguments passed by value are
    /// donated, those passed by reference are kept.
    ///
    /// Inside another trace the call becomes part of that program, and errors are thrown to the
    /// outer boundary instead of returned.
    ///
    /// # Errors
    /// Whatever the function throws while it is traced, `Compile`, `Runtime`, `Plugin`. All that can
    /// be checked is checked before anything is donated, and the arguments that were not consumed
    /// come back in the error.
]);
for_each_arity!(0..=8 apply []);

#[cfg(test)]
mod tests {
    mod on_cpu {
        use super::super::*;
        use crate::core::DType;
        use crate::primitives::{ones, zeros};
        use crate::runtime::is_deleted;

        /// The lists that the call before left behind.
        fn scratch(f: &Jit<(Array, Array), Array>) -> Box<crate::runtime::Scratch> {
            let (_, scratch) = f.cache.get_recent(|slot| Some(slot.value().scratch())).unwrap();
            scratch
        }

        #[test]
        fn nothing_is_kept_of_arguments_but_places_for_results() {
            let f = jit(|x: Array, y: Array| &x + &y.sum());
            let ones = || ones([64, 64], DType::F32);
            let held = ones();
            for round in 0..3 {
                // No result can take over what `y` has, so the plugin leaves it alone.
                let y = f.call(ones(), if round == 1 { held.clone() } else { ones() }).unwrap();
                assert_eq!(y.to_vec::<f32>().unwrap()[0], 4097.0);
                if round == 0 {
                    continue; // The call that compiles is not yet found as the one before.
                }
                let left = scratch(&f);
                assert!(left.arguments.is_empty() && left.kept.is_empty());
                assert_eq!(left.spare().len(), 1, "one of both shares its memory with the result");
                assert!(left.spare().iter().all(is_deleted));
            }
            assert_eq!(f.stats().not_donated, 1);
            assert_eq!(held.to_vec::<f32>().unwrap()[0], 1.0);
        }

        #[test]
        fn results_in_the_place_of_arguments_are_their_own() {
            let f = jit(|x: Array, y: Array| &x + &y);
            let y = ones([2], DType::F32);
            let mut x = zeros([2], DType::F32);
            let mut seen = Vec::new();
            for _ in 0..5 {
                let next = f.call(x, &y).unwrap();
                seen.push(next.clone());
                x = &next * 1.0;
            }
            let seen: Vec<f32> = seen.iter().map(|x| x.to_vec::<f32>().unwrap()[1]).collect();
            assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(f.stats().not_donated, 0);
        }
    }
}
