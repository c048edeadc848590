//! [`Signature`]: the key by which `jit` looks up a compiled program.

use super::def::{Difference, Node, rooted};
use super::{PathKey, Tag, TreeDef, Visitor, Walk, leaves_of};
use crate::core::{Array, Aval, Buffer, Kind};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The structure and leaf types of a call's arguments.
#[derive(Clone, Debug)]
pub struct Signature {
    pub(super) structure: TreeDef,
    avals: Vec<Arc<Aval>>,
}

impl Signature {
    /// Returns the signature of a tree.
    pub fn of(tree: &impl Walk) -> Signature {
        let avals = leaves_of(tree).iter().map(|leaf| leaf.shared_aval().clone()).collect();
        Signature { structure: TreeDef::of(tree), avals }
    }

    /// Returns the avals of the leaves.
    pub fn avals(&self) -> impl ExactSizeIterator<Item = &Aval> {
        self.avals.iter().map(AsRef::as_ref)
    }

    /// Returns the paths of the leaves.
    pub fn paths(&self) -> &[String] {
        self.structure.paths()
    }

    /// Describes the structure as text.
    pub(crate) fn described(&self) -> Vec<String> {
        self.structure.described()
    }

    /// Returns true if a tree has this signature. Allocates only to sort the keys of a `HashMap`.
    pub fn matches(&self, tree: &impl Walk) -> bool {
        let mut comparer = Comparer::new(self, |_| {});
        tree.walk(&mut comparer);
        comparer.is_same()
    }

    /// Adds the buffers of a tree's leaves to `buffers` if it has this signature. Compares and
    /// gathers in one walk, because a warm call does little else. Ignore `buffers` unless the
    /// result is `All`.
    pub(crate) fn gather(&self, tree: &impl Walk, buffers: &mut Vec<Arc<dyn Buffer>>) -> Gathered {
        let mut traced = None;
        let mut comparer = Comparer::new(self, |leaf: &Array| match &leaf.kind {
            Kind::Concrete(buffer) => buffers.push(buffer.clone()),
            Kind::Traced { .. } => traced = Some(leaf.clone()),
        });
        tree.walk(&mut comparer);
        match (comparer.is_same(), traced) {
            (false, _) => Gathered::Differs,
            (true, Some(leaf)) => Gathered::Traced(leaf),
            (true, None) => Gathered::All,
        }
    }

    /// Hashes the signature of a tree. Allocates only to sort the keys of a `HashMap`.
    pub fn hash_of(tree: &impl Walk, state: &mut FxHasher) {
        tree.walk(&mut SignatureHasher(state));
    }

    /// Describes the differences to another signature, for recompile reports. Empty if there are
    /// none.
    pub fn difference(&self, other: &Signature) -> String {
        if let Some(Difference { path, a, b }) = self.structure.difference(&other.structure) {
            return format!("{}: {a} -> {b}", rooted(&path));
        }
        let changed = self.paths().iter().zip(self.avals.iter().zip(&other.avals));
        changed
            .filter(|(_, (a, b))| a != b)
            .map(|(path, (a, b))| format!("{}: {a} -> {b}", rooted(path)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The outcome of [`Signature::gather`].
pub(crate) enum Gathered {
    /// The buffers of all leaves were added.
    All,
    /// The tree has another signature.
    Differs,
    /// The signature matches, but this leaf is traced.
    Traced(Array),
}

/// Compares a tree with a signature, and visits its leaves while they match.
struct Comparer<'a, F> {
    signature: &'a Signature,
    node: usize,
    leaf: usize,
    same: bool,
    visit: F,
}

impl<'a, F: FnMut(&Array)> Comparer<'a, F> {
    fn new(signature: &'a Signature, visit: F) -> Comparer<'a, F> {
        Comparer { signature, node: 0, leaf: 0, same: true, visit }
    }

    fn is_same(&self) -> bool {
        self.same && self.node == self.signature.structure.nodes.len()
    }
}

impl<F: FnMut(&Array)> Visitor for Comparer<'_, F> {
    fn leaf(&mut self, leaf: &Array) {
        if !self.same {
            return;
        }
        let node = self.signature.structure.nodes.get(self.node);
        // Results that are passed back as arguments share their avals with the signature.
        let matches =
            self.signature.avals.get(self.leaf).is_some_and(|aval| {
                Arc::ptr_eq(aval, leaf.shared_aval()) || **aval == *leaf.aval()
            });
        self.same = matches && matches!(node, Some(Node::Leaf));
        self.node += 1;
        self.leaf += 1;
        if self.same {
            (self.visit)(leaf);
        }
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.same = self.same
            && self.signature.structure.nodes.get(self.node).is_some_and(|node| node.is(tag));
        self.node += 1;
    }
    fn enter(&mut self, _: PathKey<'_>) {}
    fn exit(&mut self) {}
}

struct SignatureHasher<'a>(&'a mut FxHasher);

impl Visitor for SignatureHasher<'_> {
    fn leaf(&mut self, leaf: &Array) {
        leaf.aval().hash(self.0);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        match tag {
            // Hashes the letters: equal names may have different addresses, and many share a
            // length.
            Tag::Name(name) => self.0.write(name.as_bytes()),
            Tag::Len(len) => self.0.write_usize(len),
            Tag::Static(value) => value.static_hash(self.0),
        }
    }
    fn enter(&mut self, _: PathKey<'_>) {}
    fn exit(&mut self) {}
}
