//! Leaves of models, gradients and states, matched by path.

use super::state::Paths;
use crate::core::{Array, Error, Loc, TreeError, throw};
use crate::tree::{self, PathKey, Tag, Tree, Visitor};

/// A trained leaf of a model with its update, which is the gradient at the start of a chain.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) parameter: Array,
    pub(super) update: Array,
}

/// All trained leaves, as a tree whose type does not depend on that of the model.
#[derive(Clone, Debug)]
pub(super) struct Leaves {
    pub(super) paths: Paths,
    pub(super) list: Vec<Leaf>,
}

impl Tree for Leaves {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Static(&self.paths));
        for leaf in &self.list {
            visitor.enter(PathKey::Entry(&leaf.path));
            visitor.leaf(&leaf.parameter);
            visitor.leaf(&leaf.update);
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Leaves {
        let mut list = self.list.clone();
        for leaf in &mut list {
            leaf.parameter = leaf.parameter.unflatten(leaves);
            leaf.update = leaf.update.unflatten(leaves);
        }
        Leaves { paths: self.paths.clone(), list }
    }
}

/// Pairs the trained leaves of a model with their updates. Also returns, for every leaf of the
/// model, true if it is trained.
pub(super) fn pair<T: Tree>(parameters: &T, updates: &T, loc: Loc) -> (Vec<Leaf>, Vec<bool>) {
    let (mut paired, mut trained) = (Vec::new(), Vec::new());
    let paths = tree::paths(parameters);
    expect_same_paths(&paths, &tree::paths(updates), "the updates", loc);
    for ((path, parameter), update) in
        paths.into_iter().zip(tree::leaves(parameters)).zip(tree::leaves(updates))
    {
        // The widths of the dtypes may differ.
        let (dtype, other) = (parameter.dtype(), update.dtype());
        let same_kind = dtype == other
            || dtype.is_float() && other.is_float()
            || dtype.is_complex() && other.is_complex();
        if parameter.shape() != update.shape() || !same_kind {
            let message =
                format!("the parameter is {}, its update {}", parameter.aval(), update.aval());
            throw_tree(&path, message, "take the gradient with respect to this model", loc);
        }
        trained.push(parameter.dtype().is_inexact());
        if parameter.dtype().is_inexact() {
            paired.push(Leaf { path, parameter, update });
        }
    }
    (paired, trained)
}

/// Returns the structure of `template` with these leaves.
pub(super) fn rebuild<T: Tree>(template: &T, leaves: Vec<Array>) -> T {
    let mut leaves = leaves.into_iter();
    tree::map(template, |_| leaves.next().expect("as many leaves as the template has"))
}

/// Throws if the two lists differ. The error names the first leaf that differs.
pub(super) fn expect_same_paths(
    expected: &[String],
    actual: &[String],
    actual_name: &str,
    loc: Loc,
) {
    if expected == actual {
        return;
    }
    let common = expected.len().min(actual.len());
    let index = (0..common).find(|&i| expected[i] != actual[i]).unwrap_or(common);
    let describe = |paths: &[String]| match paths.get(index) {
        Some(path) => format!("`{}`", json_path(path)),
        None => format!("no leaf {index}"),
    };
    let path = expected.get(index).or(actual.get(index)).cloned().unwrap_or_default();
    let (expected, actual) = (describe(expected), describe(actual));
    let message = format!("the model has {expected}, {actual_name} {actual}");
    throw_tree(&path, message, "create both from the model that is trained", loc);
}

fn json_path(path: &str) -> String {
    if path.is_empty() || path.starts_with('[') { format!("${path}") } else { format!("$.{path}") }
}

/// Throws `Tree` for the leaf at `path`.
pub(super) fn throw_tree(path: &str, message: String, help: &str, loc: Loc) -> ! {
    throw(Error::Tree(Box::new(TreeError {
        path: json_path(path),
        message,
        loc,
        help: Some(help.into()),
    })))
}
