//! From users' functions to programs: captured values become inputs, and what a loop carries is checked.

use crate::core::{Array, Aval, Error, Loc, Program, TreeError, promote, trace};
use crate::primitives::convert_to;
use crate::transforms::staging::{short_name, trace_function};
use crate::tree::{Difference, Tree, TreeDef, leaves_of, rooted};
use std::panic::Location;

/// The user's call that control flow is built for.
pub(super) struct Caller {
    /// The function that was called.
    pub(super) name: &'static str,
    /// The place in the path of transforms while the user's function is traced.
    pub(super) scope: String,
    /// Where it was called.
    pub(super) location: Loc,
}

impl Caller {
    /// A call of the function `name` with a user's function of type `F`.
    pub(super) fn of<F>(name: &'static str, location: &'static Location<'static>) -> Caller {
        let scope = format!("{name}({})", short_name::<F>());
        Caller { name, scope, location: Some(location) }
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

/// The types of arrays.
pub(super) fn avals_of(arrays: &[Array]) -> Vec<Aval> {
    arrays.iter().map(|array| array.aval().clone()).collect()
}

/// Throws `Tree`: the values at `path` do not fit.
pub(super) fn throw_tree(path: &str, message: String, help: Option<String>, location: Loc) -> ! {
    trace::throw(Error::Tree(Box::new(TreeError { path: rooted(path), message, location, help })))
}

/// Compares the carry that a body takes with the one that it gives.
///
/// Weakly typed leaves that come back in another dtype are promoted to it: gives the leaves to begin
/// again with. `None` if the types are the same; throws `Tree` if they differ otherwise.
pub(super) fn promoted_carry<C: Tree>(
    caller: &Caller,
    taken: &C,
    leaves: &[Array],
    given: &C,
) -> Option<Vec<Array>> {
    let &Caller { name, location, .. } = caller;
    let structure = TreeDef::of(taken);
    if let Some(Difference { place, a, b }) = structure.difference(&TreeDef::of(given)) {
        let message = format!(
            "{name}: the carry changes its structure: the body takes {a} here and gives {b}"
        );
        let help = "give back a carry that is built as the first one is".into();
        throw_tree(&place, message, Some(help), location);
    }
    let given = avals_of(&leaves_of(given));
    let promoted: Vec<Array> = leaves
        .iter()
        .zip(&given)
        .map(|(leaf, given)| {
            let taken = leaf.aval();
            if !taken.weak || taken.dtype == given.dtype {
                return leaf.clone();
            }
            match promote((taken.dtype, true), (given.dtype, given.weak)) {
                Some((dtype, _)) if dtype != taken.dtype => {
                    trace::at_location(location, || convert_to(leaf, dtype, false))
                }
                _ => leaf.clone(),
            }
        })
        .collect();
    if leaves.iter().zip(&promoted).any(|(old, new)| old.dtype() != new.dtype()) {
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
        throw_tree(path, message, Some(remedy(taken, given)), location);
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
