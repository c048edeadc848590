//! [`PerArgument`]: shardings or specs for the arguments of a function.

use super::partition_rules::TreeSharding;
use crate::core::{
    Error, Loc, NamedSharding, OpErrorKind, PartitionSpec, sharding_over_current, trace,
};
use crate::tree::for_each_arity;

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
}

/// Shardings, or specs, for the arguments of a function or the parts of its result.
///
/// `in_shardings` and similar options take anything that converts to it: one value for all
/// arguments, or a tuple with one for each. Each is a [`NamedSharding`] (for specs, a
/// [`PartitionSpec`]), a [`TreeSharding`], or `None::<NamedSharding>`. A [`PartitionSpec`] in place
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
        PerArgument::All(leaves.into())
    }
}

/// Implements `From` for a tuple with one entry per argument.
macro_rules! from_tuples {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<T, $($name: Into<PerLeaf<T>>),*> From<($($name,)*)> for PerArgument<T> {
            fn from(($($value,)*): ($($name,)*)) -> PerArgument<T> {
                PerArgument::Each(vec![$($value.into()),*])
            }
        }
    };
}

for_each_arity!(1..=8 from_tuples []);

impl<T: Clone> PerLeaf<T> {
    /// Returns an entry for each of `count` leaves. `option` and `noun` name the entries in the
    /// error.
    fn leaves(&self, option: &str, noun: &str, count: usize) -> Result<Vec<Option<T>>, String> {
        match self {
            PerLeaf::Unspecified => Ok(vec![None; count]),
            PerLeaf::All(entry) => Ok(vec![Some(entry.clone()); count]),
            PerLeaf::Each(entries) if entries.len() == count => {
                Ok(entries.iter().cloned().map(Some).collect())
            }
            PerLeaf::Each(entries) => {
                Err(format!("{option} has {} {noun} for {count} leaves", entries.len()))
            }
        }
    }
}

impl<T: Clone> PerArgument<T> {
    /// Returns an entry for each leaf of all arguments; argument `i` has `counts[i]` leaves.
    /// `option` and `noun` name the entries in the error.
    ///
    /// # Errors
    /// The message, if the number of arguments or leaves differs.
    pub(super) fn leaves(
        &self,
        option: &str,
        noun: &str,
        counts: &[usize],
    ) -> Result<Vec<Option<T>>, String> {
        let arguments = match self {
            PerArgument::All(leaves) => return leaves.leaves(option, noun, counts.iter().sum()),
            PerArgument::Each(arguments) => arguments,
        };
        if arguments.len() != counts.len() {
            let (entries, trees) = (arguments.len(), counts.len());
            return Err(format!("{option} has {entries} entries for {trees} trees"));
        }
        let mut leaves = Vec::new();
        for (argument, &count) in arguments.iter().zip(counts) {
            leaves.extend(argument.leaves(option, noun, count)?);
        }
        Ok(leaves)
    }
}

impl PerArgument<NamedSharding> {
    /// Returns the sharding of each leaf of all arguments; argument `i` has `counts[i]` leaves.
    /// `option` is the option of `function` that set the shardings.
    ///
    /// # Errors
    /// `Op` (value) if the number of arguments or leaves differs.
    pub(crate) fn shardings(
        &self,
        function: &str,
        option: &str,
        counts: &[usize],
    ) -> Result<Vec<Option<NamedSharding>>, Error> {
        self.leaves(option, "shardings", counts).map_err(|message| {
            let error = trace::op_error(OpErrorKind::Value, function, message, Loc::UNKNOWN);
            error.with_help("give one sharding for all, or a tuple with one for each argument")
        })
    }
}
