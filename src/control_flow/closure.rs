//! From users' functions to programs: captured values become inputs, and what a loop carries is checked.

use crate::core::{
    Array, Aval, Error, Loc, OpErrorKind, Program, TreeError, Varying, promote, trace,
};
use crate::passes;
use crate::primitives::{convert_to, vary};
use crate::transforms::staging::{short_name, trace_function, trace_rules};
use crate::tree::{Difference, Tree, TreeDef, leaves_of, rooted};

/// The user's call that control flow is built for.
pub(super) struct Caller {
    /// The function that was called.
    pub(super) name: &'static str,
    /// The place in the path of transforms while the user's function is traced.
    pub(super) scope: String,
    /// Where it was called.
    pub(super) loc: Loc,
}

impl Caller {
    /// A call of the function `name` with a user's function of type `F`.
    pub(super) fn of<F>(name: &'static str, loc: Loc) -> Caller {
        let scope = format!("{name}({})", short_name::<F>());
        Caller { name, scope, loc }
    }
}

/// A traced function whose captured values are inputs in front of its own.
pub(super) struct Closure<O> {
    pub(super) program: Program,
    pub(super) captures: Vec<Array>,
    pub(super) template: O,
}

/// Traces `f` on inputs of the given types.
pub(super) fn close<O: Tree>(
    scope: String,
    avals: impl IntoIterator<Item = Aval>,
    f: impl FnOnce(Vec<Array>) -> O,
) -> Closure<O> {
    let traced = trace_function(scope, avals, f);
    let n_inputs = traced.program.inputs().len();
    let n_declared = n_inputs - traced.captures.len();
    let order: Vec<usize> = (n_declared..n_inputs).chain(0..n_declared).collect();
    Closure {
        program: traced.program.permute_inputs(&order),
        captures: traced.captures,
        template: traced.template,
    }
}

/// The program with its outputs, from the first on, made to vary over what these types say.
pub(super) fn levelled(program: Program, outputs: &[Aval]) -> Program {
    let mut pairs = program.outputs().iter().zip(outputs);
    if pairs.all(|(&var, wanted)| program.aval(var).varying == wanted.varying) {
        return program;
    }
    trace_rules(program.avals_in(), |inputs| {
        let mut given = passes::eval(&program, inputs);
        for (given, wanted) in given.iter_mut().zip(outputs) {
            *given = vary(given, &wanted.varying);
        }
        given
    })
}

impl<O> Closure<O> {
    /// The body of a loop, with the carry that it gives made to vary as the one that it takes.
    pub(super) fn levelled(self, carry: &[Array]) -> Closure<O> {
        Closure { program: levelled(self.program, &avals_of(carry)), ..self }
    }
}

/// The program of inputs that vary over these axes too.
///
/// Where devices go different ways, what they take along must differ outside already: were it made to vary inside, its
/// cotangents would be summed there, by devices that wait for those which went another way.
pub(super) fn apart(program: Program, over: &Varying) -> Program {
    let inputs = program.avals_in();
    if inputs.iter().all(|aval| aval.varying.covers(over)) {
        return program;
    }
    let varying = inputs.into_iter().map(|aval| {
        let varying = aval.varying.and(over);
        aval.with_varying(varying)
    });
    trace_rules(varying, |inputs| passes::eval_flat(&program, inputs))
}

/// Throws `Op` (unsupported) if devices that `varying` tells apart would go different ways through these programs, and
/// one of them has a collective over its axes: it would wait for ever for the devices that never come to it.
pub(super) fn expect_no_collectives<'a>(
    name: &str,
    programs: impl IntoIterator<Item = &'a Program>,
    varying: &Varying,
    loc: Loc,
) {
    let mut names = programs.into_iter().flat_map(Program::axis_names);
    let Some(axis) = names.find(|axis| varying.contains(axis)) else { return };
    let message = format!(
        "what is done next differs along the axis `{axis}`, and it includes a collective over `{axis}`, which \
         all devices along it must come to"
    );
    let error = trace::op_error(OpErrorKind::Unsupported, name, message, loc);
    trace::throw(error.with_help(&format!(
        "decide by something that is the same everywhere, `psum(&x, \"{axis}\")` say, or take the collective outside"
    )));
}

/// The types of arrays.
pub(super) fn avals_of(arrays: &[Array]) -> Vec<Aval> {
    arrays.iter().map(|array| array.aval().clone()).collect()
}

/// Throws `Tree`: the values at `path` do not fit.
pub(super) fn throw_tree(path: &str, message: String, help: Option<String>, loc: Loc) -> ! {
    trace::throw(Error::Tree(Box::new(TreeError { path: rooted(path), message, loc, help })))
}

/// Compares the carry that a body takes with the one that it gives.
///
/// Weakly typed leaves that come back in another dtype are promoted to it, and what comes back varying over axes of a
/// mesh is made to vary over them: gives the leaves to begin again with. `None` if the types are the same; throws `Tree` if they differ otherwise.
pub(super) fn promoted_carry<C: Tree>(
    caller: &Caller,
    taken: &C,
    leaves: &[Array],
    given: &C,
) -> Option<Vec<Array>> {
    let &Caller { name, loc, .. } = caller;
    let structure = TreeDef::of(taken);
    if let Some(Difference { path: place, a, b }) = structure.difference(&TreeDef::of(given)) {
        let message = format!(
            "{name}: the carry changes its structure: the body takes {a} here and gives {b}"
        );
        let help = "give back a carry that is built as the first one is".into();
        throw_tree(&place, message, Some(help), loc);
    }
    let given = avals_of(&leaves_of(given));
    let promoted: Vec<Array> = leaves
        .iter()
        .zip(&given)
        .map(|(leaf, given)| {
            let leaf = &loc.scope(|| vary(leaf, &given.varying));
            let taken = leaf.aval();
            if !taken.weak || taken.dtype == given.dtype {
                return leaf.clone();
            }
            match promote((taken.dtype, true), (given.dtype, given.weak)) {
                Some((dtype, _)) if dtype != taken.dtype => {
                    loc.scope(|| convert_to(leaf, dtype, false))
                }
                _ => leaf.clone(),
            }
        })
        .collect();
    let differs = |(old, new): (&Array, &Array)| {
        old.dtype() != new.dtype() || old.aval().varying != new.aval().varying
    };
    if leaves.iter().zip(&promoted).any(differs) {
        return Some(promoted);
    }
    let pairs = structure.paths().iter().zip(leaves.iter().map(Array::aval).zip(&given));
    let wrong: Vec<(&String, (&Aval, &Aval))> =
        pairs.filter(|(_, (taken, given))| !taken.same_type(given)).collect();
    if let Some((path, (taken, given))) = wrong.first() {
        let mut message = format!(
            "{name}: the carry changes its type: the body takes {taken} here and gives {given}"
        );
        for (path, (taken, given)) in &wrong[1..] {
            message.push_str(&format!("; {taken} and {given} at {}", rooted(path)));
        }
        throw_tree(path, message, Some(remedy(taken, given)), loc);
    }
    None
}

fn remedy(taken: &Aval, given: &Aval) -> String {
    match taken.shape == given.shape {
        true => format!(
            "start from an array of {}, or convert what the body gives with `astype(DType::{:?})`",
            given.dtype, taken.dtype
        ),
        false => "every step must give the shape that it takes; what grows belongs among the \
                  outputs of `scan`, which are stacked"
            .into(),
    }
}
