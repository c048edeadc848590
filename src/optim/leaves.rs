//! The leaves of models, gradients and states, matched by path.

use super::state::Paths;
use crate::core::{Array, Error, Loc, TreeError, throw};
use crate::tree::{self, Key, Tag, Tree, Visitor};

/// Where the user called.
pub(super) type Place = Loc;

/// A trained leaf of a model, with its gradient: on its way through a chain, its update.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) parameter: Array,
    pub(super) update: Array,
}

/// All trained leaves, as a tree that does not depend on the model's type.
#[derive(Clone, Debug)]
pub(super) struct Leaves {
    pub(super) paths: Paths,
    pub(super) list: Vec<Leaf>,
}

impl Tree for Leaves {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Static(&self.paths));
        for leaf in &self.list {
            visitor.enter(Key::Entry(&leaf.path));
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

/// The leaves of a model that are trained, each beside its leaf of `updates`; and for every leaf of
/// the model whether it is one of them.
pub(super) fn pair<T: Tree>(parameters: &T, updates: &T, at: Place) -> (Vec<Leaf>, Vec<bool>) {
    let (mut paired, mut trained) = (Vec::new(), Vec::new());
    // Structure first: the leaves are zipped below.
    let paths = tree::paths(parameters);
    expect_same_paths(&paths, &tree::paths(updates), "the updates", at);
    for ((path, parameter), update) in
        paths.into_iter().zip(tree::leaves(parameters)).zip(tree::leaves(updates))
    {
        // An update may be wider or narrower than its parameter, but of the same kind.
        let (kind, other) = (parameter.dtype(), update.dtype());
        let fits = kind == other
            || kind.is_float() && other.is_float()
            || kind.is_complex() && other.is_complex();
        if parameter.shape() != update.shape() || !fits {
            let message =
                format!("the parameter is {}, its update {}", parameter.aval(), update.aval());
            throw_tree(&path, message, "take the gradient with respect to this very model", at);
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

/// Throws if the two lists differ, naming the first leaf at which they do.
pub(super) fn expect_same_paths(expected: &[String], found: &[String], what: &str, loc: Place) {
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
    throw_tree(&path, message, "make both from the model that is trained", loc);
}

fn shown(path: &str) -> String {
    match path.is_empty() || path.starts_with('[') {
        true => format!("${path}"),
        false => format!("$.{path}"),
    }
}

/// Throws `Tree`, about the leaf at `path`.
pub(super) fn throw_tree(path: &str, message: String, help: &str, loc: Place) -> ! {
    throw(Error::Tree(Box::new(TreeError {
        path: shown(path),
        message,
        loc,
        help: Some(help.into()),
    })))
}
