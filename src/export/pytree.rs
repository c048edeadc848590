//! The structure of arguments and results in Python.

use crate::tree::Nesting;
use oxidax_jax_export::PyTreeDef;

/// Converts containers. Adds the index of each leaf to `leaves`, in the order in which JAX flattens
/// the tree: dictionaries by their keys.
pub(super) fn pytree(nesting: &Nesting, leaves: &mut Vec<usize>) -> PyTreeDef {
    let mut all = |children: &[Nesting]| children.iter().map(|c| pytree(c, leaves)).collect();
    match nesting {
        Nesting::Leaf(index) => {
            leaves.push(*index);
            PyTreeDef::Leaf
        }
        Nesting::Nothing => PyTreeDef::None,
        Nesting::Tuple(children) => PyTreeDef::Tuple(all(children)),
        Nesting::List(children) => PyTreeDef::List(all(children)),
        Nesting::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let entries = entries.into_iter();
            PyTreeDef::Dict(
                entries.map(|(key, child)| (key.clone(), pytree(child, leaves))).collect(),
            )
        }
    }
}

/// Returns the structure of a call: a tuple of arguments, and no keywords.
pub(super) fn call(arguments: PyTreeDef) -> PyTreeDef {
    PyTreeDef::Tuple(vec![arguments, PyTreeDef::Dict(Vec::new())])
}

/// Returns the structure of a tuple of arrays.
pub(super) fn flat(leaves: usize) -> PyTreeDef {
    PyTreeDef::Tuple(vec![PyTreeDef::Leaf; leaves])
}
