//! [`MappedAxes`]: the axes that `vmap` and `pmap` map over.

use crate::tree::{EntryMismatch, EntryTree, LeafValues, Tree, for_each_arity};
use std::collections::BTreeMap;

/// The positions of mapped axes, as `in_axes` and `out_axes` take them. Negative positions count
/// from the back; `None` stands for a value that all examples share.
///
/// It is made from a number or an `Option` for everything, or from a tuple or a list with one entry
/// per part: `1`, `(0, None)`, `[0, 1]`, `[Some(0), None]`, `(0, (0, None))`. Entries are nested as
/// the tree is, and one entry may stand for a whole part of it. [`MappedAxes::fields`] has entries
/// by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedAxes {
    /// One axis for all leaves.
    All(Option<isize>),
    /// One entry per argument, per child of a tree in the order of its fields, or per leaf.
    Each(Vec<MappedAxes>),
    /// One entry per field of a struct or key of a map.
    Fields(Vec<(String, MappedAxes)>),
}

/// A value of `in_axes` or `out_axes`: a number, an `Option` of a number, or a tuple or list of
/// these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mapped axis",
    note = "write one axis, `1`, or an entry per argument, `(0, None)`, `[0, 1]` or `[Some(0), \
            None]`; an argument with several leaves may have an entry per leaf, `(0, (0, None))`"
)]
pub trait IntoMappedAxes {
    /// Returns the axes.
    fn mapped_axes(self) -> MappedAxes;
}

impl IntoMappedAxes for MappedAxes {
    fn mapped_axes(self) -> MappedAxes {
        self
    }
}

impl IntoMappedAxes for isize {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::All(Some(self))
    }
}

impl IntoMappedAxes for Option<isize> {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::All(self)
    }
}

impl<T: IntoMappedAxes> IntoMappedAxes for Vec<T> {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::Each(self.into_iter().map(T::mapped_axes).collect())
    }
}

impl<T: IntoMappedAxes, const N: usize> IntoMappedAxes for [T; N] {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::Each(self.into_iter().map(T::mapped_axes).collect())
    }
}

/// Axes by the keys of a map, or by the names of a struct's fields.
impl<K: ToString, T: IntoMappedAxes> IntoMappedAxes for BTreeMap<K, T> {
    fn mapped_axes(self) -> MappedAxes {
        let fields = self.into_iter().map(|(key, axes)| (key.to_string(), axes.mapped_axes()));
        MappedAxes::Fields(fields.collect())
    }
}

/// An axis per leaf, as [`map_values`](crate::tree::map_values) makes it of a tree.
impl<T: Tree> IntoMappedAxes for LeafValues<T, Option<isize>> {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::Each(self.into_values().into_iter().map(MappedAxes::All).collect())
    }
}

impl<T: Tree> IntoMappedAxes for &LeafValues<T, Option<isize>> {
    fn mapped_axes(self) -> MappedAxes {
        MappedAxes::Each(self.values().iter().copied().map(MappedAxes::All).collect())
    }
}

macro_rules! tuples {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        #[diagnostic::do_not_recommend]
        impl<$($name: IntoMappedAxes),*> IntoMappedAxes for ($($name,)*) {
            fn mapped_axes(self) -> MappedAxes {
                let ($($value,)*) = self;
                MappedAxes::Each(vec![$($value.mapped_axes()),*])
            }
        }
    };
}

for_each_arity!(1..=16 tuples []);

impl MappedAxes {
    /// Creates a tree of axes whose entries are named, for a struct or a map. Each field that has
    /// arrays needs an entry; see [`field`](MappedAxes::field).
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::transforms::MappedAxes;
    /// #[derive(Tree, Clone)]
    /// struct Linear {
    ///     weight: Array,
    ///     bias: Array,
    /// }
    /// let layers = Linear { weight: ones([5, 3, 2]), bias: zeros([2]) };
    /// let apply = |layer: &Linear, x: Array| x.matmul(&layer.weight) + &layer.bias;
    /// let axes = MappedAxes::fields().field("weight", 0).field("bias", None);
    /// let ys = vmap(apply).in_axes((axes, None)).apply(&layers, &ones([3]));
    /// assert_eq!(ys.shape().dims(), [5, 2]);
    /// ```
    #[must_use]
    pub fn fields() -> MappedAxes {
        MappedAxes::Fields(Vec::new())
    }

    /// Adds the entry of a field or map key: an axis for everything in it, or a tree of axes. On
    /// other trees than [`fields`](MappedAxes::fields), begins such a tree.
    #[must_use]
    pub fn field(self, name: impl Into<String>, axes: impl IntoMappedAxes) -> MappedAxes {
        let mut fields = match self {
            MappedAxes::Fields(fields) => fields,
            MappedAxes::All(_) | MappedAxes::Each(_) => Vec::new(),
        };
        fields.push((name.into(), axes.mapped_axes()));
        MappedAxes::Fields(fields)
    }

    /// Returns the axis of each leaf of the arguments; argument `i` has `counts[i]` leaves, and
    /// `keys` are the keys of all leaves, the first of which is the index of the argument.
    ///
    /// # Errors
    /// The message, if the number of arguments differs, or a tree of axes does not match its
    /// argument.
    pub(crate) fn of_arguments(
        &self,
        counts: &[usize],
        keys: &[Vec<String>],
    ) -> Result<Vec<Option<isize>>, String> {
        let entries = match self {
            MappedAxes::All(axis) => return Ok(vec![*axis; counts.iter().sum()]),
            MappedAxes::Each(entries) => entries,
            MappedAxes::Fields(_) => {
                let help = "arguments have no names: write a tuple with an entry per argument";
                return Err(format!("in_axes names fields, but {help}"));
            }
        };
        if entries.len() != counts.len() {
            return Err(format!(
                "in_axes names {} axes, the function takes {} arguments",
                entries.len(),
                counts.len()
            ));
        }
        let mut axes = Vec::with_capacity(counts.iter().sum());
        let mut begin = 0;
        for (index, (entry, &count)) in entries.iter().zip(counts).enumerate() {
            let keys: Vec<&[String]> =
                keys[begin..begin + count].iter().map(|keys| &keys[1..]).collect();
            begin += count;
            axes.extend(entry.entries().per_leaf(&keys).map_err(|mismatch| {
                mismatch.message("in_axes", "axes", &format!("argument {index}"), count)
            })?);
        }
        Ok(axes)
    }

    /// Returns the axis of each leaf of a result, which has these keys.
    ///
    /// # Errors
    /// The message, if the tree of axes does not match the result.
    pub(crate) fn of_result(&self, keys: &[Vec<String>]) -> Result<Vec<Option<isize>>, String> {
        if let MappedAxes::Each(entries) = self
            && let [MappedAxes::All(axis)] = entries[..]
        {
            return Ok(vec![axis; keys.len()]);
        }
        let keys: Vec<&[String]> = keys.iter().map(Vec::as_slice).collect();
        self.entries().per_leaf(&keys).map_err(|mismatch| match mismatch {
            EntryMismatch::Count { named, path } if path.is_empty() => {
                format!("out_axes names {named} axes, the function gives {} leaves", keys.len())
            }
            other => other.message("out_axes", "axes", "the result", keys.len()),
        })
    }

    /// Returns the entries for [`EntryTree::per_leaf`].
    fn entries(&self) -> EntryTree<Option<isize>> {
        match self {
            MappedAxes::All(axis) => EntryTree::All(*axis),
            MappedAxes::Each(entries) => {
                EntryTree::Each(entries.iter().map(MappedAxes::entries).collect())
            }
            MappedAxes::Fields(fields) => {
                let fields = fields.iter().map(|(name, axes)| (name.clone(), axes.entries()));
                EntryTree::Fields(fields.collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IntoMappedAxes, MappedAxes};

    fn keys(paths: &[&str]) -> Vec<Vec<String>> {
        paths.iter().map(|path| path.split_whitespace().map(String::from).collect()).collect()
    }

    #[test]
    fn entries_belong_to_arguments_and_their_leaves() {
        let keys = keys(&["0", "1 0", "1 1"]);
        let of = |axes: MappedAxes| axes.of_arguments(&[1, 2], &keys);
        assert_eq!(of(1.mapped_axes()), Ok(vec![Some(1); 3]));
        assert_eq!(of((0, None).mapped_axes()), Ok(vec![Some(0), None, None]));
        assert_eq!(of([0, -1].mapped_axes()), Ok(vec![Some(0), Some(-1), Some(-1)]));
        assert_eq!(of((None, (0, None)).mapped_axes()), Ok(vec![None, Some(0), None]));
        let error = of((0, (0, None, 1)).mapped_axes()).unwrap_err();
        assert_eq!(error, "in_axes names 3 axes for argument 1, which has 2 leaves");
        let error = of([Some(0)].mapped_axes()).unwrap_err();
        assert_eq!(error, "in_axes names 1 axes, the function takes 2 arguments");
    }

    #[test]
    fn entries_belong_to_the_leaves_or_parts_of_a_result() {
        let keys = keys(&["0", "1 a", "1 b"]);
        let of = |axes: MappedAxes| axes.of_result(&keys);
        assert_eq!(of(1.mapped_axes()), Ok(vec![Some(1); 3]));
        assert_eq!(of([Some(0)].mapped_axes()), Ok(vec![Some(0); 3]));
        assert_eq!(of((0, None).mapped_axes()), Ok(vec![Some(0), None, None]));
        assert_eq!(of([0, 1, 2].mapped_axes()), Ok(vec![Some(0), Some(1), Some(2)]));
        let error = of([0, 1, 2, 3].mapped_axes()).unwrap_err();
        assert_eq!(error, "out_axes names 4 axes, the function gives 3 leaves");
    }

    #[test]
    fn entries_are_nested_as_the_tree_is() {
        let keys = keys(&["0 w", "0 b", "0 inner x", "0 inner y", "1"]);
        let of = |axes: MappedAxes| axes.of_arguments(&[4, 1], &keys);
        // An entry for a part of the tree.
        assert_eq!(
            of(((0, None, 1), 2).mapped_axes()),
            Ok(vec![Some(0), None, Some(1), Some(1), Some(2)])
        );
        assert_eq!(
            of(((0, None, (None, 1)), 2).mapped_axes()),
            Ok(vec![Some(0), None, None, Some(1), Some(2)])
        );
        let error = of(((0, None, (None, 1, 2)), 2).mapped_axes()).unwrap_err();
        assert_eq!(
            error,
            "in_axes names 3 axes for `inner` of argument 0, which has another number of children"
        );
        // Entries by name, in any order.
        let fields = || MappedAxes::fields().field("b", None).field("w", 0);
        assert_eq!(
            of((fields().field("inner", (1, None)), 2).mapped_axes()),
            Ok(vec![Some(0), None, Some(1), None, Some(2)])
        );
        let error = of((fields(), 2).mapped_axes()).unwrap_err();
        assert_eq!(error, "in_axes: argument 0 gets no entry for its field `inner`");
        let inner = MappedAxes::fields().field("x", 0).field("z", 0);
        let error = of((fields().field("inner", inner), 2).mapped_axes()).unwrap_err();
        assert_eq!(
            error,
            "in_axes: `inner` of argument 0 has no arrays in a field `z`, but in [\"x\", \"y\"]"
        );
        let error = of((fields().field("b", 1), 2).mapped_axes()).unwrap_err();
        assert_eq!(error, "in_axes: argument 0 gets two entries for the field `b`");
        let error = of(fields()).unwrap_err();
        assert!(error.contains("an entry per argument"), "{error}");
    }
}
