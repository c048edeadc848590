//! References as leaves of trees.

use super::{Tag, Tree, Visitor, Walk, leaves_of};
use crate::core::trace::{collect_refs, refs_exist};
use crate::core::{Array, ArrayRef};

/// The leaf is the present value. A function under trace that takes the tree as an argument gets a
/// reference, and what it writes is written to this one. Other functions of trees make new
/// references, if they change the leaf.
impl Tree for ArrayRef {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name("ArrayRef"));
        visitor.leaf(&self.flattened());
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> ArrayRef {
        self.rebuilt(leaves.next().expect("one leaf per reference"))
    }
}

/// Returns the leaves of a tree, and its references in order.
pub(crate) fn leaves_and_refs(tree: &impl Walk) -> (Vec<Array>, Vec<ArrayRef>) {
    if refs_exist() { collect_refs(|| leaves_of(tree)) } else { (leaves_of(tree), Vec::new()) }
}

/// Returns the references of a tree, in order.
pub(crate) fn refs_of(tree: &impl Walk) -> Vec<ArrayRef> {
    leaves_and_refs(tree).1
}
