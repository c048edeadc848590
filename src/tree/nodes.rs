//! Maps over the nodes of one type in a tree, as `is_leaf` makes them in JAX.

use super::{PathKey, Tree, def::Path, rooted, share};
use crate::core::{Error, Loc, TreeError, trace};
use std::any::Any;

/// A visitor of the nodes of a tree, each of which it may replace; see [`Tree::visit_children`].
pub trait NodeVisitor {
    /// Visits a node, and returns true if its children are visited too.
    fn node(&mut self, node: &mut dyn Any) -> bool;
    /// Enters a child.
    fn enter(&mut self, key: PathKey<'_>);
    /// Leaves a child.
    fn exit(&mut self);
}

/// Visits the child of a node at `key`, and the nodes in it. For implementations of
/// [`Tree::visit_children`].
pub fn visit_child<T: Tree>(key: PathKey<'_>, child: &mut T, visitor: &mut dyn NodeVisitor) {
    visitor.enter(key);
    visit_node(child, visitor);
    visitor.exit();
}

/// Visits a node and the nodes in it, without a step in the path. For implementations of
/// [`Tree::visit_children`] of wrappers such as `Box`.
pub fn visit_node<T: Tree>(node: &mut T, visitor: &mut dyn NodeVisitor) {
    if visitor.node(node) {
        node.visit_children(visitor);
    }
}

/// Visits the nodes of type `N`, but not those inside of another `N`.
struct OfType<N, F> {
    path: Path,
    visit: F,
    node: std::marker::PhantomData<fn(N)>,
}

impl<N: 'static, F: FnMut(&str, &mut N)> NodeVisitor for OfType<N, F> {
    fn node(&mut self, node: &mut dyn Any) -> bool {
        match node.downcast_mut::<N>() {
            Some(node) => {
                (self.visit)(self.path.as_str(), node);
                false
            }
            None => true,
        }
    }
    fn enter(&mut self, key: PathKey<'_>) {
        self.path.enter(key);
    }
    fn exit(&mut self) {
        self.path.exit();
    }
}

fn visit<T: Tree, N: Tree>(tree: &mut T, visit: impl FnMut(&str, &mut N)) {
    let node = std::marker::PhantomData;
    visit_node(tree, &mut OfType { path: Path::default(), visit, node });
}

/// Returns the tree with `f` applied to every node of type `N`: a layer, an option, a user-defined
/// struct. The type of the closure's parameter selects the nodes, as `is_leaf` does in JAX.
///
/// Nodes inside a node of type `N` are left to `f`. A node may get another structure: an option
/// that was empty may become full. Static fields are not nodes. Trees with a handwritten
/// implementation of [`Tree`] are searched if it has [`Tree::visit_children`].
///
/// ```
/// use oxidax::prelude::*;
/// let model = vec![(ones([2]), None), (ones([3]), Some(ones([1])))];
/// // Every missing array becomes a scalar.
/// let filled = tree::map_nodes(&model, |bias: &Option<Array>| {
///     Some(bias.clone().unwrap_or_else(|| scalar(0.0)))
/// });
/// assert_eq!(tree::leaves(&filled).len(), 4);
/// ```
#[doc(alias = "is_leaf")]
#[doc(alias = "tree_map")]
pub fn map_nodes<T: Tree, N: Tree>(tree: &T, mut f: impl FnMut(&N) -> N) -> T {
    map_nodes_with_path(tree, |_, node| f(node))
}

/// Returns the tree with `f` applied to the path and the value of every node of type `N`; see
/// [`map_nodes`].
///
/// ```
/// use oxidax::prelude::*;
/// let model = (vec![(ones([2]), ones([2]))], (ones([3]), ones([3])));
/// let mut paths = Vec::new();
/// tree::map_nodes_with_path(&model, |path, (weight, bias): &(Array, Array)| {
///     paths.push(path.to_string());
///     (weight * 2.0, bias.clone())
/// });
/// assert_eq!(paths, ["[0][0]", "[1]"]);
/// ```
#[doc(alias = "is_leaf")]
#[doc(alias = "tree_map_with_path")]
pub fn map_nodes_with_path<T: Tree, N: Tree>(tree: &T, mut f: impl FnMut(&str, &N) -> N) -> T {
    let mut new = share(tree);
    visit(&mut new, |path, node: &mut N| *node = f(path, node));
    new
}

/// Combines the nodes of type `N` in two trees; see [`map_nodes`].
///
/// Throws `Tree` if their paths differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = (vec![Some(ones([2])), None], vec![None, Some(ones([3]))]);
/// let merged =
///     tree::zip_nodes(&a, &b, |a: &Option<Array>, b: &Option<Array>| a.clone().or(b.clone()));
/// assert_eq!(tree::leaves(&merged).len(), 2);
/// ```
#[doc(alias = "is_leaf")]
#[track_caller]
pub fn zip_nodes<T: Tree, N: Tree>(a: &T, b: &T, mut f: impl FnMut(&N, &N) -> N) -> T {
    let rows = rows_of("zip_nodes", [a, b], Loc::caller());
    map_rows(a, rows, |[a, b]| f(a, b))
}

/// Combines the nodes of type `N` in any number of trees; see [`map_nodes`].
///
/// Throws `Tree` if their paths differ.
///
/// ```
/// use oxidax::prelude::*;
/// let trees = [vec![None], vec![Some(ones([2]))], vec![Some(ones([3]))]];
/// let [a, b, c] = &trees;
/// let first = |all: [&Option<Array>; 3]| all.into_iter().flatten().next().cloned();
/// assert_eq!(tree::map_nodes_of([a, b, c], first)[0].as_ref().map(Array::size), Some(2));
/// ```
#[doc(alias = "is_leaf")]
#[track_caller]
pub fn map_nodes_of<T: Tree, N: Tree, const K: usize>(
    trees: [&T; K],
    f: impl FnMut([&N; K]) -> N,
) -> T {
    const { assert!(K > 0, "one tree at least") };
    map_rows(trees[0], rows_of("map_nodes_of", trees, Loc::caller()), f)
}

/// Returns the values of `f` for the nodes of type `N` in any number of trees, with their paths, in
/// order; see [`map_nodes`]. They may be of any type.
///
/// Throws `Tree` if the paths of the trees differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = (vec![(ones([2]), None)], vec![(ones([2]), Some(ones([3])))]);
/// type Layer = (Array, Option<Array>);
/// let sizes = |[a, b]: [&Layer; 2]| tree::leaves(b).len() - tree::leaves(a).len();
/// assert_eq!(tree::map_node_values([&a, &b], sizes), [("[0]".to_string(), 1)]);
/// ```
#[doc(alias = "is_leaf")]
#[track_caller]
pub fn map_node_values<T: Tree, N: Tree, V, const K: usize>(
    trees: [&T; K],
    mut f: impl FnMut([&N; K]) -> V,
) -> Vec<(String, V)> {
    const { assert!(K > 0, "one tree at least") };
    let rows = rows_of("map_node_values", trees, Loc::caller());
    rows.into_iter().map(|(path, nodes)| (path, f(nodes.each_ref()))).collect()
}

/// Replaces the nodes of the first tree by the values of `f` for the rows of [`rows_of`].
fn map_rows<T: Tree, N: Tree, const K: usize>(
    first: &T,
    rows: Vec<(String, [N; K])>,
    mut f: impl FnMut([&N; K]) -> N,
) -> T {
    let mut rows = rows.into_iter();
    map_nodes(first, |_: &N| {
        let (_, nodes) = rows.next().expect("one row per node of the first tree");
        f(nodes.each_ref())
    })
}

/// Returns the nodes of type `N` at each path of the trees.
fn rows_of<T: Tree, N: Tree, const K: usize>(
    name: &str,
    trees: [&T; K],
    loc: Loc,
) -> Vec<(String, [N; K])> {
    let missing = |number: usize, path: &str| -> ! {
        let (tree, which) = match (K, number) {
            (2, 1) => ("the first tree".to_owned(), "both"),
            (2, _) => ("the second tree".to_owned(), "both"),
            _ => (format!("tree {number} of {K}"), "all"),
        };
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(path),
            message: format!("{name}: {tree} has no such node here"),
            loc,
            help: Some(format!("{which} trees need nodes of the type at the same paths")),
        })))
    };
    let mut columns = trees.map(|tree| nodes_with_path::<N, T>(tree).into_iter());
    let mut rows = Vec::new();
    loop {
        let row = columns.each_mut().map(Iterator::next);
        let Some(path) = row.iter().flatten().map(|(path, _)| path.clone()).next() else {
            return rows;
        };
        let mut number = 0;
        let nodes = row.map(|node| {
            number += 1;
            match node {
                Some((other, node)) if other == path => node,
                _ => missing(number, &path),
            }
        });
        rows.push((path, nodes));
    }
}

/// Returns the nodes of type `N` in a tree, in order; see [`map_nodes`]. They share their arrays
/// with it.
///
/// ```
/// use oxidax::prelude::*;
/// let model = vec![(ones([2]), None), (ones([3]), Some(ones([1])))];
/// assert_eq!(tree::nodes::<Option<Array>, _>(&model).len(), 2);
/// ```
#[doc(alias = "is_leaf")]
#[doc(alias = "tree_leaves")]
pub fn nodes<N: Tree, T: Tree>(tree: &T) -> Vec<N> {
    nodes_with_path(tree).into_iter().map(|(_, node)| node).collect()
}

/// Returns the nodes of type `N` in a tree with their paths, in order; see [`map_nodes`].
#[doc(alias = "is_leaf")]
#[doc(alias = "tree_leaves_with_path")]
pub fn nodes_with_path<N: Tree, T: Tree>(tree: &T) -> Vec<(String, N)> {
    let mut nodes = Vec::new();
    visit(&mut share(tree), |path, node: &mut N| nodes.push((path.to_string(), share(node))));
    nodes
}
