//! Nested dictionaries of arrays.

use super::decode::msgpack_restore;
use super::encode::msgpack_serialize;
use super::errors::value_error;
use oxidax::prelude::*;
use oxidax::tree::{PathKey, Tag, Visitor};
use std::collections::BTreeMap;

/// A nested dictionary of arrays and small values, the contents of a file of Flax.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StateDict {
    /// A dictionary.
    Map(BTreeMap<String, StateDict>),
    /// An array.
    Array(Array),
    /// A list, which Flax writes for Python lists only.
    List(Vec<StateDict>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `None`.
    Nil,
}

impl StateDict {
    /// Returns the value of a key of a dictionary.
    pub fn get(&self, key: &str) -> Option<&StateDict> {
        match self {
            StateDict::Map(entries) => entries.get(key),
            _ => None,
        }
    }

    /// Returns the array, if the value is one.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            StateDict::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// Collects the names of the leaves of a tree: one list for each leaf.
#[derive(Default)]
struct Names {
    path: Vec<String>,
    leaves: Vec<(Vec<String>, Array)>,
}

impl Visitor for Names {
    fn leaf(&mut self, leaf: &Array) {
        self.leaves.push((self.path.clone(), leaf.clone()));
    }

    fn tag(&mut self, _: Tag<'_>) {}

    fn enter(&mut self, key: PathKey<'_>) {
        self.path.push(match key {
            PathKey::Field(name) => name.to_owned(),
            PathKey::Index(index) => index.to_string(),
            PathKey::Entry(name) => name.to_string(),
        });
    }

    fn exit(&mut self) {
        self.path.pop();
    }
}

fn names<T: Tree>(tree: &T) -> Vec<(Vec<String>, Array)> {
    let mut names = Names::default();
    tree.flatten(&mut names);
    names.leaves
}

/// Returns a tree as a nested dictionary. A tree that is one array becomes that array.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::serialization::to_state_dict;
/// let model = vec![nn::Linear::new(random::key(0), 3, 2)];
/// let dict = to_state_dict(&model);
/// let weight = dict.get("0").and_then(|layer| layer.get("weight")?.as_array());
/// assert_eq!(weight.map(|weight| weight.aval().to_string()), Some("f32[3,2]".into()));
/// ```
pub fn to_state_dict<T: Tree>(tree: &T) -> StateDict {
    let mut root = StateDict::Map(BTreeMap::new());
    for (path, leaf) in names(tree) {
        let mut node = &mut root;
        for name in &path {
            if !matches!(node, StateDict::Map(_)) {
                *node = StateDict::Map(BTreeMap::new());
            }
            let StateDict::Map(entries) = node else { continue };
            node = entries.entry(name.clone()).or_insert(StateDict::Nil);
        }
        *node = StateDict::Array(leaf);
    }
    root
}

/// Returns a tree with the structure of `template` and the arrays of a nested dictionary.
///
/// # Errors
/// `Op` (value) if an array is missing or has another shape or dtype, or if the dictionary has
/// arrays that the template does not have.
#[track_caller]
pub fn from_state_dict<T: Tree>(template: &T, dict: &StateDict) -> Result<T, Error> {
    let name = "from_state_dict";
    let expected = names(template);
    let mut leaves = Vec::with_capacity(expected.len());
    for (path, leaf) in &expected {
        let found = path.iter().try_fold(dict, |node, key| match node {
            StateDict::List(items) => items.get(key.parse::<usize>().ok()?),
            node => node.get(key),
        });
        let path = path.join("/");
        let array = match found {
            Some(StateDict::Array(array)) => array,
            Some(_) => return Err(value_error(name, format!("`{path}` is not an array"))),
            None => return Err(value_error(name, format!("`{path}` {} is missing", leaf.aval()))),
        };
        if array.shape() != leaf.shape() || array.dtype() != leaf.dtype() {
            let message = format!("`{path}` is {}, the template has {}", array.aval(), leaf.aval());
            return Err(value_error(name, message));
        }
        leaves.push(array.clone());
    }
    let expected: Vec<String> = expected.iter().map(|(path, _)| path.join("/")).collect();
    let found = super::flatten_dict(dict, "/");
    if let Some(path) = found.keys().find(|path| !expected.contains(path)) {
        let message = format!("`{path}` {} is not in the template", found[path].aval());
        return Err(value_error(name, message));
    }
    Ok(tree::unflatten(template, leaves))
}

/// Writes a tree as MessagePack, as `flax.serialization.to_bytes` does.
///
/// # Errors
/// `Runtime` if the computation of a leaf failed; `Op` (dtype) for a dtype that NumPy does not
/// have.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::serialization::{msgpack_restore, to_bytes};
/// let bytes = to_bytes(&[ones([2]), zeros([])])?;
/// let dict = msgpack_restore(&bytes)?;
/// let first = dict.get("0").and_then(|leaf| leaf.as_array());
/// assert_eq!(first.map(|first| first.to_vec::<f32>()).transpose()?, Some(vec![1.0, 1.0]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn to_bytes<T: Tree>(tree: &T) -> Result<Vec<u8>, Error> {
    msgpack_serialize(&to_state_dict(tree))
}

/// Reads a tree from MessagePack, as `flax.serialization.from_bytes` does.
///
/// # Errors
/// As [`msgpack_restore`] and [`from_state_dict`].
#[track_caller]
pub fn from_bytes<T: Tree>(template: &T, bytes: &[u8]) -> Result<T, Error> {
    from_state_dict(template, &msgpack_restore(bytes)?)
}
