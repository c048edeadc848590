//! Trees that are prefixes of others, whose leaves stand for whole parts of them.

use super::def::leaf_keys;
use super::{Tree, TreeDef, leaves_of, rebuild, rooted};
use crate::core::{Error, Loc, TreeError, trace};

/// Returns a tree with the structure of `tree`, each of whose leaves is the leaf of `prefix` above
/// it.
///
/// `prefix` has the keys of `tree` down to its own leaves: an array stands for a whole tree, a pair
/// of arrays for a pair of trees. Shapes and dtypes are those of `prefix`.
///
/// Throws `Tree`, naming the path, if a leaf of `tree` is not below a leaf of `prefix`, or a leaf
/// of `prefix` has no place in `tree`.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (vec![ones([2]), ones([3])], ones([4]));
/// let rates = tree::broadcast(&(scalar(0.1), scalar(0.2)), &params);
/// let step = tree::zip_map(&params, &rates, |p, rate| p * rate);
/// assert_eq!(step.1.to_vec::<f32>()?, [0.2; 4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_broadcast")]
#[doc(alias = "broadcast_prefix")]
#[track_caller]
pub fn broadcast<P: Tree, T: Tree>(prefix: &P, tree: &T) -> T {
    let loc = Loc::caller();
    let indices = leaf_of_prefix(prefix, tree);
    let indices =
        indices.unwrap_or_else(|mismatch| throw_mismatch(mismatch, "tree::broadcast", loc));
    let leaves = leaves_of(prefix);
    rebuild(tree, indices.into_iter().map(|index| leaves[index].clone()).collect())
}

/// A leaf of a prefix or of the tree that does not match: its path, and what is wrong.
pub(super) struct PrefixMismatch {
    path: String,
    message: String,
}

pub(super) fn throw_mismatch(mismatch: PrefixMismatch, function: &str, loc: Loc) -> ! {
    trace::throw(Error::Tree(Box::new(TreeError {
        path: rooted(&mismatch.path),
        message: format!("{function}: {}", mismatch.message),
        loc,
        help: Some("the prefix needs the keys of the tree down to its own leaves".into()),
    })))
}

/// Returns the index of the leaf of `prefix` above each leaf of `tree`.
pub(super) fn leaf_of_prefix<P: Tree, T: Tree>(
    prefix: &P,
    tree: &T,
) -> Result<Vec<usize>, PrefixMismatch> {
    let (prefix_keys, keys) = (leaf_keys(prefix), leaf_keys(tree));
    let (prefix_def, def) = (TreeDef::of(prefix), TreeDef::of(tree));
    let mut indices = Vec::with_capacity(keys.len());
    for (leaf, path) in keys.iter().zip(def.paths()) {
        let index = prefix_keys.iter().position(|key| leaf.starts_with(key));
        let missing = || PrefixMismatch {
            path: path.clone(),
            message: format!("no leaf of the prefix, {:?}, is above this one", prefix_def.paths()),
        };
        indices.push(index.ok_or_else(missing)?);
    }
    // A leaf of the prefix may stand for a node without leaves, such as an absent option.
    let is_node = |path: &String| path.is_empty() || def.node_paths.contains(path);
    let unused = prefix_def
        .paths()
        .iter()
        .enumerate()
        .find(|(index, path)| !indices.contains(index) && !is_node(path));
    match unused {
        None => Ok(indices),
        Some((_, path)) => Err(PrefixMismatch {
            path: path.clone(),
            message: format!("the tree, {:?}, has nothing at this leaf of the prefix", def.paths()),
        }),
    }
}

/// A tree of entries that is nested as a tree of arrays is, down to entries for whole parts of it:
/// axes of `vmap`, or specs of `shard_map`.
pub(crate) enum EntryTree<E> {
    /// One entry for all leaves.
    All(E),
    /// A tree per child that has leaves, in order, or an entry per leaf.
    Each(Vec<EntryTree<E>>),
    /// A tree per field of a struct or key of a map.
    Fields(Vec<(String, EntryTree<E>)>),
}

impl<E: Clone> EntryTree<E> {
    /// Returns the entry of each leaf of a tree, whose leaves have these keys. An entry belongs to
    /// a child that has leaves, or, if the numbers of children and entries differ, to a leaf.
    pub(crate) fn per_leaf(&self, keys: &[&[String]]) -> Result<Vec<E>, EntryMismatch> {
        let entries = match self {
            EntryTree::All(entry) => return Ok(vec![entry.clone(); keys.len()]),
            EntryTree::Each(entries) => entries,
            EntryTree::Fields(fields) => return of_fields(fields, keys),
        };
        let children = children(keys);
        if children.len() == entries.len() {
            let mut found = Vec::with_capacity(keys.len());
            for (entry, (key, leaves)) in entries.iter().zip(children) {
                found.extend(entry.per_leaf(&leaves).map_err(|error| error.inside(key))?);
            }
            return Ok(found);
        }
        match self.flat() {
            Some(flat) if flat.len() == keys.len() => Ok(flat),
            flat => {
                let named = flat.map_or(entries.len(), |flat| flat.len());
                Err(EntryMismatch::Count { named, path: Vec::new() })
            }
        }
    }

    /// Returns all entries in order, unless some are named.
    fn flat(&self) -> Option<Vec<E>> {
        match self {
            EntryTree::All(entry) => Some(vec![entry.clone()]),
            EntryTree::Each(entries) => {
                let entries: Option<Vec<_>> = entries.iter().map(EntryTree::flat).collect();
                entries.map(|entries| entries.concat())
            }
            EntryTree::Fields(_) => None,
        }
    }
}

/// The leaves of a child of a tree: its key, and the keys inside it.
type Child<'a> = (&'a str, Vec<&'a [String]>);

/// Groups leaves by their first key. A leaf without keys is its own child.
fn children<'a>(keys: &[&'a [String]]) -> Vec<Child<'a>> {
    let mut children: Vec<Child<'a>> = Vec::new();
    for keys in keys {
        let (key, rest) = match keys.split_first() {
            Some((key, rest)) => (key.as_str(), rest),
            None => ("", *keys),
        };
        match children.last_mut() {
            Some((last, leaves)) if *last == key => leaves.push(rest),
            _ => children.push((key, vec![rest])),
        }
    }
    children
}

/// Returns the entries of leaves by the names of their fields.
fn of_fields<E: Clone>(
    fields: &[(String, EntryTree<E>)],
    keys: &[&[String]],
) -> Result<Vec<E>, EntryMismatch> {
    let children = children(keys);
    let has_child = |name: &str| children.iter().any(|(key, _)| *key == name);
    let mismatch = |reason| EntryMismatch::Field { reason, path: Vec::new() };
    for (index, (name, _)) in fields.iter().enumerate() {
        if !has_child(name) {
            let names: Vec<&str> = children.iter().map(|(key, _)| *key).collect();
            return Err(mismatch(format!("has no arrays in a field `{name}`, but in {names:?}")));
        }
        if fields[..index].iter().any(|(other, _)| other == name) {
            return Err(mismatch(format!("gets two entries for the field `{name}`")));
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for (key, leaves) in children {
        let Some((_, entry)) = fields.iter().find(|(name, _)| name == key) else {
            return Err(mismatch(format!("gets no entry for its field `{key}`")));
        };
        found.extend(entry.per_leaf(&leaves).map_err(|error| error.inside(key))?);
    }
    Ok(found)
}

/// The difference between a tree of entries and a tree of arrays.
pub(crate) enum EntryMismatch {
    /// The number of entries.
    Count { named: usize, path: Vec<String> },
    /// The names of fields.
    Field { reason: String, path: Vec<String> },
}

impl EntryMismatch {
    /// Returns the mismatch seen from the parent of the child with this key.
    fn inside(mut self, key: &str) -> EntryMismatch {
        let (EntryMismatch::Count { path, .. } | EntryMismatch::Field { path, .. }) = &mut self;
        path.insert(0, key.to_string());
        self
    }

    /// Returns the message of `option` about `tree`, which has `count` leaves. `noun` names the
    /// entries.
    pub(crate) fn message(self, option: &str, noun: &str, tree: &str, count: usize) -> String {
        let at = |path: &[String]| match path {
            [] => tree.to_string(),
            path => format!("`{}` of {tree}", path.join(".")),
        };
        match self {
            EntryMismatch::Count { named, path } if path.is_empty() => {
                format!("{option} names {named} {noun} for {tree}, which has {count} leaves")
            }
            EntryMismatch::Count { named, path } => format!(
                "{option} names {named} {noun} for {}, which has another number of children",
                at(&path)
            ),
            EntryMismatch::Field { reason, path } => format!("{option}: {} {reason}", at(&path)),
        }
    }
}
