//! Conversion of closures to programs. Captured values become inputs, and the types of loop carries
//! are checked.

use super::derive::{avals_of, retrace_varying};
use crate::core::trace::{RefAccess, RefUses};
use crate::core::{
    Array, Aval, Error, Loc, OpErrorKind, Program, TreeError, Varying, promote, trace,
};
use crate::passes;
use crate::primitives::{convert_to, vary};
use crate::transforms::staging::{trace_rules, trace_with_refs};
use crate::tree::{Difference, Tree, TreeDef, leaves_of, rooted, short_name};

/// A user's call of a control-flow function, for errors.
pub(super) struct CallSite {
    /// The function that was called.
    pub(super) name: &'static str,
    /// The entry in the path of transforms while the user's closure is traced.
    pub(super) scope: String,
    /// The line of the call.
    pub(super) loc: Loc,
}

impl CallSite {
    /// Creates the site of a call of the function `name` with a closure of type `F`.
    pub(super) fn new<F>(name: &'static str, loc: Loc) -> CallSite {
        CallSite::of(name, &short_name::<F>(), loc)
    }

    /// Creates the site of a call of the function `name` with the closure called `closure`.
    pub(super) fn of(name: &'static str, closure: &str, loc: Loc) -> CallSite {
        CallSite { name, scope: format!("{name}({closure})"), loc }
    }

    /// Traces `f` on inputs of the given types.
    pub(super) fn close<O: Tree>(
        &self,
        avals: impl IntoIterator<Item = Aval>,
        f: impl FnOnce(Vec<Array>) -> O,
    ) -> Closure<O> {
        self.loc.scope(|| close(self.scope.clone(), avals, f))
    }

    /// Traces `f`, which runs several times, on inputs of the given types. The references that it
    /// uses are inputs after the declared ones.
    pub(super) fn close_body<O: Tree>(
        &self,
        avals: impl IntoIterator<Item = Aval>,
        f: impl FnOnce(Vec<Array>) -> O,
    ) -> Closure<O> {
        let close = || close_with_refs(RefAccess::Inputs, self.scope.clone(), avals, f);
        let closure = self.loc.scope(close);
        self.loc.scope(|| closure.refs.expect_no_arguments(self.name));
        closure
    }
}

/// A traced closure. The inputs of its program are the captured values, the declared inputs, then
/// those of references. The last outputs are the final values of references.
pub(super) struct Closure<O> {
    pub(super) program: Program,
    pub(super) captures: Vec<Array>,
    pub(super) template: O,
    pub(super) refs: RefUses,
}

/// Traces `f` on inputs of the given types. It can read references from outside, and not write
/// them.
pub(super) fn close<O: Tree>(
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Closure<O> {
    let name = scope.clone();
    let closure = close_with_refs(RefAccess::ReadOnly, scope, avals, f);
    closure.refs.expect_no_arguments(&name);
    closure
}

/// As [`close`], for a caller that writes the final values of references.
pub(super) fn close_with_refs<O: Tree>(
    access: RefAccess,
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Closure<O> {
    let traced = trace::with_numbers_as_operands(trace::are_operands(), || {
        trace_with_refs(access, Loc::scoped(), scope, avals, f)
    });
    Closure {
        program: with_last_inputs_first(&traced.program, traced.captures.len()),
        captures: traced.captures,
        template: traced.template,
        refs: traced.refs,
    }
}

fn with_last_inputs_first(program: &Program, n_last: usize) -> Program {
    let n_inputs = program.inputs().len();
    let n_first = n_inputs - n_last;
    let order: Vec<usize> = (n_first..n_inputs).chain(0..n_first).collect();
    program.permute_inputs(&order)
}

/// Converts the first outputs of a program to vary over the mesh axes of the given types.
pub(super) fn vary_outputs(program: Program, avals: &[Aval]) -> Program {
    let mut pairs = program.outputs().iter().zip(avals);
    if pairs.all(|(&var, aval)| program.aval(var).varying == aval.varying) {
        return program;
    }
    trace_rules(program.avals_in(), |inputs| {
        let mut outputs = passes::eval(&program, inputs);
        for (output, aval) in outputs.iter_mut().zip(avals) {
            *output = vary(output, &aval.varying);
        }
        outputs
    })
}

impl<O> Closure<O> {
    /// Converts the carry that a loop body returns to vary over the mesh axes of the carry it
    /// takes.
    pub(super) fn vary_outputs_like(self, carry: &[Array]) -> Closure<O> {
        Closure { program: vary_outputs(self.program, &avals_of(carry)), ..self }
    }
}

/// Converts a program to take inputs that also vary over the given mesh axes.
///
/// Where devices take different branches, the inputs must vary before the branch. If they were made
/// to vary inside it, their cotangents would be summed there, and devices in one branch would wait
/// for devices in the other.
pub(super) fn vary_inputs(program: Program, axes: &Varying) -> Program {
    let inputs = program.avals_in();
    if inputs.iter().all(|aval| aval.varying.covers(axes)) {
        return program;
    }
    retrace_varying(&program, inputs.iter().map(|aval| aval.varying.and(axes)))
}

/// Checks programs through which devices take different paths, because the choice varies over
/// `axes`.
///
/// Throws `Op` (unsupported) if one of them has a collective over these axes, because it would wait
/// for devices that never reach it.
pub(super) fn expect_no_collectives<'a>(
    name: &str,
    programs: impl IntoIterator<Item = &'a Program>,
    axes: &Varying,
    loc: Loc,
) {
    let mut names = programs.into_iter().flat_map(Program::axis_names);
    let Some(axis) = names.find(|axis| axes.contains(axis)) else { return };
    let message = format!(
        "devices along the axis `{axis}` take different paths through a collective over `{axis}`, \
         which all of them must reach"
    );
    let error = trace::op_error(OpErrorKind::Unsupported, name, message, loc);
    trace::throw(error.with_help(&format!(
        "decide by a value that is equal on all devices, such as `psum(&x, \"{axis}\")`, or move the \
         collective out"
    )));
}

/// Throws `Tree` for the values at `path`.
pub(super) fn throw_tree(path: &str, message: String, help: Option<String>, loc: Loc) -> ! {
    trace::throw(Error::Tree(Box::new(TreeError { path: rooted(path), message, loc, help })))
}

/// Compares the carry that a body takes with the carry that it returns.
///
/// Returns the initial carry to trace again with, if the types differ in a way that conversion
/// resolves: a weakly typed leaf is promoted to the dtype that the body returns, and a leaf is made
/// to vary over the mesh axes of the returned one. Returns `None` if the types are equal.
///
/// Throws `Tree` if they differ otherwise.
pub(super) fn promoted_carry<C: Tree>(
    site: &CallSite,
    input: &C,
    leaves: &[Array],
    output: &C,
) -> Option<Vec<Array>> {
    let &CallSite { name, loc, .. } = site;
    let structure = TreeDef::of(input);
    if let Some(Difference { path: place, a, b }) = structure.difference(&TreeDef::of(output)) {
        let message = format!(
            "{name}: the carry changes its structure: the body takes {a} here and gives {b}"
        );
        let help = "return a carry with the structure of the initial one".into();
        throw_tree(&place, message, Some(help), loc);
    }
    promoted_leaves(site, structure.paths(), leaves, &avals_of(&leaves_of(output)))
}

fn promoted_leaves(
    site: &CallSite,
    paths: &[String],
    leaves: &[Array],
    outputs: &[Aval],
) -> Option<Vec<Array>> {
    let &CallSite { name, loc, .. } = site;
    let promoted: Vec<Array> =
        leaves.iter().zip(outputs).map(|(leaf, output)| promoted(leaf, output, loc)).collect();
    let is_changed = |(old, new): (&Array, &Array)| {
        old.dtype() != new.dtype() || old.aval().varying != new.aval().varying
    };
    if leaves.iter().zip(&promoted).any(is_changed) {
        return Some(promoted);
    }
    let mut message = String::new();
    let mut first = None;
    for (path, (leaf, output)) in paths.iter().zip(leaves.iter().zip(outputs)) {
        let input = leaf.aval();
        if input.fits(output) {
            continue;
        }
        if first.is_none() {
            first = Some((path, input, output));
            message = format!(
                "{name}: the carry changes its type: the body takes {input} here and gives {output}"
            );
        } else {
            message.push_str(&format!("; {input} and {output} at {}", rooted(path)));
        }
    }
    let (path, input, output) = first?;
    throw_tree(path, message, Some(carry_help(input, output)), loc)
}

fn promoted(leaf: &Array, output: &Aval, loc: Loc) -> Array {
    let leaf = loc.scope(|| vary(leaf, &output.varying));
    let input = leaf.aval();
    if !input.weak || input.dtype == output.dtype {
        return leaf;
    }
    match promote((input.dtype, true), (output.dtype, output.weak)) {
        Some((dtype, _)) if dtype != input.dtype => loc.scope(|| convert_to(&leaf, dtype, false)),
        _ => leaf,
    }
}

fn carry_help(input: &Aval, output: &Aval) -> String {
    if input.same_type(output) {
        "start from an array with the sharding that the body gives, or `reshard` what it gives"
            .into()
    } else if input.with_memory(output.memory).same_type(output) {
        format!(
            "start from an array in `{}`, or move what the body gives: `device_put(&x, \
             MemoryKind::{:?})`",
            output.memory, input.memory
        )
    } else if input.shape == output.shape {
        format!(
            "start from an array of {}, or convert what the body gives with `astype(DType::{:?})`",
            output.dtype, input.dtype
        )
    } else {
        "every step must return the shape that it takes; collect growing values in the stacked \
         outputs of `scan`"
            .into()
    }
}
