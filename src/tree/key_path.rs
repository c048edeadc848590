//! [`KeyPath`]: the keys on the way to a leaf, printed as JAX does.

use super::{PathKey, Tag, TreeDef, Visitor, Walk, leaves_of};
use crate::core::Array;
use crate::tree::Tree;
use std::fmt;

/// A step on the way to a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyEntry {
    /// A field of a struct.
    #[doc(alias = "GetAttrKey")]
    Field(String),
    /// An index in a tuple, vector or array.
    #[doc(alias = "SequenceKey")]
    #[doc(alias = "FlattenedIndexKey")]
    Index(usize),
    /// A key of a map, as text. Text keys are printed in quotes, others as they are.
    #[doc(alias = "DictKey")]
    Entry {
        /// The text of the key.
        key: String,
        /// True if the key is text, false if it is a number or another value.
        is_text: bool,
    },
}

/// The keys on the way to a leaf. Prints as `jax.tree_util.keystr`: `.blocks[3]['weight']`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyPath {
    entries: Vec<KeyEntry>,
}

impl KeyPath {
    /// Returns the steps, from the root.
    pub fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    /// Returns the keys without brackets and quotes, with `separator` between them:
    /// `keystr(path, simple=True, separator=".")`.
    pub fn join(&self, separator: &str) -> String {
        let keys = self.entries.iter().map(|entry| match entry {
            KeyEntry::Field(name) => name.clone(),
            KeyEntry::Index(index) => index.to_string(),
            KeyEntry::Entry { key, .. } => key.clone(),
        });
        keys.collect::<Vec<_>>().join(separator)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            match entry {
                KeyEntry::Field(name) => write!(f, ".{name}")?,
                KeyEntry::Index(index) => write!(f, "[{index}]")?,
                KeyEntry::Entry { key, is_text: true } => write!(f, "[{}]", quoted(key))?,
                KeyEntry::Entry { key, is_text: false } => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// Quotes text as Python does.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c == quote => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

/// Records the path of every leaf.
#[derive(Default)]
struct Recorder {
    entries: Vec<KeyEntry>,
    paths: Vec<KeyPath>,
    /// True if the last fact was a static text, which is the key of the entry that follows.
    after_text: bool,
}

impl Visitor for Recorder {
    fn leaf(&mut self, _: &Array) {
        self.paths.push(KeyPath { entries: self.entries.clone() });
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.after_text =
            matches!(tag, Tag::Static(value) if format!("{value:?}").starts_with(['"', '\'']));
    }
    fn enter(&mut self, key: PathKey<'_>) {
        self.entries.push(match key {
            PathKey::Field(name) => KeyEntry::Field(name.to_string()),
            PathKey::Index(index) => KeyEntry::Index(index),
            PathKey::Entry(key) => {
                KeyEntry::Entry { key: key.to_string(), is_text: self.after_text }
            }
        });
    }
    fn exit(&mut self) {
        self.entries.pop();
    }
}

/// Returns the keys on the way to each leaf, in order. [`paths`](super::paths) returns them as text
/// in oxidax's form.
///
/// ```
/// use oxidax::prelude::*;
/// use std::collections::BTreeMap;
/// let params = BTreeMap::from([("head", vec![ones([2]), zeros([2])])]);
/// let paths = tree::key_paths(&params);
/// assert_eq!(paths[1].to_string(), "['head'][1]");
/// assert_eq!(paths[1].join("/"), "head/1");
/// assert_eq!(tree::paths(&params)[1], "head[1]");
/// ```
#[doc(alias = "keystr")]
#[doc(alias = "tree_flatten_with_path")]
pub fn key_paths(tree: &impl Walk) -> Vec<KeyPath> {
    let mut recorder = Recorder::default();
    tree.walk(&mut recorder);
    recorder.paths
}

/// Returns the arrays of a tree, in order, and its structure.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = (ones([2]), vec![zeros([3])]);
/// let (leaves, structure) = tree::flatten(&pair);
/// assert_eq!((leaves.len(), structure.n_leaves()), (2, 2));
/// let same = tree::unflatten(&pair, leaves);
/// assert_eq!(tree::structure(&same), structure);
/// ```
#[doc(alias = "tree_flatten")]
pub fn flatten<T: Tree>(tree: &T) -> (Vec<Array>, TreeDef) {
    (leaves_of(tree), TreeDef::of(tree))
}

/// Returns the paths and arrays of a tree, in order, and its structure.
#[doc(alias = "tree_flatten_with_path")]
pub fn flatten_with_path<T: Tree>(tree: &T) -> (Vec<(String, Array)>, TreeDef) {
    let structure = TreeDef::of(tree);
    let paths = structure.paths().iter().cloned();
    (paths.zip(leaves_of(tree)).collect(), structure)
}

/// Returns the paths and arrays of a tree, in order.
///
/// ```
/// use oxidax::prelude::*;
/// for (path, leaf) in tree::leaves_with_path(&(ones([2]), vec![zeros([3])])) {
///     println!("{path}: {}", leaf.aval());
/// }
/// ```
#[doc(alias = "tree_leaves_with_path")]
pub fn leaves_with_path<T: Tree>(tree: &T) -> Vec<(String, Array)> {
    flatten_with_path(tree).0
}

/// Returns true if `f` is true for every leaf.
///
/// ```
/// use oxidax::prelude::*;
/// assert!(tree::all(&(ones([2]), zeros([3])), |leaf| leaf.rank() == 1));
/// ```
#[doc(alias = "tree_all")]
pub fn all<T: Tree>(tree: &T, f: impl FnMut(&Array) -> bool) -> bool {
    leaves_of(tree).iter().all(f)
}

/// Combines all leaves by an associative function in pairs. The result is a balanced tree of calls:
/// ten times `f` deep for a thousand leaves, where [`reduce`](super::reduce) is a thousand deep.
/// Without leaves the result is `identity`.
///
/// ```
/// use oxidax::prelude::*;
/// let parts = vec![scalar(1.0), scalar(2.0), scalar(3.0)];
/// let sum = tree::reduce_associative(&parts, 0.0, |a, b| a + b);
/// assert_eq!(sum.item::<f32>()?, 6.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_reduce_associative")]
#[track_caller]
pub fn reduce_associative<T: Tree>(
    tree: &T,
    identity: impl crate::primitives::ArrayLike,
    f: impl Fn(&Array, &Array) -> Array,
) -> Array {
    let mut values = leaves_of(tree);
    if values.is_empty() {
        return identity.to_array();
    }
    while values.len() > 1 {
        let halved = values.chunks(2).map(|pair| match pair {
            [a, b] => f(a, b),
            rest => rest[0].clone(),
        });
        values = halved.collect();
    }
    values.swap_remove(0)
}
