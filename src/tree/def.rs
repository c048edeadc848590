//! [`TreeDef`]: the structure of a tree as a value.

use super::{PathKey, Tag, Tree, Visitor, Walk};
use crate::core::{Array, Error, Loc, TreeError, trace};
use rustc_hash::FxHasher;
use std::any::Any;
use std::fmt::{self, Debug, Write};
use std::hash::Hash;

/// Equality, hashing, cloning and printing of static values through `dyn`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be static",
    note = "a static value is part of the key by which `jit` finds a compiled program, so it needs \
            `Clone + Eq + Hash + Debug + Send + Sync + 'static`",
    note = "a number that varies belongs in an `Array`; a fixed one can be a field \
            `#[tree(static)] x: f32`, or a `StaticFloat`"
)]
pub trait StaticKey: Any + Debug + Send + Sync {
    /// Returns true if `other` has the same type and value.
    fn static_eq(&self, other: &dyn StaticKey) -> bool;
    /// Hashes the value.
    fn static_hash(&self, state: &mut FxHasher);
    /// Returns a copy.
    fn static_clone(&self) -> Box<dyn StaticKey>;
}

impl<T: Any + Debug + Send + Sync + Eq + Hash + Clone> StaticKey for T {
    fn static_eq(&self, other: &dyn StaticKey) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }
    fn static_hash(&self, state: &mut FxHasher) {
        self.hash(state);
    }
    fn static_clone(&self) -> Box<dyn StaticKey> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
pub(super) enum Node {
    Leaf,
    Name(&'static str),
    Len(usize),
    Static(Box<dyn StaticKey>),
}

impl Clone for Node {
    fn clone(&self) -> Node {
        match self {
            Node::Leaf => Node::Leaf,
            Node::Name(name) => Node::Name(name),
            Node::Len(len) => Node::Len(*len),
            Node::Static(value) => Node::Static((**value).static_clone()),
        }
    }
}

impl Node {
    fn of(tag: Tag<'_>) -> Node {
        match tag {
            Tag::Name(name) => Node::Name(name),
            Tag::Len(len) => Node::Len(len),
            Tag::Static(value) => Node::Static(value.static_clone()),
        }
    }

    pub(super) fn is(&self, tag: Tag<'_>) -> bool {
        match (self, tag) {
            (Node::Name(a), Tag::Name(b)) => *a == b,
            (Node::Len(a), Tag::Len(b)) => *a == b,
            (Node::Static(a), Tag::Static(b)) => (**a).static_eq(b),
            _ => false,
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Node::Leaf => "an array".into(),
            Node::Name(name) => format!("`{name}`"),
            Node::Len(1) => "1 child".into(),
            Node::Len(len) => format!("{len} children"),
            Node::Static(value) => format!("static {value:?}"),
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        match other {
            Node::Leaf => matches!(self, Node::Leaf),
            Node::Name(name) => self.is(Tag::Name(name)),
            Node::Len(len) => self.is(Tag::Len(*len)),
            Node::Static(value) => self.is(Tag::Static(&**value)),
        }
    }
}

/// The structure of a tree: constructors, lengths, static values and positions of leaves.
///
/// Two structures are equal if the trees differ only in their arrays. Prints the paths of the
/// leaves, one per line.
///
/// ```
/// use oxidax::tree;
/// let (three, four) = (tree::structure(&(3, true)), tree::structure(&(4, true)));
/// assert_ne!(three, four);
/// assert_eq!(three.n_leaves(), 0);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PyTreeDef")]
pub struct TreeDef {
    pub(super) nodes: Vec<Node>,
    /// The path of each node.
    pub(super) node_paths: Vec<String>,
    paths: Vec<String>,
}

impl PartialEq for TreeDef {
    fn eq(&self, other: &TreeDef) -> bool {
        self.nodes == other.nodes && self.paths == other.paths
    }
}

impl Eq for TreeDef {}

impl TreeDef {
    /// Returns the structure of a tree.
    pub fn of(tree: &impl Walk) -> TreeDef {
        let mut recorder = Recorder::default();
        tree.walk(&mut recorder);
        let Recorder { nodes, node_paths, .. } = recorder;
        let leaves = nodes.iter().zip(&node_paths).filter(|(node, _)| matches!(node, Node::Leaf));
        let paths = leaves.map(|(_, path)| path.clone()).collect();
        TreeDef { nodes, node_paths, paths }
    }

    /// Returns the number of leaves.
    pub fn n_leaves(&self) -> usize {
        self.paths.len()
    }

    /// Returns the paths of the leaves, in order.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns the paths of the leaves as errors print them, from the root `$`.
    pub(crate) fn rooted_paths(&self) -> Vec<String> {
        self.paths.iter().map(|path| rooted(path)).collect()
    }

    /// Returns the number of leaves of each element of a tuple or list. Other trees have one
    /// element.
    pub(crate) fn parts(&self) -> Vec<usize> {
        let mut parts: Vec<(&str, usize)> = Vec::new();
        for (node, path) in self.nodes.iter().zip(&self.node_paths) {
            let is_leaf = matches!(node, Node::Leaf);
            let part = if path.starts_with('[') {
                path.split_inclusive(']').next().unwrap_or_default()
            } else if path.is_empty() && !is_leaf {
                // The root itself, or a field of a struct.
                continue;
            } else {
                ""
            };
            match parts.last_mut() {
                Some((last, n)) if *last == part => *n += usize::from(is_leaf),
                _ => parts.push((part, usize::from(is_leaf))),
            }
        }
        parts.into_iter().map(|(_, n)| n).collect()
    }

    /// Describes the nodes with their paths as text, for comparison with another process.
    pub(crate) fn described(&self) -> Vec<String> {
        let nodes = self.nodes.iter().zip(&self.node_paths);
        nodes.map(|(node, path)| format!("{}: {}", rooted(path), node.describe())).collect()
    }

    /// Returns the first difference between two structures.
    pub(crate) fn difference(&self, other: &TreeDef) -> Option<Difference> {
        let describe = |node: Option<&Node>| node.map_or("nothing".into(), Node::describe);
        (0..self.nodes.len().max(other.nodes.len())).find_map(|index| {
            let (a, b) = (self.nodes.get(index), other.nodes.get(index));
            let path = self.node_paths.get(index).or_else(|| other.node_paths.get(index))?;
            (a != b).then(|| Difference { path: path.clone(), a: describe(a), b: describe(b) })
        })
    }
}

/// A difference between two structures: the path and a description of each node.
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) a: String,
    pub(crate) b: String,
}

/// The path of a node during a walk, and the lengths of the paths of the nodes around it.
#[derive(Default)]
pub(super) struct Path(String, Vec<usize>);

impl Path {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn enter(&mut self, key: PathKey<'_>) {
        self.1.push(self.0.len());
        let dot = if self.0.is_empty() { "" } else { "." };
        match key {
            PathKey::Field(name) => write!(self.0, "{dot}{name}"),
            PathKey::Index(index) => write!(self.0, "[{index}]"),
            PathKey::Entry(key) => write!(self.0, "{dot}{key}"),
        }
        .expect("writing to a String does not fail");
    }

    pub(super) fn exit(&mut self) {
        let length = self.1.pop().expect("every exit follows its enter");
        self.0.truncate(length);
    }
}

#[derive(Default)]
struct Recorder {
    nodes: Vec<Node>,
    node_paths: Vec<String>,
    path: Path,
}

impl Recorder {
    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.node_paths.push(self.path.0.clone());
    }
}

impl Visitor for Recorder {
    fn leaf(&mut self, _: &Array) {
        self.push(Node::Leaf);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.push(Node::of(tag));
    }
    fn static_field(&mut self, key: PathKey<'_>, value: Tag<'_>) {
        self.path.enter(key);
        self.tag(value);
        self.path.exit();
    }
    fn enter(&mut self, key: PathKey<'_>) {
        self.path.enter(key);
    }
    fn exit(&mut self) {
        self.path.exit();
    }
}

/// Returns the keys on the way to each leaf of a tree: names of fields, keys of maps, and indices.
pub(crate) fn leaf_keys(tree: &impl Walk) -> Vec<Vec<String>> {
    #[derive(Default)]
    struct Keys {
        path: Vec<String>,
        leaves: Vec<Vec<String>>,
    }
    impl Visitor for Keys {
        fn leaf(&mut self, _: &Array) {
            self.leaves.push(self.path.clone());
        }
        fn tag(&mut self, _: Tag<'_>) {}
        fn enter(&mut self, key: PathKey<'_>) {
            self.path.push(match key {
                PathKey::Field(name) => name.to_string(),
                PathKey::Index(index) => index.to_string(),
                PathKey::Entry(key) => key.to_string(),
            });
        }
        fn exit(&mut self) {
            self.path.pop();
        }
    }
    let mut keys = Keys::default();
    tree.walk(&mut keys);
    keys.leaves
}

#[derive(Default)]
struct Nodes(Vec<Node>);

impl Visitor for Nodes {
    fn leaf(&mut self, _: &Array) {
        self.0.push(Node::Leaf);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.0.push(Node::of(tag));
    }
    fn enter(&mut self, _: PathKey<'_>) {}
    fn exit(&mut self) {}
}

#[derive(Default)]
struct Collector(Vec<Array>);

impl Visitor for Collector {
    fn leaf(&mut self, leaf: &Array) {
        self.0.push(leaf.clone());
    }
    fn tag(&mut self, _: Tag<'_>) {}
    fn enter(&mut self, _: PathKey<'_>) {}
    fn exit(&mut self) {}
}

pub(crate) fn leaves_of(tree: &impl Walk) -> Vec<Array> {
    let mut collector = Collector::default();
    tree.walk(&mut collector);
    collector.0
}

struct Counter(usize);

impl Visitor for Counter {
    fn leaf(&mut self, _: &Array) {
        self.0 += 1;
    }
    fn tag(&mut self, _: Tag<'_>) {}
    fn enter(&mut self, _: PathKey<'_>) {}
    fn exit(&mut self) {}
}

pub(crate) fn count_leaves(tree: &impl Walk) -> usize {
    let mut counter = Counter(0);
    tree.walk(&mut counter);
    counter.0
}

/// Rebuilds a tree from exactly as many leaves as `template` has.
pub(crate) fn rebuild<T: Tree>(template: &T, leaves: Vec<Array>) -> T {
    let mut leaves = leaves.into_iter();
    let tree = template.unflatten(&mut leaves);
    assert!(leaves.next().is_none(), "more leaves than the template has");
    tree
}

/// Returns a path as errors print it, from the root `$`.
pub(crate) fn rooted(path: &str) -> String {
    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("${dot}{path}")
}

/// Throws `Tree` with the first difference if the structures differ.
pub(crate) fn expect_alike<T: Tree>(a: &T, b: &T, loc: Loc) {
    // Compares without paths first, which take many strings.
    let (mut left, mut right) = (Nodes::default(), Nodes::default());
    a.flatten(&mut left);
    b.flatten(&mut right);
    if left.0 == right.0 {
        return;
    }
    if let Some(Difference { path, a, b }) = TreeDef::of(a).difference(&TreeDef::of(b)) {
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(&path),
            message: format!("the structures differ: the first tree has {a}, the second has {b}"),
            loc,
            help: Some("build both trees the same way".into()),
        })));
    }
}

/// Throws `Tree` if the number of leaves differs from `count`.
pub(super) fn expect_count<T: Tree>(tree: &T, count: usize, loc: Loc) {
    let structure = TreeDef::of(tree);
    let expected = structure.n_leaves();
    if count != expected {
        let message = match structure.paths().get(count) {
            Some(missing) => {
                format!("expected {expected} leaves, got {count}: none for {}", rooted(missing))
            }
            None => format!("expected {expected} leaves, got {count}"),
        };
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(""),
            message,
            loc,
            help: None,
        })));
    }
}

impl fmt::Display for TreeDef {
    /// Writes the paths of the leaves, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.paths {
            writeln!(f, "{path}")?;
        }
        Ok(())
    }
}
