//! Dictionaries by path, and the leaves that a filter selects.

use super::errors::value_error;
use super::state_dict::StateDict;
use oxidax::optim::Mask;
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// Returns the arrays of a nested dictionary by their keys, joined by `sep`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::serialization::{flatten_dict, to_state_dict, unflatten_dict};
/// let model = vec![nn::Linear::new(random::key(0), 3, 2)];
/// let flat = flatten_dict(&to_state_dict(&model), "/");
/// assert_eq!(flat.keys().collect::<Vec<_>>(), ["0/bias", "0/weight"]);
/// let dict = unflatten_dict(flat, "/")?;
/// assert!(dict.get("0").is_some());
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn flatten_dict(dict: &StateDict, sep: &str) -> BTreeMap<String, Array> {
    let mut flat = BTreeMap::new();
    collect(dict, "", sep, &mut flat);
    flat
}

fn collect(dict: &StateDict, path: &str, sep: &str, flat: &mut BTreeMap<String, Array>) {
    let join = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}{sep}{name}"),
    };
    match dict {
        StateDict::Array(array) => drop(flat.insert(path.to_owned(), array.clone())),
        StateDict::Map(entries) => {
            for (name, value) in entries {
                collect(value, &join(name), sep, flat);
            }
        }
        StateDict::List(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &join(&index.to_string()), sep, flat);
            }
        }
        _ => {}
    }
}

/// Returns the nested dictionary of arrays by their keys, joined by `sep`: the inverse of
/// [`flatten_dict`].
///
/// # Errors
/// `Op` (value) if a path is the beginning of another one.
#[track_caller]
pub fn unflatten_dict(
    flat: impl IntoIterator<Item = (String, Array)>,
    sep: &str,
) -> Result<StateDict, Error> {
    let mut root = BTreeMap::new();
    for (path, array) in flat {
        let mut names: Vec<&str> = path.split(sep).collect();
        let last = names.pop().unwrap_or_default();
        let mut entries = &mut root;
        let conflict = || format!("`{path}` is inside of another array, or is one twice");
        for name in names {
            let node =
                entries.entry(name.to_owned()).or_insert_with(|| StateDict::Map(BTreeMap::new()));
            let StateDict::Map(inner) = node else {
                return Err(value_error("unflatten_dict", conflict()));
            };
            entries = inner;
        }
        if entries.insert(last.to_owned(), StateDict::Array(array)).is_some() {
            return Err(value_error("unflatten_dict", conflict()));
        }
    }
    Ok(StateDict::Map(root))
}

/// The leaves of a tree that a filter of paths selects.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::serialization::ModelParamTraversal;
/// let model = nn::Linear::new(random::key(0), 3, 2);
/// let biases = ModelParamTraversal::new(|path, _| path.ends_with("bias"));
/// let shifted = biases.update(&model, |bias| bias + 1.0);
/// assert_eq!(biases.leaves(&shifted)[0].to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct ModelParamTraversal {
    filter: Mask,
}

impl ModelParamTraversal {
    /// Selects the leaves for whose path and type the function returns true.
    pub fn new(
        filter: impl Fn(&str, &Aval) -> bool + Send + Sync + 'static,
    ) -> ModelParamTraversal {
        ModelParamTraversal { filter: Mask::new(filter) }
    }

    /// Returns the selected leaves, in order.
    #[doc(alias = "iterate")]
    pub fn leaves<T: Tree>(&self, tree: &T) -> Vec<Array> {
        let leaves = tree::paths(tree).into_iter().zip(tree::leaves(tree));
        leaves
            .filter(|(path, leaf)| self.filter.contains(path, leaf.aval()))
            .map(|(_, leaf)| leaf)
            .collect()
    }

    /// Returns the tree with a function applied to the selected leaves.
    #[doc(alias = "path_aware_map")]
    #[track_caller]
    pub fn update<T: Tree>(&self, tree: &T, mut f: impl FnMut(&Array) -> Array) -> T {
        tree::map_with_path(tree, |path, leaf| match self.filter.contains(path, leaf.aval()) {
            true => f(leaf),
            false => leaf.clone(),
        })
    }
}
