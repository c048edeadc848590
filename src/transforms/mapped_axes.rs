//! [`MappedAxes`]: the axes that `vmap` and `pmap` map over.

use crate::tree::for_each_arity;

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

for_each_arity!(1..=8 tuples []);

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
            axes.extend(entry.of_tree(&keys).map_err(|mismatch| {
                mismatch.message("in_axes", &format!("argument {index}"), count)
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
        self.of_tree(&keys).map_err(|mismatch| match mismatch {
            Mismatch::Count { named, path } if path.is_empty() => {
                format!("out_axes names {named} axes, the function gives {} leaves", keys.len())
            }
            other => other.message("out_axes", "the result", keys.len()),
        })
    }

    /// Returns the axis of each leaf of a tree, whose leaves have these keys. An entry belongs to a
    /// child that has leaves, or, if the numbers of children and entries differ, to a leaf.
    fn of_tree(&self, keys: &[&[String]]) -> Result<Vec<Option<isize>>, Mismatch> {
        let entries = match self {
            MappedAxes::All(axis) => return Ok(vec![*axis; keys.len()]),
            MappedAxes::Each(entries) => entries,
            MappedAxes::Fields(fields) => return of_fields(fields, keys),
        };
        let children = children(keys);
        if children.len() == entries.len() {
            let mut axes = Vec::with_capacity(keys.len());
            for (entry, (key, leaves)) in entries.iter().zip(children) {
                axes.extend(entry.of_tree(&leaves).map_err(|error| error.inside(key))?);
            }
            return Ok(axes);
        }
        let flat = self.flat();
        match flat {
            Some(axes) if axes.len() == keys.len() => Ok(axes),
            flat => {
                let named = flat.map_or(entries.len(), |axes| axes.len());
                Err(Mismatch::Count { named, path: Vec::new() })
            }
        }
    }

    /// Returns all entries in order, unless some are named.
    fn flat(&self) -> Option<Vec<Option<isize>>> {
        match self {
            MappedAxes::All(axis) => Some(vec![*axis]),
            MappedAxes::Each(entries) => {
                let axes: Option<Vec<_>> = entries.iter().map(MappedAxes::flat).collect();
                axes.map(|axes| axes.concat())
            }
            MappedAxes::Fields(_) => None,
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

/// Returns the axes of leaves by the names of their fields.
fn of_fields(
    fields: &[(String, MappedAxes)],
    keys: &[&[String]],
) -> Result<Vec<Option<isize>>, Mismatch> {
    let children = children(keys);
    let has_child = |name: &str| children.iter().any(|(key, _)| *key == name);
    for (index, (name, _)) in fields.iter().enumerate() {
        if !has_child(name) {
            let names: Vec<&str> = children.iter().map(|(key, _)| *key).collect();
            let reason = format!("has no arrays in a field `{name}`, but in {names:?}");
            return Err(Mismatch::Field { reason, path: Vec::new() });
        }
        if fields[..index].iter().any(|(other, _)| other == name) {
            let reason = format!("gets two entries for the field `{name}`");
            return Err(Mismatch::Field { reason, path: Vec::new() });
        }
    }
    let mut axes = Vec::with_capacity(keys.len());
    for (key, leaves) in children {
        let Some((_, entry)) = fields.iter().find(|(name, _)| name == key) else {
            let reason = format!("gets no entry for its field `{key}`");
            return Err(Mismatch::Field { reason, path: Vec::new() });
        };
        axes.extend(entry.of_tree(&leaves).map_err(|error| error.inside(key))?);
    }
    Ok(axes)
}

/// The difference between a tree of axes and a tree of arrays.
enum Mismatch {
    /// The number of entries.
    Count { named: usize, path: Vec<String> },
    /// The names of fields.
    Field { reason: String, path: Vec<String> },
}

impl Mismatch {
    /// Returns the mismatch seen from the parent of the child with this key.
    fn inside(mut self, key: &str) -> Mismatch {
        let (Mismatch::Count { path, .. } | Mismatch::Field { path, .. }) = &mut self;
        path.insert(0, key.to_string());
        self
    }

    /// Returns the message of `function` about `tree`, which has `count` leaves.
    fn message(self, function: &str, tree: &str, count: usize) -> String {
        let at = |path: &[String]| match path {
            [] => tree.to_string(),
            path => format!("`{}` of {tree}", path.join(".")),
        };
        match self {
            Mismatch::Count { named, path } if path.is_empty() => {
                format!("{function} names {named} axes for {tree}, which has {count} leaves")
            }
            Mismatch::Count { named, path } => format!(
                "{function} names {named} axes for {}, which has another number of children",
                at(&path)
            ),
            Mismatch::Field { reason, path } => format!("{function}: {} {reason}", at(&path)),
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
