//! [`PyTreeDef`]: the structure of arguments or results.

use crate::error::{Error, Result};
use crate::flatbuffer::Table;

/// The structure of nested Python containers, as JAX's `PyTreeDef`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PyTreeDef {
    /// An array.
    Leaf,
    /// `None`, without leaves.
    None,
    /// A tuple.
    Tuple(Vec<PyTreeDef>),
    /// A list.
    List(Vec<PyTreeDef>),
    /// A dictionary, in the order of its keys.
    Dict(Vec<(String, PyTreeDef)>),
    /// A type that the program registered with `register_pytree_node_serialization`, or a named
    /// tuple.
    Custom {
        /// The name under which it was registered.
        name: String,
        /// The bytes that its registration has serialized besides the children.
        data: Vec<u8>,
        /// The children.
        children: Vec<PyTreeDef>,
    },
}

/// Nesting at which a tree is refused.
const MAX_DEPTH: usize = 128;

/// Fields of `PyTreeDef`, and its kinds.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CHILDREN: usize = 1;
    pub(super) const NAMES: usize = 2;
    pub(super) const CUSTOM_NAME: usize = 3;
    pub(super) const CUSTOM_DATA: usize = 4;
}

impl PyTreeDef {
    pub(crate) fn read(table: Table<'_>) -> Result<PyTreeDef> {
        PyTreeDef::read_at(table, MAX_DEPTH)
    }

    fn read_at(table: Table<'_>, depth: usize) -> Result<PyTreeDef> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        let Some(depth) = depth.checked_sub(1) else {
            return fail(format!("a tree is nested deeper than {MAX_DEPTH}"));
        };
        let children = table.tables(field::CHILDREN)?.into_iter();
        let children = children.map(|child| PyTreeDef::read_at(child, depth));
        let children: Vec<PyTreeDef> = children.collect::<Result<_>>()?;
        Ok(match table.u8(field::KIND)? {
            0 => PyTreeDef::Leaf,
            1 => PyTreeDef::None,
            2 => PyTreeDef::Tuple(children),
            3 => PyTreeDef::List(children),
            4 => {
                let names = table.texts(field::NAMES)?;
                if names.len() != children.len() {
                    let (names, children) = (names.len(), children.len());
                    return fail(format!("a dictionary has {names} keys and {children} values"));
                }
                PyTreeDef::Dict(names.into_iter().zip(children).collect())
            }
            5 => PyTreeDef::Custom {
                name: table.text(field::CUSTOM_NAME)?.unwrap_or_default(),
                data: table.bytes(field::CUSTOM_DATA)?.unwrap_or_default().to_vec(),
                children,
            },
            kind => return fail(format!("a tree has nodes of the unknown kind {kind}")),
        })
    }

    /// Returns the paths of the leaves, in order: `[0]['layers'][1]`, as JAX writes them.
    ///
    /// ```
    /// use oxidax_jax_export::PyTreeDef;
    /// let weights = PyTreeDef::Dict(vec![("w".into(), PyTreeDef::Leaf)]);
    /// let pair = PyTreeDef::Tuple(vec![PyTreeDef::Leaf, weights]);
    /// assert_eq!(pair.paths(), ["[0]", "[1]['w']"]);
    /// ```
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths(&mut String::new(), &mut paths);
        paths
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> usize {
        match self {
            PyTreeDef::Leaf => 1,
            PyTreeDef::None => 0,
            PyTreeDef::Tuple(children)
            | PyTreeDef::List(children)
            | PyTreeDef::Custom { children, .. } => children.iter().map(PyTreeDef::leaves).sum(),
            PyTreeDef::Dict(children) => children.iter().map(|(_, child)| child.leaves()).sum(),
        }
    }

    fn add_paths(&self, path: &mut String, paths: &mut Vec<String>) {
        let mut below = |entry: &str, child: &PyTreeDef| {
            let length = path.len();
            path.push_str(entry);
            child.add_paths(path, paths);
            path.truncate(length);
        };
        match self {
            PyTreeDef::Leaf => paths.push(path.clone()),
            PyTreeDef::None => {}
            PyTreeDef::Tuple(children) | PyTreeDef::List(children) => {
                for (index, child) in children.iter().enumerate() {
                    below(&format!("[{index}]"), child);
                }
            }
            PyTreeDef::Dict(children) => {
                children.iter().for_each(|(key, child)| below(&format!("['{key}']"), child));
            }
            PyTreeDef::Custom { children, .. } => {
                for (index, child) in children.iter().enumerate() {
                    below(&format!("[<flat index {index}>]"), child);
                }
            }
        }
    }
}
