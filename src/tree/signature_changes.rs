//! Differences between two signatures, leaf by leaf.

use super::Signature;
use super::def::{Node, TreeDef, rooted};
use crate::core::{Aval, RecompilationCause};
use rustc_hash::{FxHashMap, FxHashSet};

impl Signature {
    /// Returns the differences of this signature to an earlier one, in the order of the tree:
    /// static values and structure first, then the leaves that both have. Empty if they are equal.
    pub(crate) fn changes_since(&self, earlier: &Signature) -> Vec<RecompilationCause> {
        let mut causes = self.structure.changes_since(&earlier.structure);
        let earlier: FxHashMap<&str, &Aval> =
            earlier.paths().iter().map(String::as_str).zip(earlier.avals()).collect();
        for (path, new) in self.paths().iter().zip(self.avals()) {
            if let Some(&old) = earlier.get(path.as_str())
                && old != new
            {
                leaf_changes(&rooted(path), old, new, &mut causes);
            }
        }
        causes
    }
}

impl TreeDef {
    /// Returns the static values that differ, and the first other difference.
    fn changes_since(&self, earlier: &TreeDef) -> Vec<RecompilationCause> {
        let mut causes = Vec::new();
        for index in 0..self.nodes.len().max(earlier.nodes.len()) {
            let (old, new) = (earlier.node_at(index), self.node_at(index));
            if old == new {
                continue;
            }
            if let (Some((Node::Static(a), before)), Some((Node::Static(b), path))) = (old, new)
                && before == path
            {
                let (old, new) = (format!("{a:?}"), format!("{b:?}"));
                causes.push(RecompilationCause::Static { path: rooted(path), old, new });
                continue;
            }
            let path = new.or(old).map(|(_, path)| rooted(path)).unwrap_or_default();
            let describe = |node: Option<(&Node, &str)>| match node {
                Some((node, at)) if rooted(at) == path => node.describe(),
                _ => "nothing".to_string(),
            };
            causes.push(RecompilationCause::Structure {
                old: describe(old),
                new: describe(new),
                path,
                added: leaves_without(self, earlier),
                removed: leaves_without(earlier, self),
            });
            break;
        }
        causes
    }

    fn node_at(&self, index: usize) -> Option<(&Node, &str)> {
        Some((self.nodes.get(index)?, self.node_paths.get(index)?))
    }
}

/// Returns the paths of the leaves of `tree` that `other` does not have.
fn leaves_without(tree: &TreeDef, other: &TreeDef) -> Vec<String> {
    let others: FxHashSet<&str> = other.paths().iter().map(String::as_str).collect();
    let paths = tree.paths().iter().filter(|path| !others.contains(path.as_str()));
    paths.map(|path| rooted(path)).collect()
}

/// Adds the differences between two types of the leaf `leaf`.
fn leaf_changes(leaf: &str, old: &Aval, new: &Aval, causes: &mut Vec<RecompilationCause>) {
    let leaf = || leaf.to_string();
    if old.rank() != new.rank() {
        let (old, new) = (old.shape.dims().to_vec(), new.shape.dims().to_vec());
        causes.push(RecompilationCause::Rank { leaf: leaf(), old, new });
    } else {
        let sizes = old.shape.iter().zip(new.shape.iter()).enumerate();
        for (axis, (&old, &new)) in sizes.filter(|(_, (old, new))| old != new) {
            causes.push(RecompilationCause::Axis { leaf: leaf(), axis, old, new });
        }
    }
    if old.dtype != new.dtype {
        let (old, new) = (old.dtype, new.dtype);
        causes.push(RecompilationCause::DType { leaf: leaf(), old, new });
    }
    if old.weak != new.weak {
        causes.push(RecompilationCause::WeakType { leaf: leaf(), is_weak: new.weak });
    }
    if old.memory != new.memory {
        let (old, new) = (old.memory, new.memory);
        causes.push(RecompilationCause::Memory { leaf: leaf(), old, new });
    }
    if old.sharding != new.sharding {
        let [old, new] =
            [old, new].map(|aval| aval.sharding.as_ref().map(|sharding| format!("{sharding:?}")));
        causes.push(RecompilationCause::Placement { leaf: leaf(), old, new });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::DType;
    use crate::prelude::*;

    fn changes(old: &impl tree::Walk, new: &impl tree::Walk) -> Vec<String> {
        let causes = Signature::of(new).changes_since(&Signature::of(old));
        causes.iter().map(ToString::to_string).collect()
    }

    fn typed(dtype: DType, shape: &[usize]) -> Array {
        Array::of_type(Aval::new(dtype, shape))
    }

    #[test]
    fn equal_trees_have_no_changes() {
        let tree = || (typed(DType::F32, &[2]), Static(3), Some(typed(DType::I32, &[])));
        assert_eq!(changes(&tree(), &tree()), [""; 0]);
    }

    #[test]
    fn axes_dtypes_and_statics_are_listed_together() {
        let old = (typed(DType::F32, &[2, 3]), Static(3), typed(DType::F32, &[4]));
        let new = (typed(DType::BF16, &[5, 6]), Static(4), typed(DType::F32, &[4, 1]));
        assert_eq!(
            changes(&old, &new),
            [
                "$[1]: the static value is 4, was 3",
                "$[0]: axis 0 has size 5, was 2",
                "$[0]: axis 1 has size 6, was 3",
                "$[0]: the dtype is bf16, was f32",
                "$[2]: the shape is [4, 1], was [4]",
            ]
        );
    }

    #[test]
    fn changed_structure_lists_leaves_that_come_and_go() {
        let leaf = || typed(DType::F32, &[2]);
        let none: (Option<Array>, Array) = (None, leaf());
        assert_eq!(
            changes(&(Some(leaf()), leaf()), &none),
            ["$[0]: the structure is `None`, was `Some`, removed leaves $[0]"]
        );
        let grown = vec![leaf(), leaf(), typed(DType::F32, &[3])];
        assert_eq!(
            changes(&vec![leaf()], &grown),
            ["$: the structure is 3 children, was 1 child, new leaves $[1], $[2]"]
        );
    }
}
