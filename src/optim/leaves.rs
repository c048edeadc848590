//! The leaves of models, gradients and states, matched by path.

use super::state::{Accumulator, State};
use crate::core::{Array, Error, TreeError, throw};
use crate::tree::{self, Tree};
use std::panic::Location;

/// A trained leaf of a model, with its gradient: on its way through a chain, its update.
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) parameter: Array,
    pub(super) update: Array,
}

/// The leaves of a model that are trained, each beside its leaf of `updates`; and for every leaf of
/// the model whether it is one of them.
#[track_caller]
pub(super) fn pair<T: Tree>(parameters: &T, updates: &T) -> (Vec<Leaf>, Vec<bool>) {
    let (mut paired, mut trained) = (Vec::new(), Vec::new());
    // Structure first: the leaves are zipped below.
    let paths = tree::paths(parameters);
    expect_same_paths(&paths, &tree::paths(updates), "the updates");
    for ((path, parameter), update) in
        paths.into_iter().zip(tree::leaves(parameters)).zip(tree::leaves(updates))
    {
        if parameter.shape() != update.shape() || parameter.dtype() != update.dtype() {
            let message =
                format!("the parameter is {}, its update {}", parameter.aval(), update.aval());
            throw_tree(&path, message, "take the gradient with respect to this very model");
        }
        trained.push(parameter.dtype().is_inexact());
        if parameter.dtype().is_inexact() {
            paired.push(Leaf { path, parameter, update });
        }
    }
    (paired, trained)
}

/// The structure of `template` with these leaves.
pub(super) fn rebuild<T: Tree>(template: &T, leaves: Vec<Array>) -> T {
    let mut leaves = leaves.into_iter();
    tree::map(template, |_| leaves.next().expect("as many leaves as the template has"))
}

#[track_caller]
fn expect_same_paths(expected: &[String], found: &[String], what: &str) {
    if expected == found {
        return;
    }
    let both = expected.len().min(found.len());
    let at = (0..both).find(|&at| expected[at] != found[at]).unwrap_or(both);
    let say = |paths: &[String]| match paths.get(at) {
        Some(path) => format!("`{}`", shown(path)),
        None => format!("no leaf {at}"),
    };
    let path = expected.get(at).or(found.get(at)).cloned().unwrap_or_default();
    let message = format!("the model has {}, {what} {}", say(expected), say(found));
    throw_tree(&path, message, "make both from the model that is trained");
}

/// The accumulator called `name`, checked to belong to these leaves.
#[track_caller]
pub(super) fn accumulator<'a>(
    state: &'a State,
    position: usize,
    name: &str,
    leaves: &[Leaf],
) -> &'a Accumulator {
    let Some(found) = state.accumulators.get(position).filter(|found| found.name == name) else {
        let names: Vec<&str> = state.accumulators().collect();
        let message = format!("the optimizer needs `{name}`, the state has [{}]", names.join(", "));
        throw_tree("", message, "make the state with `init` of the same optimizer");
    };
    let paths: Vec<String> = leaves.iter().map(|leaf| leaf.path.clone()).collect();
    expect_same_paths(&paths, found.paths.list(), "the state");
    for (leaf, value) in leaves.iter().zip(&found.values) {
        if leaf.parameter.shape() != value.shape() {
            let message = format!(
                "the parameter is {}, the state's `{name}` {}",
                leaf.parameter.aval(),
                value.aval()
            );
            throw_tree(&leaf.path, message, "make the state with `init` of the same model");
        }
    }
    found
}

fn shown(path: &str) -> String {
    match path.is_empty() || path.starts_with('[') {
        true => format!("${path}"),
        false => format!("$.{path}"),
    }
}

#[track_caller]
fn throw_tree(path: &str, message: String, help: &str) -> ! {
    throw(Error::Tree(Box::new(TreeError {
        path: shown(path),
        message,
        location: Some(Location::caller()),
        help: Some(help.into()),
    })))
}
