//! What a call's arguments are like: the key by which `jit` finds a compiled program.

use super::def::{Difference, Node, rooted};
use super::{Key, Tag, TreeDef, Visitor, Walk, leaves_of};
use crate::core::{Array, Aval};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The structure and leaf types of a call's arguments: what `jit` finds its program by.
#[derive(Clone, Debug)]
pub struct Signature {
    structure: TreeDef,
    avals: Vec<Aval>,
}

impl Signature {
    /// The signature of a tree.
    pub fn of(tree: &impl Walk) -> Signature {
        let avals = leaves_of(tree).iter().map(|leaf| leaf.aval().clone()).collect();
        Signature { structure: TreeDef::of(tree), avals }
    }

    /// The avals of the leaves.
    pub fn avals(&self) -> &[Aval] {
        &self.avals
    }

    /// The paths of the leaves.
    pub fn paths(&self) -> &[String] {
        self.structure.paths()
    }

    /// Whether a tree has this signature. Allocates nothing, but to sort the keys of a `HashMap`.
    pub fn matches(&self, tree: &impl Walk) -> bool {
        let mut comparer = Comparer { signature: self, node: 0, leaf: 0, same: true };
        tree.walk(&mut comparer);
        comparer.same && comparer.node == self.structure.nodes.len()
    }

    /// A hash that all trees with one signature share. Allocates nothing, but to sort the keys of a
    /// `HashMap`.
    pub fn hash_of(tree: &impl Walk, state: &mut FxHasher) {
        tree.walk(&mut SignatureHasher(state));
    }

    /// What differs between this signature and another, for reports of why a program was compiled
    /// again; empty if nothing does.
    pub fn difference(&self, other: &Signature) -> String {
        if let Some(Difference { place, a, b }) = self.structure.difference(&other.structure) {
            return format!("{}: {a} -> {b}", rooted(&place));
        }
        let changed = self.paths().iter().zip(self.avals.iter().zip(&other.avals));
        changed
            .filter(|(_, (a, b))| a != b)
            .map(|(path, (a, b))| format!("{}: {a} -> {b}", rooted(path)))
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
        let node = self.signature.structure.nodes.get(self.node);
        let aval = self.signature.avals.get(self.leaf);
        self.same &= matches!(node, Some(Node::Leaf)) && aval == Some(leaf.aval());
        self.node += 1;
        self.leaf += 1;
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.same &= self.signature.structure.nodes.get(self.node).is_some_and(|node| node.is(tag));
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
            // By its letters: equal names need not share an address, and many share a length.
            Tag::Name(name) => self.0.write(name.as_bytes()),
            Tag::Len(len) => self.0.write_usize(len),
            Tag::Static(value) => value.static_hash(self.0),
        }
    }
    fn enter(&mut self, _: Key<'_>) {}
    fn exit(&mut self) {}
}
