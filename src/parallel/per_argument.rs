//! [`PerArgument`]: shardings or specs for the arguments of a function.

use super::partition_rules::TreeSharding;
use crate::core::{
    Aval, Error, Layout, LayoutMode, Loc, NamedSharding, OpErrorKind, PartitionSpec, RuleError,
    sharding_over_current, trace,
};
use crate::tree::{EntryTree, LeafValues, Tree, TreeDef, Walk, for_each_arity, leaf_keys};
use std::collections::BTreeMap;

/// Shardings, or specs, for the leaves of one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PerLeaf<T> {
    /// No sharding is requested: a leaf keeps its placement, and the compiler chooses that of a
    /// result. For a spec of [`shard_map`](super::shard_map()): replicated.
    #[default]
    Unspecified,
    /// One value for all leaves.
    All(T),
    /// One value for each leaf.
    Each(Vec<T>),
    /// One entry for each child of a tree that has leaves, in order, or for each leaf. Made from a
    /// tuple or an array.
    Parts(Vec<PerLeaf<T>>),
    /// One entry for each field of a struct or key of a map. Made by [`PerLeaf::fields`].
    Fields(Vec<(String, PerLeaf<T>)>),
}

/// Shardings, or specs, for the arguments of a function or the parts of its result.
///
/// `in_shardings` and similar options take anything that converts to it: one value for all
/// arguments, or a tuple, an array or a vector with one for each. Each is a [`NamedSharding`] (for
/// specs, a [`PartitionSpec`]), a [`TreeSharding`], `None::<NamedSharding>`, or a tree of these,
/// nested as the argument is: a tuple or an array with an entry per child, [`PerLeaf::fields`] with
/// entries by name, or a [`LeafValues`] with one value per leaf. One entry may stand for a part of
/// the argument, as in JAX. Children without arrays have no entry. A [`PartitionSpec`] in place
/// of a sharding is over the current mesh, and throws `Op` (value) if there is none; see
/// [`set_mesh`](crate::parallel::set_mesh).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerArgument<T> {
    /// One value for all arguments.
    All(PerLeaf<T>),
    /// One value for each argument.
    Each(Vec<PerLeaf<T>>),
}

impl From<NamedSharding> for PerLeaf<NamedSharding> {
    fn from(sharding: NamedSharding) -> PerLeaf<NamedSharding> {
        PerLeaf::All(sharding)
    }
}

impl From<&NamedSharding> for PerLeaf<NamedSharding> {
    fn from(sharding: &NamedSharding) -> PerLeaf<NamedSharding> {
        PerLeaf::All(sharding.clone())
    }
}

/// The sharding over the current mesh; see [`set_mesh`](crate::parallel::set_mesh).
impl From<PartitionSpec> for PerLeaf<NamedSharding> {
    fn from(spec: PartitionSpec) -> PerLeaf<NamedSharding> {
        PerLeaf::All(sharding_over_current(&spec))
    }
}

/// The sharding over the current mesh; see [`set_mesh`](crate::parallel::set_mesh).
impl From<&PartitionSpec> for PerLeaf<NamedSharding> {
    fn from(spec: &PartitionSpec) -> PerLeaf<NamedSharding> {
        PerLeaf::All(sharding_over_current(spec))
    }
}

impl From<TreeSharding> for PerLeaf<NamedSharding> {
    fn from(shardings: TreeSharding) -> PerLeaf<NamedSharding> {
        PerLeaf::from(&shardings)
    }
}

impl From<&TreeSharding> for PerLeaf<NamedSharding> {
    fn from(shardings: &TreeSharding) -> PerLeaf<NamedSharding> {
        PerLeaf::Each(shardings.shardings().cloned().collect())
    }
}

impl<T: Into<PerLeaf<NamedSharding>>> From<Option<T>> for PerLeaf<NamedSharding> {
    fn from(sharding: Option<T>) -> PerLeaf<NamedSharding> {
        sharding.map_or(PerLeaf::Unspecified, Into::into)
    }
}

impl From<LayoutMode> for PerLeaf<LayoutMode> {
    fn from(mode: LayoutMode) -> PerLeaf<LayoutMode> {
        PerLeaf::All(mode)
    }
}

impl From<Layout> for PerLeaf<LayoutMode> {
    fn from(layout: Layout) -> PerLeaf<LayoutMode> {
        PerLeaf::All(layout.into())
    }
}

impl From<&Layout> for PerLeaf<LayoutMode> {
    fn from(layout: &Layout) -> PerLeaf<LayoutMode> {
        PerLeaf::All(layout.into())
    }
}

impl<T: Into<PerLeaf<LayoutMode>>> From<Option<T>> for PerLeaf<LayoutMode> {
    fn from(mode: Option<T>) -> PerLeaf<LayoutMode> {
        mode.map_or(PerLeaf::Unspecified, Into::into)
    }
}

impl From<PartitionSpec> for PerLeaf<PartitionSpec> {
    fn from(spec: PartitionSpec) -> PerLeaf<PartitionSpec> {
        PerLeaf::All(spec)
    }
}

impl From<&PartitionSpec> for PerLeaf<PartitionSpec> {
    fn from(spec: &PartitionSpec) -> PerLeaf<PartitionSpec> {
        PerLeaf::All(spec.clone())
    }
}

impl From<TreeSharding> for PerLeaf<PartitionSpec> {
    fn from(shardings: TreeSharding) -> PerLeaf<PartitionSpec> {
        PerLeaf::from(&shardings)
    }
}

impl From<&TreeSharding> for PerLeaf<PartitionSpec> {
    fn from(shardings: &TreeSharding) -> PerLeaf<PartitionSpec> {
        PerLeaf::Each(shardings.shardings().map(|sharding| sharding.spec().clone()).collect())
    }
}

impl<T, L: Into<PerLeaf<T>>> From<L> for PerArgument<T> {
    fn from(leaves: L) -> PerArgument<T> {
        match leaves.into() {
            PerLeaf::Parts(arguments) => PerArgument::Each(arguments),
            leaves => PerArgument::All(leaves),
        }
    }
}

/// Implements `From` for a tuple with one entry per argument, or per child of an argument.
macro_rules! from_tuples {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<T, $($name: Into<PerLeaf<T>>),*> From<($($name,)*)> for PerLeaf<T> {
            fn from(($($value,)*): ($($name,)*)) -> PerLeaf<T> {
                PerLeaf::Parts(vec![$($value.into()),*])
            }
        }
    };
}

for_each_arity!(1..=16 from_tuples []);

impl<T, L: Into<PerLeaf<T>>, const N: usize> From<[L; N]> for PerLeaf<T> {
    fn from(parts: [L; N]) -> PerLeaf<T> {
        PerLeaf::Parts(parts.into_iter().map(Into::into).collect())
    }
}

impl<T, L: Into<PerLeaf<T>>> From<Vec<L>> for PerLeaf<T> {
    fn from(parts: Vec<L>) -> PerLeaf<T> {
        PerLeaf::Parts(parts.into_iter().map(Into::into).collect())
    }
}

/// Entries by the keys of a map, or by the names of a struct's fields.
impl<T, K: ToString, L: Into<PerLeaf<T>>> From<BTreeMap<K, L>> for PerLeaf<T> {
    fn from(entries: BTreeMap<K, L>) -> PerLeaf<T> {
        let fields = entries.into_iter().map(|(key, entry)| (key.to_string(), entry.into()));
        PerLeaf::Fields(fields.collect())
    }
}

impl<T, U: Tree, L: Into<PerLeaf<T>>> From<LeafValues<U, L>> for PerLeaf<T> {
    fn from(values: LeafValues<U, L>) -> PerLeaf<T> {
        PerLeaf::Parts(values.into_values().into_iter().map(Into::into).collect())
    }
}

impl<T> PerLeaf<T> {
    /// Creates entries by name, for a struct or a map. Each field that has arrays needs an entry;
    /// see [`field`](PerLeaf::field).
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::parallel::PerLeaf;
    /// use oxidax::prelude::*;
    /// #[derive(Tree, Clone)]
    /// struct Linear {
    ///     weight: Array,
    ///     bias: Array,
    /// }
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let layer = Linear { weight: ones([3, 16]), bias: zeros([16]) };
    /// let specs = PerLeaf::fields().field("weight", p![None, "data"]).field("bias", p!["data"]);
    /// let apply = shard_map(|l: &Linear, x: &Array| x.matmul(&l.weight) + &l.bias, &mesh)
    ///     .in_specs((specs, p![]))
    ///     .out_specs(p![None, "data"]);
    /// assert_eq!(apply.apply(&layer, &ones([2, 3])).shape().dims(), [2, 16]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn fields() -> PerLeaf<T> {
        PerLeaf::Fields(Vec::new())
    }

    /// Adds the entry of a field or map key: a value for everything in it, or a tree of entries. On
    /// other entries than [`fields`](PerLeaf::fields), begins such a tree.
    #[must_use]
    pub fn field(self, name: impl Into<String>, entry: impl Into<PerLeaf<T>>) -> PerLeaf<T> {
        let mut fields = match self {
            PerLeaf::Fields(fields) => fields,
            _ => Vec::new(),
        };
        fields.push((name.into(), entry.into()));
        PerLeaf::Fields(fields)
    }
}

impl<T: Clone> PerLeaf<T> {
    /// Returns the entries for [`EntryTree::per_leaf`].
    fn entries(&self) -> EntryTree<Option<T>> {
        match self {
            PerLeaf::Unspecified => EntryTree::All(None),
            PerLeaf::All(entry) => EntryTree::All(Some(entry.clone())),
            PerLeaf::Each(entries) => {
                let entries = entries.iter().map(|entry| EntryTree::All(Some(entry.clone())));
                EntryTree::Each(entries.collect())
            }
            PerLeaf::Parts(parts) => EntryTree::Each(parts.iter().map(PerLeaf::entries).collect()),
            PerLeaf::Fields(fields) => {
                let fields = fields.iter().map(|(name, entry)| (name.clone(), entry.entries()));
                EntryTree::Fields(fields.collect())
            }
        }
    }

    /// Returns an entry for each of the leaves with these keys. `option` and `noun` name the
    /// entries in the error, and `tree` the leaves.
    fn leaves(
        &self,
        (option, noun): (&str, &str),
        tree: &str,
        keys: &[&[String]],
    ) -> Result<Vec<Option<T>>, String> {
        let count = keys.len();
        match self {
            PerLeaf::Each(entries) if entries.len() == count => {
                Ok(entries.iter().cloned().map(Some).collect())
            }
            PerLeaf::Each(entries) => {
                Err(format!("{option} has {} {noun} for {count} leaves", entries.len()))
            }
            other => {
                let leaves = other.entries().per_leaf(keys);
                leaves.map_err(|mismatch| mismatch.message(option, noun, tree, count))
            }
        }
    }
}

/// The leaves of all arguments of a function, or of all parts of its result.
pub(crate) struct LeafKeys {
    /// The number of leaves of each argument or part.
    counts: Vec<usize>,
    /// The keys of each leaf inside its argument or part.
    keys: Vec<Vec<String>>,
}

impl LeafKeys {
    /// Returns those of arguments, the first key of whose leaves is the index of the argument.
    pub(crate) fn of_arguments(counts: Vec<usize>, arguments: &impl Walk) -> LeafKeys {
        let keys = leaf_keys(arguments).into_iter().map(|mut keys| keys.split_off(1));
        LeafKeys { counts, keys: keys.collect() }
    }

    /// Returns those of a result: of the elements of a tuple or list, or of the result itself.
    pub(crate) fn of_result(result: &impl Walk) -> LeafKeys {
        let structure = TreeDef::of(result);
        let has_parts = structure.paths().first().is_some_and(|path| path.starts_with('['));
        let keys = leaf_keys(result).into_iter();
        let keys = keys.map(|mut keys| if has_parts { keys.split_off(1) } else { keys });
        LeafKeys { counts: structure.parts(), keys: keys.collect() }
    }

    /// Returns those of one tree.
    pub(crate) fn of_tree(tree: &impl Walk) -> LeafKeys {
        let keys = leaf_keys(tree);
        LeafKeys { counts: vec![keys.len()], keys }
    }
}

impl<T: Clone> PerArgument<T> {
    /// Returns an entry for each leaf of all arguments. `option` and `noun` name the entries in the
    /// error.
    ///
    /// # Errors
    /// The message, if the number of arguments or leaves differs.
    pub(super) fn leaves(
        &self,
        option: &str,
        noun: &str,
        trees: &LeafKeys,
    ) -> Result<Vec<Option<T>>, String> {
        let keys: Vec<&[String]> = trees.keys.iter().map(Vec::as_slice).collect();
        let arguments = match self {
            PerArgument::All(leaves) => {
                return leaves.leaves((option, noun), "the tree", &keys);
            }
            PerArgument::Each(arguments) => arguments,
        };
        if arguments.len() != trees.counts.len() {
            let (entries, trees) = (arguments.len(), trees.counts.len());
            return Err(format!("{option} has {entries} entries for {trees} trees"));
        }
        let mut leaves = Vec::new();
        let mut rest = &keys[..];
        for (index, (argument, &count)) in arguments.iter().zip(&trees.counts).enumerate() {
            let (keys, others) = rest.split_at(count);
            rest = others;
            leaves.extend(argument.leaves((option, noun), &format!("tree {index}"), keys)?);
        }
        Ok(leaves)
    }
}

impl PerArgument<LayoutMode> {
    /// Returns the layout of each leaf of all arguments, of these types. `option` is the option of
    /// `function` that set the layouts.
    ///
    /// # Errors
    /// `Op` (value) if the number of arguments or leaves differs, or a layout does not order the
    /// axes of its leaf.
    pub(crate) fn modes(
        &self,
        function: &str,
        option: &str,
        trees: &LeafKeys,
        avals: &[Aval],
    ) -> Result<Vec<LayoutMode>, Error> {
        let leaves = self.leaves(option, "layouts", trees).map_err(|message| {
            let error = trace::op_error(OpErrorKind::Value, function, message, Loc::UNKNOWN);
            error.with_help("give one layout for all, or a tuple with one for each argument")
        })?;
        let modes: Vec<LayoutMode> = leaves.into_iter().map(Option::unwrap_or_default).collect();
        for (index, (mode, aval)) in modes.iter().zip(avals).enumerate() {
            let LayoutMode::Custom(layout) = mode else { continue };
            layout.check(aval.rank()).map_err(|error| {
                let message = format!("{option}, leaf {index}, {aval}: {}", error.message);
                trace::rule_error(function, RuleError { message, ..error }, Loc::UNKNOWN)
            })?;
        }
        Ok(modes)
    }
}

impl PerArgument<NamedSharding> {
    /// Returns the sharding of each leaf of all arguments. `option` is the option of `function`
    /// that set the shardings.
    ///
    /// # Errors
    /// `Op` (value) if the number of arguments or leaves differs.
    pub(crate) fn shardings(
        &self,
        function: &str,
        option: &str,
        trees: &LeafKeys,
    ) -> Result<Vec<Option<NamedSharding>>, Error> {
        self.leaves(option, "shardings", trees).map_err(|message| {
            let error = trace::op_error(OpErrorKind::Value, function, message, Loc::UNKNOWN);
            error.with_help("give one sharding for all, or a tuple with one for each argument")
        })
    }
}
