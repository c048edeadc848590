//! The structure of a tree as a value, and the walks over it.

use super::{Args, Key, Tag, Tree, Visitor};
use crate::core::{Array, Aval, Error, TreeError, trace};
use rustc_hash::FxHasher;
use std::any::Any;
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};
use std::panic::Location;

/// What a static value needs: equality, a hash, a copy and a printed form, through `dyn`.
pub trait StaticKey: Any + Debug + Send + Sync {
    /// Equal to `other`, of the same type.
    fn static_eq(&self, other: &dyn StaticKey) -> bool;
    /// Hashes the value.
    fn static_hash(&self, state: &mut FxHasher);
    /// A copy.
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
enum Node {
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

    fn is(&self, tag: Tag<'_>) -> bool {
        match (self, tag) {
            (Node::Name(a), Tag::Name(b)) => *a == b,
            (Node::Len(a), Tag::Len(b)) => *a == b,
            (Node::Static(a), Tag::Static(b)) => (**a).static_eq(b),
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Node::Leaf => "an array".into(),
            Node::Name(name) => format!("`{name}`"),
            Node::Len(len) => format!("{len} children"),
            Node::Static(value) => format!("static {value:?}"),
        }
    }
}

/// A tree's structure: constructors, lengths, static values and where the leaves are.
#[derive(Clone, Debug)]
#[doc(alias = "PyTreeDef")]
pub struct TreeDef {
    nodes: Vec<Node>,
    paths: Vec<String>,
}

impl TreeDef {
    /// The structure of a tree.
    pub fn of<T: Tree>(tree: &T) -> TreeDef {
        TreeDef::record(|visitor| tree.flatten(visitor))
    }

    fn record(walk: impl FnOnce(&mut dyn Visitor)) -> TreeDef {
        let mut builder = Recorder::default();
        walk(&mut builder);
        let paths = builder.nodes.iter().zip(&builder.paths);
        let paths = paths.filter(|(node, _)| matches!(node, Node::Leaf));
        TreeDef { paths: paths.map(|(_, path)| path.clone()).collect(), nodes: builder.nodes }
    }

    /// Number of leaves.
    pub fn n_leaves(&self) -> usize {
        self.paths.len()
    }

    /// The leaves' paths, in order.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }
}

#[derive(Default)]
struct Path(String, Vec<usize>);

impl Path {
    fn enter(&mut self, key: Key<'_>) {
        self.1.push(self.0.len());
        let dot = if self.0.is_empty() { "" } else { "." };
        match key {
            Key::Field(name) => write!(self.0, "{dot}{name}"),
            Key::Index(index) => write!(self.0, "[{index}]"),
            Key::Entry(key) => write!(self.0, "{dot}{key}"),
        }
        .expect("writing to a String does not fail");
    }

    fn exit(&mut self) {
        let length = self.1.pop().expect("every exit follows its enter");
        self.0.truncate(length);
    }
}

#[derive(Default)]
struct Recorder {
    nodes: Vec<Node>,
    paths: Vec<String>,
    path: Path,
}

impl Recorder {
    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.paths.push(self.path.0.clone());
    }
}

impl Visitor for Recorder {
    fn leaf(&mut self, _: &Array) {
        self.push(Node::Leaf);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.push(Node::of(tag));
    }
    fn enter(&mut self, key: Key<'_>) {
        self.path.enter(key);
    }
    fn exit(&mut self) {
        self.path.exit();
    }
}

#[derive(Default)]
struct Collector(Vec<Array>);

impl Visitor for Collector {
    fn leaf(&mut self, leaf: &Array) {
        self.0.push(leaf.clone());
    }
    fn tag(&mut self, _: Tag<'_>) {}
    fn enter(&mut self, _: Key<'_>) {}
    fn exit(&mut self) {}
}

pub(crate) fn leaves_of<T: Tree>(tree: &T) -> Vec<Array> {
    let mut collector = Collector::default();
    tree.flatten(&mut collector);
    collector.0
}

/// The arrays of a call's arguments, in order.
pub(crate) fn leaves_of_args<A: Args>(arguments: A::Refs<'_>) -> Vec<Array> {
    let mut collector = Collector::default();
    A::flatten(arguments, &mut collector);
    collector.0
}

/// The paths of the leaves of a call's arguments: `[0].weight`.
pub(crate) fn paths_of_args<A: Args>(arguments: A::Refs<'_>) -> Vec<String> {
    TreeDef::record(|visitor| A::flatten(arguments, visitor)).paths
}

pub(super) fn paths_of<T: Tree>(tree: &T) -> Vec<String> {
    TreeDef::of(tree).paths
}

/// Puts a tree together from exactly its number of leaves.
pub(crate) fn rebuild<T: Tree>(template: &T, leaves: Vec<Array>) -> T {
    let mut leaves = leaves.into_iter();
    let tree = template.unflatten(&mut leaves);
    assert!(leaves.next().is_none(), "as many leaves as the template has");
    tree
}

/// The structure and leaf types of a call's arguments: what `jit` finds its program by.
#[derive(Clone, Debug)]
pub struct Signature {
    nodes: Vec<Node>,
    avals: Vec<Aval>,
    paths: Vec<String>,
}

impl Signature {
    /// The signature of a call's arguments.
    pub fn of<A: Args>(arguments: A::Refs<'_>) -> Signature {
        let TreeDef { nodes, paths } = TreeDef::record(|visitor| A::flatten(arguments, visitor));
        let leaves = leaves_of_args::<A>(arguments);
        let avals = leaves.iter().map(|leaf| leaf.aval().clone()).collect();
        Signature { nodes, avals, paths }
    }

    /// The avals of the leaves.
    pub fn avals(&self) -> &[Aval] {
        &self.avals
    }

    /// The paths of the leaves.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Whether arguments have this signature. Allocates nothing.
    pub fn matches<A: Args>(&self, arguments: A::Refs<'_>) -> bool {
        let mut comparer = Comparer { signature: self, node: 0, leaf: 0, same: true };
        A::flatten(arguments, &mut comparer);
        comparer.same && comparer.node == self.nodes.len()
    }

    /// A hash that all arguments with one signature share. Allocates nothing.
    pub fn hash_of<A: Args>(arguments: A::Refs<'_>, state: &mut FxHasher) {
        A::flatten(arguments, &mut SignatureHasher(state));
    }

    /// What differs between this signature and another, for reports of why a program was compiled
    /// again; empty if nothing does.
    pub fn difference(&self, other: &Signature) -> String {
        if let Some(difference) = first_difference(&self.nodes, &other.nodes) {
            return difference.describe(|_| String::new());
        }
        let changed = self.paths.iter().zip(self.avals.iter().zip(&other.avals));
        changed
            .filter(|(_, (a, b))| a != b)
            .map(|(path, (a, b))| format!("{path}: {a} -> {b}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

struct Comparer<'a> {
    signature: &'a Signature,
    node: usize,
    leaf: usize,
    same: bool,
}

impl Visitor for Comparer<'_> {
    fn leaf(&mut self, leaf: &Array) {
        let node = self.signature.nodes.get(self.node);
        let aval = self.signature.avals.get(self.leaf);
        self.same &= matches!(node, Some(Node::Leaf)) && aval == Some(leaf.aval());
        self.node += 1;
        self.leaf += 1;
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.same &= self.signature.nodes.get(self.node).is_some_and(|node| node.is(tag));
        self.node += 1;
    }
    fn enter(&mut self, _: Key<'_>) {}
    fn exit(&mut self) {}
}

struct SignatureHasher<'a>(&'a mut FxHasher);

impl Visitor for SignatureHasher<'_> {
    fn leaf(&mut self, leaf: &Array) {
        leaf.aval().hash(self.0);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        match tag {
            // The address would do, but equal names need not share one.
            Tag::Name(name) => self.0.write_usize(name.len()),
            Tag::Len(len) => self.0.write_usize(len),
            Tag::Static(value) => value.static_hash(self.0),
        }
    }
    fn enter(&mut self, _: Key<'_>) {}
    fn exit(&mut self) {}
}

struct Difference<'a> {
    position: usize,
    a: Option<&'a Node>,
    b: Option<&'a Node>,
}

impl Difference<'_> {
    fn describe(&self, place: impl Fn(usize) -> String) -> String {
        let say = |node: Option<&Node>| node.map_or("nothing".into(), Node::describe);
        format!("{}{} here, {} there", place(self.position), say(self.a), say(self.b))
    }
}

fn first_difference<'a>(a: &'a [Node], b: &'a [Node]) -> Option<Difference<'a>> {
    let alike = |a: &Node, b: &Node| match (a, b) {
        (Node::Leaf, Node::Leaf) => true,
        (node, Node::Name(name)) => node.is(Tag::Name(name)),
        (node, Node::Len(len)) => node.is(Tag::Len(*len)),
        (node, Node::Static(value)) => node.is(Tag::Static(&**value)),
        _ => false,
    };
    (0..a.len().max(b.len()))
        .map(|position| Difference { position, a: a.get(position), b: b.get(position) })
        .find(|d| !matches!((d.a, d.b), (Some(a), Some(b)) if alike(a, b)))
}

/// Throws `Tree`, naming the first difference, unless the two have one structure.
pub(crate) fn expect_alike<T: Tree>(a: &T, b: &T, location: &'static Location<'static>) {
    let (mut left, mut right) = (Recorder::default(), Recorder::default());
    a.flatten(&mut left);
    b.flatten(&mut right);
    if let Some(difference) = first_difference(&left.nodes, &right.nodes) {
        let paths = if difference.a.is_some() { &left.paths } else { &right.paths };
        let path = &paths[difference.position];
        trace::throw(Error::Tree(Box::new(TreeError {
            path: if path.starts_with('[') { format!("${path}") } else { format!("$.{path}") },
            message: difference.describe(|_| "the structures differ: ".into()),
            location: Some(location),
            help: Some("build both trees the same way".into()),
        })));
    }
}

impl fmt::Display for TreeDef {
    /// The leaves' paths, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.paths {
            writeln!(f, "{path}")?;
        }
        Ok(())
    }
}
