//! [`TreeDef`]: the structure of arguments or results.

use crate::error::{Error, Result};
use crate::flatbuffer::Table;

/// The structure of nested Python containers, as JAX's `PyTreeDef`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TreeDef {
    /// An array.
    Leaf,
    /// `None`, without leaves.
    None,
    /// A tuple.
    Tuple(Vec<TreeDef>),
    /// A list.
    List(Vec<TreeDef>),
    /// A dictionary, in the order of its keys.
    Dict(Vec<(String, TreeDef)>),
    /// A type that the program registered with `register_pytree_node_serialization`, or a named
    /// tuple.
    Custom {
        /// The name under which it was registered.
        name: String,
        /// What its registration has serialized besides the children.
        data: Vec<u8>,
        /// The children.
        children: Vec<TreeDef>,
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

impl TreeDef {
    pub(crate) fn read(table: Table<'_>) -> Result<TreeDef> {
        TreeDef::read_at(table, MAX_DEPTH)
    }

    fn read_at(table: Table<'_>, depth: usize) -> Result<TreeDef> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        let Some(depth) = depth.checked_sub(1) else {
            return fail(format!("a tree is nested deeper than {MAX_DEPTH}"));
        };
        let children = table.tables(field::CHILDREN)?.into_iter();
        let children = children.map(|child| TreeDef::read_at(child, depth));
        let children: Vec<TreeDef> = children.collect::<Result<_>>()?;
        Ok(match table.u8(field::KIND)? {
            0 => TreeDef::Leaf,
            1 => TreeDef::None,
            2 => TreeDef::Tuple(children),
            3 => TreeDef::List(children),
            4 => {
                let names = table.texts(field::NAMES)?;
                if names.len() != children.len() {
                    let (names, children) = (names.len(), children.len());
                    return fail(format!("a dictionary has {names} keys and {children} values"));
                }
                TreeDef::Dict(names.into_iter().zip(children).collect())
            }
            5 => TreeDef::Custom {
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
    /// use oxidax_jax_export::TreeDef;
    /// let pair = TreeDef::Tuple(vec![TreeDef::Leaf, TreeDef::Dict(vec![("w".into(), TreeDef::Leaf)])]);
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
            TreeDef::Leaf => 1,
            TreeDef::None => 0,
            TreeDef::Tuple(children)
            | TreeDef::List(children)
            | TreeDef::Custom { children, .. } => children.iter().map(TreeDef::leaves).sum(),
            TreeDef::Dict(children) => children.iter().map(|(_, child)| child.leaves()).sum(),
        }
    }

    fn add_paths(&self, path: &mut String, paths: &mut Vec<String>) {
        let mut below = |entry: &str, child: &TreeDef| {
            let length = path.len();
            path.push_str(entry);
            child.add_paths(path, paths);
            path.truncate(length);
        };
        match self {
            TreeDef::Leaf => paths.push(path.clone()),
            TreeDef::None => {}
            TreeDef::Tuple(children) | TreeDef::List(children) => {
                for (index, child) in children.iter().enumerate() {
                    below(&format!("[{index}]"), child);
                }
            }
            TreeDef::Dict(children) => {
                children.iter().for_each(|(key, child)| below(&format!("['{key}']"), child));
            }
            TreeDef::Custom { children, .. } => {
                for (index, child) in children.iter().enumerate() {
                    below(&format!("[<flat index {index}>]"), child);
                }
            }
        }
    }
}
