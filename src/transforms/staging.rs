//! Tracing functions into programs, and running a transform at the top level as one program.
//!
//! The generic functions convert trees to lists of arrays and back. The work is done once, by
//! functions of lists.

use crate::core::options::with_error_checking;
use crate::core::spans::{EventKind, Span};
use crate::core::trace::{self, Mode, Tracing};
use crate::core::{Array, Aval, CheckSet, Loc, Program, backend};
use crate::passes;
use crate::tree::{Tree, leaves_of, rebuild};

/// A traced function.
pub(crate) struct Traced<O> {
    /// Its inputs are the declared ones, then the captures.
    pub(crate) program: Program,
    /// Arrays from outside the function that it uses.
    pub(crate) captures: Vec<Array>,
    /// The function's result, with traced leaves.
    pub(crate) template: O,
}

impl<O> Traced<O> {
    /// Returns one value per input of the program: those of the declared inputs, then `captured`
    /// for every capture.
    pub(crate) fn per_input<T: Clone>(&self, mut declared: Vec<T>, captured: T) -> Vec<T> {
        declared.resize(declared.len() + self.captures.len(), captured);
        declared
    }
}

/// A function traced on the leaves of its arguments.
pub(crate) struct TracedCall<O> {
    pub(crate) program: Program,
    /// The operands of the program: the leaves of the arguments, then the captures.
    pub(crate) operands: Vec<Array>,
    /// The number of leaves of the arguments.
    pub(crate) n_arguments: usize,
    /// The function's result, with traced leaves.
    pub(crate) template: O,
}

impl<O> TracedCall<O> {
    /// Returns the number of captured arrays.
    pub(crate) fn n_captures(&self) -> usize {
        self.operands.len() - self.n_arguments
    }
}

/// Traces `f` on inputs of the given types. The program's inputs are those, then the captures.
#[track_caller]
pub(crate) fn trace_function<O: Tree>(
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Traced<O> {
    trace_function_at(Loc::caller(), scope, avals, f)
}

/// As [`trace_function`], for the line `loc` in profiles.
#[track_caller]
pub(crate) fn trace_function_at<O: Tree>(
    loc: Loc,
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Traced<O> {
    let _span = Span::at(EventKind::Trace, loc, || scope.clone());
    let mut f = Some(f);
    let mut template = None;
    let (program, captures) = trace_lists(scope, avals.into_iter().collect(), &mut |inputs| {
        let output = f.take().expect("the function is traced once")(inputs);
        let leaves = leaves_of(&output);
        template = Some(output);
        leaves
    });
    Traced { program, captures, template: template.expect("the function was traced") }
}

/// Traces `f` on the types of the leaves of `primals`.
#[track_caller]
pub(crate) fn trace_call<P: Tree, O: Tree>(
    scope: String,
    f: impl FnOnce(P) -> O,
    primals: &P,
) -> TracedCall<O> {
    let mut operands = leaves_of(primals);
    let avals = operands.iter().map(|leaf| leaf.aval().clone());
    let traced = trace_function(scope, avals, |leaves| f(rebuild(primals, leaves)));
    let n_arguments = operands.len();
    operands.extend(traced.captures);
    TracedCall { program: traced.program, operands, n_arguments, template: traced.template }
}

type ListFunction<'a> = dyn FnMut(Vec<Array>) -> Vec<Array> + 'a;

#[track_caller]
fn trace_lists(scope: String, avals: Vec<Aval>, f: &mut ListFunction<'_>) -> (Program, Vec<Array>) {
    let tracing = Tracing::begin(Mode::All, Some(scope));
    let inputs = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let outputs = f(inputs);
    let (program, captures) = tracing.finish(&outputs);
    debug_verify(&program);
    (program, captures)
}

/// Records rules into a closed program: every array they use is an input.
pub(crate) fn trace_rules(
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Program {
    let mut f = Some(f);
    trace_closed(avals.into_iter().collect(), &mut |inputs| {
        f.take().expect("the rules are traced once")(&inputs)
    })
}

fn trace_closed(avals: Vec<Aval>, f: &mut ListFunction<'_>) -> Program {
    let tracing = Tracing::begin(Mode::All, None);
    let inputs = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let outputs = trace::with_numbers_as_operands(false, || f(inputs));
    let (program, captures) = tracing.finish(&outputs);
    assert!(captures.is_empty(), "rules on a closed program use its inputs alone");
    debug_verify(&program);
    program
}

/// Checks a program made by a transform. Only in debug builds.
pub(crate) fn debug_verify(program: &Program) {
    if cfg!(debug_assertions)
        && let Err(error) = passes::verify(program)
    {
        trace::throw(error);
    }
}

/// Returns the tree with leaves that have types and no elements.
pub(crate) fn template_of<T: Tree>(tree: &T) -> T {
    let leaves = leaves_of(tree);
    rebuild(tree, leaves.iter().map(|leaf| Array::of_type(leaf.aval().clone())).collect())
}

/// Runs `f` with every program evaluated one equation at a time, each as a separate executable.
///
/// This includes the programs of `jit`, of transforms and of control flow. For debugging; slow.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32], [1])?;
/// let y = disable_jit(|| grad(|x: &Array| sin(x).sum())(&x));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_disable_jit")]
pub fn disable_jit<R>(f: impl FnOnce() -> R) -> R {
    trace::with_jit_disabled(f)
}

/// Runs `f` outside of the traces under construction: its operations are evaluated at once, and its
/// result is concrete.
///
/// A traced function computes a table or a bound of concrete arrays with it, and can read the
/// elements. Arrays that are traced outside of `f` have no elements yet and cannot be used inside.
///
/// ```
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| {
///     let table = ensure_compile_time_eval(|| arange(4.0).square());
///     let largest = ensure_compile_time_eval(|| table.max()).item::<f32>().expect("concrete");
///     x * table / largest
/// });
/// assert_eq!(f.call(ones([4]))?.to_vec::<f32>()?[3], 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn ensure_compile_time_eval<R>(f: impl FnOnce() -> R) -> R {
    trace::with_tracing_suspended(f)
}

/// Runs the work of a transform.
///
/// Inside a trace the work is recorded there. At the top level it is recorded into a program of its
/// own, which runs as one executable and is cached by its structure.
#[track_caller]
pub(crate) fn staged<O: Tree>(work: impl FnOnce() -> O) -> O {
    if trace::is_tracing() {
        return work();
    }
    let mut work = Some(work);
    let mut template = None;
    let outputs = run_staged(&mut || {
        let output = work.take().expect("staged work runs once")();
        let leaves = leaves_of(&output);
        template = Some(output);
        leaves
    });
    rebuild(&template.expect("staged work has run"), outputs)
}

#[track_caller]
fn run_staged(work: &mut dyn FnMut() -> Vec<Array>) -> Vec<Array> {
    let span = Span::begin(EventKind::Trace, || "staged");
    let tracing = Tracing::begin(Mode::All, None);
    let outputs = trace::with_numbers_as_operands(true, work);
    let (program, captures) = tracing.finish(&outputs);
    let program = passes::dce(&program);
    debug_verify(&program);
    drop(span);
    run_stage(&program, &captures)
}

/// Traces a stage that is run many times, with numbers as constants. It uses its inputs alone.
pub(crate) fn trace_stage(
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(&[Array]) -> Vec<Array>,
) -> Program {
    passes::dce(&trace_rules(avals, f))
}

/// Runs the program of a stage, as one executable unless `disable_jit` is in force.
#[track_caller]
pub(crate) fn run_stage(program: &Program, operands: &[Array]) -> Vec<Array> {
    let loc = Loc::caller();
    if let Some(checked) = trace::checked_program(program) {
        return with_error_checking(CheckSet::NONE, || run_stage(&checked, operands));
    }
    if trace::jit_disabled() {
        return passes::eval(program, operands);
    }
    backend().run(program, operands).unwrap_or_else(|error| trace::throw(error.at(loc)))
}
