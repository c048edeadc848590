//! Tracing functions into programs, and running a transform at the top level as one program.
//!
//! The generic functions convert trees to lists of arrays and back. The work is done once, by
//! functions of lists.

use crate::core::options::with_error_checking;
use crate::core::spans::{EventKind, Span};
use crate::core::trace::{self, Mode, RefAccess, RefUses, Tracing};
use crate::core::{Array, ArrayRef, Aval, CheckSet, Loc, OpErrorKind, Program, backend};
use crate::passes;
use crate::primitives::constant_of;
use crate::tree::{Tree, leaves_and_refs, leaves_of, rebuild};

/// A traced function.
pub(crate) struct Traced<O> {
    /// Its inputs are the declared ones, then those of `refs`, then the captures. Its outputs are
    /// the leaves of the result, then the final values of `refs`.
    pub(crate) program: Program,
    /// Arrays from outside the function that it uses.
    pub(crate) captures: Vec<Array>,
    /// The function's result, with traced leaves.
    pub(crate) template: O,
    /// The references from outside that it uses.
    pub(crate) refs: RefUses,
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
    /// The references from outside that it uses. Their final values are the last outputs.
    pub(crate) refs: RefUses,
}

impl<O> TracedCall<O> {
    /// Returns the number of captured arrays.
    pub(crate) fn n_captures(&self) -> usize {
        self.operands.len() - self.n_arguments
    }
}

/// Traces `f` on inputs of the given types. The program's inputs are those, then the captures. `f`
/// can read references from outside, and not write them.
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
    let name = scope.clone();
    let traced = trace_with_refs(RefAccess::ReadOnly, loc, scope, avals, f);
    traced.refs.expect_no_arguments(&name);
    traced
}

/// As [`trace_function`], for a caller that writes the final values of references. `loc` is the
/// line in profiles.
#[track_caller]
pub(crate) fn trace_with_refs<O: Tree>(
    access: RefAccess,
    loc: Loc,
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Traced<O> {
    let _span = Span::at(EventKind::Trace, loc, || scope.clone());
    let mut f = Some(f);
    let mut template = None;
    let name = scope.clone();
    let avals = avals.into_iter().collect();
    let (program, captures, refs) = trace_lists(scope, avals, access, &mut |inputs| {
        let output = f.take().expect("the function is traced once")(inputs);
        let (leaves, refs) = leaves_and_refs(&output);
        if let Some(first) = refs.first() {
            throw_returned(&name, first, loc);
        }
        template = Some(output);
        leaves
    });
    Traced { program, captures, template: template.expect("the function was traced"), refs }
}

/// Throws `Op` (value) for a function that returns a reference.
fn throw_returned(function: &str, returned: &ArrayRef, loc: Loc) -> ! {
    let message = format!(
        "the function returns a reference to {}, created at {}; results are values",
        returned.aval(),
        returned.created()
    );
    let error = trace::op_error(OpErrorKind::Value, function, message, loc);
    trace::throw(error.with_help("return its value, `freeze(&r)`"))
}

/// Traces `f` on the types of the leaves of `primals`. `f` can read references from outside, and
/// not write them.
#[track_caller]
pub(crate) fn trace_call<P: Tree, O: Tree>(
    scope: String,
    f: impl FnOnce(P) -> O,
    primals: &P,
) -> TracedCall<O> {
    let name = scope.clone();
    let call = trace_call_with_refs(RefAccess::ReadOnly, scope, f, primals);
    call.refs.expect_no_arguments(&name);
    call
}

/// As [`trace_call`], for a caller that writes the final values of references.
#[track_caller]
pub(crate) fn trace_call_with_refs<P: Tree, O: Tree>(
    access: RefAccess,
    scope: String,
    f: impl FnOnce(P) -> O,
    primals: &P,
) -> TracedCall<O> {
    let mut operands = leaves_of(primals);
    let avals = operands.iter().map(|leaf| leaf.aval().clone());
    let call = |leaves| f(rebuild(primals, leaves));
    let traced = trace_with_refs(access, Loc::caller(), scope, avals, call);
    let n_arguments = operands.len();
    operands.extend(traced.captures);
    let Traced { program, template, refs, .. } = traced;
    TracedCall { program, operands, n_arguments, template, refs }
}

type ListFunction<'a> = dyn FnMut(Vec<Array>) -> Vec<Array> + 'a;

#[track_caller]
fn trace_lists(
    scope: String,
    avals: Vec<Aval>,
    access: RefAccess,
    f: &mut ListFunction<'_>,
) -> (Program, Vec<Array>, RefUses) {
    let tracing = Tracing::begin(Mode::All, Some(scope)).with_refs(access);
    let inputs = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let mut outputs = f(inputs);
    let (refs, values) = tracing.finish_refs();
    outputs.extend(values);
    let (program, captures) = tracing.finish(&outputs);
    debug_verify(&program);
    (program, captures, refs)
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

/// Closes a program over arrays that a user-defined rule created: its last inputs become constants.
fn with_constants(program: &Program, captures: &[Array]) -> Program {
    let is_concrete = captures.iter().all(|capture| !capture.is_traced());
    assert!(is_concrete, "rules on a closed program use its inputs and concrete arrays");
    let mut avals = program.avals_in();
    avals.truncate(avals.len() - captures.len());
    trace_closed(avals, &mut |mut inputs| {
        inputs.extend(captures.iter().map(constant_of));
        passes::eval(program, &inputs)
    })
}

fn trace_closed(avals: Vec<Aval>, f: &mut ListFunction<'_>) -> Program {
    let tracing = Tracing::begin(Mode::All, None);
    let inputs = avals.into_iter().map(|aval| tracing.input(aval)).collect();
    let outputs = trace::with_numbers_as_operands(false, || f(inputs));
    let (program, captures) = tracing.finish(&outputs);
    let program = if captures.is_empty() { program } else { with_constants(&program, &captures) };
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
    let tracing = Tracing::begin(Mode::All, None).with_refs(RefAccess::Captures);
    let mut outputs = trace::with_numbers_as_operands(true, work);
    let (refs, values) = tracing.finish_refs();
    outputs.extend(values);
    let (program, captures) = tracing.finish(&outputs);
    let program = passes::dce(&program);
    debug_verify(&program);
    drop(span);
    let mut outputs = run_stage(&program, &captures);
    refs.write_back(&mut outputs);
    outputs
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
