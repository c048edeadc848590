//! What `in_shardings` and `out_shardings` take.

use super::partition_rules::TreeSharding;
use super::tuples::from_tuples;
use crate::core::{Error, Loc, NamedSharding, OpErrorKind, trace};
use crate::tree::for_each_arity;

/// How the leaves of one tree are to lie.
#[derive(Clone, Debug, Default)]
pub enum Placement {
    /// As they lie, or as the compiler chooses.
    #[default]
    Free,
    /// All alike.
    All(NamedSharding),
    /// Each in its way.
    Each(TreeSharding),
}

impl From<NamedSharding> for Placement {
    fn from(sharding: NamedSharding) -> Placement {
        Placement::All(sharding)
    }
}

impl From<&NamedSharding> for Placement {
    fn from(sharding: &NamedSharding) -> Placement {
        Placement::All(sharding.clone())
    }
}

impl From<TreeSharding> for Placement {
    fn from(shardings: TreeSharding) -> Placement {
        Placement::Each(shardings)
    }
}

impl From<&TreeSharding> for Placement {
    fn from(shardings: &TreeSharding) -> Placement {
        Placement::Each(shardings.clone())
    }
}

impl<T: Into<Placement>> From<Option<T>> for Placement {
    fn from(placement: Option<T>) -> Placement {
        placement.map_or(Placement::Free, Into::into)
    }
}

/// How the arguments of a function, or the parts of its result, are to lie: one [`Placement`] for all, or a tuple with one
/// for each. `None::<NamedSharding>` leaves one as it is.
#[derive(Clone, Debug)]
pub enum Placements {
    /// The same for all.
    All(Placement),
    /// One each.
    Each(Vec<Placement>),
}

impl<T: Into<Placement>> From<T> for Placements {
    fn from(placement: T) -> Placements {
        Placements::All(placement.into())
    }
}

for_each_arity!(1..=8 from_tuples [Placements of Placement]);

impl Placements {
    /// One for each leaf, where parts `0..` have so many leaves each. `option` is what the user called.
    ///
    /// # Errors
    /// `Op` (value) if there are more or fewer parts or leaves.
    pub(crate) fn leaves(
        &self,
        function: &str,
        option: &str,
        counts: &[usize],
    ) -> Result<Vec<Option<NamedSharding>>, Error> {
        let each = match self {
            Placements::All(Placement::Each(all)) => {
                return spread(function, option, all, counts.iter().sum());
            }
            Placements::All(one) => vec![one; counts.len()],
            Placements::Each(each) => each.iter().collect(),
        };
        if each.len() != counts.len() {
            let (given, parts) = (each.len(), counts.len());
            return Err(wrong(function, format!("{option} has {given} entries for {parts} trees")));
        }
        let mut leaves = Vec::new();
        for (placement, &n) in each.into_iter().zip(counts) {
            match placement {
                Placement::Free => leaves.extend(std::iter::repeat_n(None, n)),
                Placement::All(sharding) => {
                    leaves.extend(std::iter::repeat_n(Some(sharding.clone()), n));
                }
                Placement::Each(all) => leaves.extend(spread(function, option, all, n)?),
            }
        }
        Ok(leaves)
    }
}

fn spread(
    function: &str,
    option: &str,
    all: &TreeSharding,
    n: usize,
) -> Result<Vec<Option<NamedSharding>>, Error> {
    let found: Vec<_> = all.shardings().cloned().map(Some).collect();
    if found.len() != n {
        let given = found.len();
        return Err(wrong(function, format!("{option} has {given} shardings for {n} leaves")));
    }
    Ok(found)
}

fn wrong(function: &str, message: String) -> Error {
    let error = trace::op_error(OpErrorKind::Value, function, message, Loc::UNKNOWN);
    error.with_help("give one sharding for all, or a tuple with one for each argument")
}
