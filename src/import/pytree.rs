//! [`PyTree`]: arguments and results with the containers of Python.

use crate::core::{Array, Error};
use crate::tree::{PathKey, Tag, Tree, Visitor, count_leaves};
use oxidax_jax_export::PyTreeDef;
use std::collections::BTreeMap;
use std::ops::Index;

/// Arrays in the containers of Python: a tree whose structure is known when the program runs.
///
/// ```
/// use oxidax::import::PyTree;
/// use oxidax::prelude::*;
/// let params = PyTree::dict([("w", ones([4, 2]).into()), ("b", zeros([2]).into())]);
/// assert_eq!(tree::paths(&params), ["b", "w"]);
/// assert_eq!(params["w"].array().unwrap().shape().dims(), [4, 2]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PyTree {
    /// `None`.
    None,
    /// An array.
    Leaf(Array),
    /// A tuple.
    Tuple(Vec<PyTree>),
    /// A list.
    List(Vec<PyTree>),
    /// A dictionary, whose leaves are in the order of its keys.
    Dict(BTreeMap<String, PyTree>),
    /// A named tuple or a type that was registered with `jax.export`: its registered name, and its
    /// children.
    Custom(String, Vec<PyTree>),
}

impl PyTree {
    /// Creates a dictionary.
    pub fn dict<K: Into<String>>(entries: impl IntoIterator<Item = (K, PyTree)>) -> PyTree {
        PyTree::Dict(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Returns the array, if it is one.
    pub fn array(&self) -> Option<&Array> {
        match self {
            PyTree::Leaf(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the array.
    ///
    /// # Errors
    /// `Exchange` if it is not one array.
    pub fn into_array(self) -> Result<Array, Error> {
        match self {
            PyTree::Leaf(array) => Ok(array),
            other => {
                let leaves = count_leaves(&other);
                let message = format!("it has {leaves} leaves and is not one array");
                Err(Error::exchange("PyTree", message))
            }
        }
    }

    /// Returns the children of a tuple, a list or a custom type.
    pub fn items(&self) -> Option<&[PyTree]> {
        match self {
            PyTree::Tuple(items) | PyTree::List(items) | PyTree::Custom(_, items) => Some(items),
            _ => None,
        }
    }

    /// Returns the child at an index or with a key.
    pub fn get(&self, key: &str) -> Option<&PyTree> {
        match self {
            PyTree::Dict(entries) => entries.get(key),
            _ => self.items()?.get(key.parse::<usize>().ok()?),
        }
    }

    /// Builds a tree of a structure from its leaves.
    pub(super) fn of(structure: &PyTreeDef, leaves: &mut dyn Iterator<Item = Array>) -> PyTree {
        let mut all = |children: &[PyTreeDef]| -> Vec<PyTree> {
            children.iter().map(|child| PyTree::of(child, leaves)).collect()
        };
        match structure {
            PyTreeDef::Leaf => leaves.next().map_or(PyTree::None, PyTree::Leaf),
            PyTreeDef::Tuple(children) => PyTree::Tuple(all(children)),
            PyTreeDef::List(children) => PyTree::List(all(children)),
            PyTreeDef::Dict(entries) => {
                let entries =
                    entries.iter().map(|(key, child)| (key.clone(), PyTree::of(child, leaves)));
                PyTree::Dict(entries.collect())
            }
            PyTreeDef::Custom { name, children, .. } => PyTree::Custom(name.clone(), all(children)),
            _ => PyTree::None,
        }
    }
}

impl From<Array> for PyTree {
    fn from(array: Array) -> PyTree {
        PyTree::Leaf(array)
    }
}

impl Index<&str> for PyTree {
    type Output = PyTree;

    /// # Panics
    /// If there is no such key.
    fn index(&self, key: &str) -> &PyTree {
        self.get(key).unwrap_or_else(|| panic!("the tree has no entry `{key}`"))
    }
}

impl Index<usize> for PyTree {
    type Output = PyTree;

    /// # Panics
    /// If there are fewer children.
    fn index(&self, index: usize) -> &PyTree {
        let items = self.items().unwrap_or_default();
        items.get(index).unwrap_or_else(|| panic!("the tree has {} children", items.len()))
    }
}

impl Tree for PyTree {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        let mut all = |name: &'static str, items: &[PyTree]| {
            visitor.tag(Tag::Name(name));
            visitor.tag(Tag::Len(items.len()));
            for (index, item) in items.iter().enumerate() {
                visitor.enter(PathKey::Index(index));
                item.flatten(visitor);
                visitor.exit();
            }
        };
        match self {
            PyTree::None => visitor.tag(Tag::Name("None")),
            PyTree::Leaf(array) => visitor.leaf(array),
            PyTree::Tuple(items) => all("Tuple", items),
            PyTree::List(items) => all("List", items),
            PyTree::Custom(name, items) => {
                all("Custom", items);
                visitor.tag(Tag::of(name));
            }
            PyTree::Dict(entries) => {
                visitor.tag(Tag::Name("Dict"));
                entries.flatten(visitor);
            }
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> PyTree {
        let mut all = |items: &[PyTree]| items.iter().map(|item| item.unflatten(leaves)).collect();
        match self {
            PyTree::None => PyTree::None,
            PyTree::Leaf(array) => PyTree::Leaf(array.unflatten(leaves)),
            PyTree::Tuple(items) => PyTree::Tuple(all(items)),
            PyTree::List(items) => PyTree::List(all(items)),
            PyTree::Custom(name, items) => PyTree::Custom(name.clone(), all(items)),
            PyTree::Dict(entries) => PyTree::Dict(entries.unflatten(leaves)),
        }
    }
}
