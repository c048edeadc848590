//! [`LeafValues`]: one value of any type per leaf of a tree.

use super::prefix::{leaf_of_prefix, throw_mismatch};
use super::{Tree, TreeDef, def, leaves_of, rebuild, rooted};
use crate::core::{Array, Error, Loc, TreeError, trace};
use std::fmt;
use std::ops::Index;

/// One value of any type per leaf of a `T`: the result of a map over a tree whose results are not
/// arrays, such as names, masks, counts or shardings.
///
/// The values are in the order of the leaves and are found by path. [`map_values`] creates one;
/// [`LeafValues::to_tree`] and [`LeafValues::transpose`] return trees of arrays.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (ones([2, 3]), vec![zeros([3]), zeros([4])]);
/// let sizes = tree::map_values(&params, Array::size);
/// assert_eq!(sizes.values(), [6, 3, 4]);
/// assert_eq!(sizes["[1][0]"], 3);
/// let small = sizes.map(|size| *size < 4);
/// let halved = tree::map_with_values(&params, &small, |leaf, small| match small {
///     true => leaf * 0.5,
///     false => leaf.clone(),
/// });
/// assert_eq!(halved.0.sum().item::<f32>()?, 6.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct LeafValues<T, V> {
    /// The tree with types instead of arrays.
    template: T,
    structure: TreeDef,
    values: Vec<V>,
}

/// Returns the tree of the values that `f` returns for the leaves of `tree`. They are of any type.
///
/// ```
/// use oxidax::prelude::*;
/// let types = tree::map_values(&(ones([2]), arange(3)), |leaf| leaf.aval().to_string());
/// assert_eq!(types.values(), ["f32[2]", "i32[3]"]);
/// ```
#[doc(alias = "tree_map")]
#[doc(alias = "jax.tree.map")]
pub fn map_values<T: Tree, V>(tree: &T, f: impl FnMut(&Array) -> V) -> LeafValues<T, V> {
    LeafValues::with(tree, leaves_of(tree).iter().map(f).collect())
}

/// Returns the tree of the values that `f` returns for the paths and leaves of `tree`. They are of
/// any type.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (ones([2, 2]), vec![ones([2])]);
/// let lines = tree::map_values_with_path(&params, |path, x| format!("{path}: {}", x.rank()));
/// assert_eq!(lines.values(), ["[0]: 2", "[1][0]: 1"]);
/// ```
#[doc(alias = "tree_map_with_path")]
pub fn map_values_with_path<T: Tree, V>(
    tree: &T,
    mut f: impl FnMut(&str, &Array) -> V,
) -> LeafValues<T, V> {
    let structure = TreeDef::of(tree);
    let leaves = leaves_of(tree);
    let values = structure.paths().iter().zip(&leaves).map(|(path, leaf)| f(path, leaf));
    LeafValues::with(tree, values.collect())
}

/// Returns the tree of the values that `f` returns for the leaves of `N` trees of equal structure.
/// They are of any type.
///
/// Throws `Tree` with the first difference if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = ((ones([2]), ones([3])), (ones([2]), ones([1])));
/// let alike = tree::map_values_of([&a, &b], |[a, b]| a.shape() == b.shape());
/// assert_eq!(alike.values(), [true, false]);
/// ```
#[doc(alias = "tree_map")]
#[track_caller]
pub fn map_values_of<T: Tree, V, const N: usize>(
    trees: [&T; N],
    mut f: impl FnMut([&Array; N]) -> V,
) -> LeafValues<T, V> {
    const { assert!(N > 0, "map_values_of needs at least one tree") };
    for tree in &trees[1..] {
        def::expect_alike(trees[0], *tree, Loc::caller());
    }
    let columns = trees.map(leaves_of);
    let value = |index| f(std::array::from_fn(|tree| &columns[tree][index]));
    LeafValues::with(trees[0], (0..columns[0].len()).map(value).collect())
}

/// Returns the tree with `f` applied to every leaf and its value.
///
/// Throws `Tree` with the first difference if the values belong to another structure.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (ones([2]), ones([2, 2]));
/// let decay = tree::map_values(&params, |leaf| if leaf.rank() > 1 { 0.1 } else { 0.0 });
/// let decayed = tree::map_with_values(&params, &decay, |leaf, decay| leaf * (1.0 - decay));
/// assert_eq!(decayed.0.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_map")]
#[track_caller]
pub fn map_with_values<T: Tree, V>(
    tree: &T,
    values: &LeafValues<T, V>,
    mut f: impl FnMut(&Array, &V) -> Array,
) -> T {
    def::expect_alike(tree, &values.template, Loc::caller());
    let leaves = leaves_of(tree);
    rebuild(tree, leaves.iter().zip(&values.values).map(|(leaf, value)| f(leaf, value)).collect())
}

/// Turns a list of trees into a tree of lists: each leaf's value is the list of the trees' leaves.
/// [`LeafValues::transpose`] is the inverse, and [`stack`](super::stack) makes arrays of the lists.
///
/// Throws `Tree` with the first difference if the structures differ, and `Op` (value) for an empty
/// list.
///
/// ```
/// use oxidax::prelude::*;
/// let layers: Vec<_> = (0..3).map(|i| (full([2], i), zeros([1]))).collect();
/// let lists = tree::transpose(&layers);
/// assert_eq!(lists["[0]"].len(), 3);
/// assert_eq!(lists.transpose().len(), 3);
/// ```
#[doc(alias = "tree_transpose")]
#[track_caller]
pub fn transpose<T: Tree>(trees: &[T]) -> LeafValues<T, Vec<Array>> {
    let loc = Loc::caller();
    let Some(first) = trees.first() else {
        let message = "needs at least one tree, got an empty list".into();
        trace::throw_op(crate::core::OpErrorKind::Value, "tree::transpose", message, loc);
    };
    for tree in &trees[1..] {
        def::expect_alike(first, tree, loc);
    }
    let mut lists: Vec<Vec<Array>> = Vec::new();
    for leaves in trees.iter().map(leaves_of) {
        lists.resize_with(leaves.len(), Vec::new);
        for (list, leaf) in lists.iter_mut().zip(leaves) {
            list.push(leaf);
        }
    }
    LeafValues::with(first, lists)
}

impl<T: Tree, V> LeafValues<T, V> {
    /// Creates the tree of these values, in the order of the leaves of `tree`.
    ///
    /// Throws `Tree` if their number differs from that of the leaves.
    #[track_caller]
    pub fn new(tree: &T, values: impl IntoIterator<Item = V>) -> LeafValues<T, V> {
        let values: Vec<V> = values.into_iter().collect();
        def::expect_count(tree, values.len(), Loc::caller());
        LeafValues::with(tree, values)
    }

    /// Creates the tree of exactly as many values as `tree` has leaves.
    pub(super) fn with(tree: &T, values: Vec<V>) -> LeafValues<T, V> {
        let types = leaves_of(tree).into_iter().map(|leaf| Array::of_type(leaf.aval().clone()));
        let template = rebuild(tree, types.collect());
        LeafValues { template, structure: TreeDef::of(tree), values }
    }

    fn with_values<W>(&self, values: Vec<W>) -> LeafValues<T, W> {
        let template = rebuild(&self.template, leaves_of(&self.template));
        LeafValues { template, structure: self.structure.clone(), values }
    }

    /// Returns the structure of the tree.
    pub fn structure(&self) -> &TreeDef {
        &self.structure
    }

    /// Returns the paths of the leaves, in order.
    pub fn paths(&self) -> &[String] {
        self.structure.paths()
    }

    /// Returns the values, in the order of the leaves.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// Returns the values, in the order of the leaves.
    pub fn into_values(self) -> Vec<V> {
        self.values
    }

    /// Returns the paths of the leaves with their values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.paths().iter().map(String::as_str).zip(&self.values)
    }

    /// Returns the value of the leaf at a path; `None` if there is no such leaf.
    pub fn get(&self, path: &str) -> Option<&V> {
        self.iter().find(|(other, _)| *other == path).map(|(_, value)| value)
    }

    /// Returns the tree of the results of `f` for all values.
    pub fn map<W>(&self, f: impl FnMut(&V) -> W) -> LeafValues<T, W> {
        self.with_values(self.values.iter().map(f).collect())
    }

    /// Returns the tree of the results of `f` for all paths and values.
    pub fn map_with_path<W>(&self, mut f: impl FnMut(&str, &V) -> W) -> LeafValues<T, W> {
        self.with_values(self.iter().map(|(path, value)| f(path, value)).collect())
    }

    /// Combines two trees of values leaf by leaf.
    ///
    /// Throws `Tree` with the first difference if the structures differ.
    #[track_caller]
    pub fn zip_map<W, X>(
        &self,
        other: &LeafValues<T, W>,
        mut f: impl FnMut(&V, &W) -> X,
    ) -> LeafValues<T, X> {
        def::expect_alike(&self.template, &other.template, Loc::caller());
        let pairs = self.values.iter().zip(&other.values);
        self.with_values(pairs.map(|(a, b)| f(a, b)).collect())
    }

    /// Returns the tree of arrays that `f` returns for the values.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let shapes = tree::map_values(&(ones([2]), ones([3])), |leaf| leaf.shape().clone());
    /// let zeros = shapes.to_tree(|shape| zeros(shape.clone()));
    /// assert_eq!(zeros.1.to_vec::<f32>()?, [0.0; 3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn to_tree(&self, f: impl FnMut(&V) -> Array) -> T {
        rebuild(&self.template, self.values.iter().map(f).collect())
    }

    /// Returns the values for a tree of which this one is a prefix: the value at a path belongs to
    /// all leaves of `tree` below that path.
    ///
    /// Throws `Tree`, naming the path, if a leaf of `tree` has no value or a value no place.
    #[track_caller]
    pub fn broadcast_to<U: Tree>(&self, tree: &U) -> LeafValues<U, V>
    where
        V: Clone,
    {
        let loc = Loc::caller();
        let indices = leaf_of_prefix(&self.template, tree);
        let indices =
            indices.unwrap_or_else(|mismatch| throw_mismatch(mismatch, "broadcast_to", loc));
        let values = indices.into_iter().map(|index| self.values[index].clone());
        LeafValues::with(tree, values.collect())
    }
}

impl<T: Tree> LeafValues<T, Vec<Array>> {
    /// Turns a tree of lists into a list of trees: the inverse of [`transpose`].
    ///
    /// Throws `Tree`, naming the leaf, if the lists differ in length.
    #[track_caller]
    pub fn transpose(&self) -> Vec<T> {
        let length = self.values.first().map_or(0, Vec::len);
        if let Some((path, list)) = self.iter().find(|(_, list)| list.len() != length) {
            let first = rooted(&self.paths()[0]);
            trace::throw(Error::Tree(Box::new(TreeError {
                path: rooted(path),
                message: format!(
                    "transpose: lists differ in length: {} here, {length} at {first}",
                    list.len()
                ),
                loc: Loc::caller(),
                help: Some("every leaf needs as many arrays as there are trees".into()),
            })));
        }
        (0..length).map(|index| self.to_tree(|list| list[index].clone())).collect()
    }
}

impl<T: Tree, const N: usize> LeafValues<T, [Array; N]> {
    /// Turns a tree of `N` arrays per leaf into `N` trees, as a map with several results needs it.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let gradients = (ones([2]), ones([3]));
    /// let [mean, square] =
    ///     tree::map_values(&gradients, |g| [g * 0.1, g.square() * 0.01]).transpose();
    /// assert_eq!(mean.1.shape(), square.1.shape());
    /// ```
    pub fn transpose(&self) -> [T; N] {
        std::array::from_fn(|index| self.to_tree(|arrays| arrays[index].clone()))
    }
}

impl<T: Tree, V: Clone> Clone for LeafValues<T, V> {
    fn clone(&self) -> LeafValues<T, V> {
        self.with_values(self.values.clone())
    }
}

impl<T, V: PartialEq> PartialEq for LeafValues<T, V> {
    fn eq(&self, other: &LeafValues<T, V>) -> bool {
        self.structure == other.structure && self.values == other.values
    }
}

/// Returns the value of the leaf at a path.
impl<T: Tree, V> Index<&str> for LeafValues<T, V> {
    type Output = V;
    #[track_caller]
    fn index(&self, path: &str) -> &V {
        let loc = Loc::caller();
        self.get(path).unwrap_or_else(|| {
            trace::throw(Error::Tree(Box::new(TreeError {
                path: rooted(path),
                message: "the tree has no leaf at this path".into(),
                loc,
                help: Some(format!("its leaves are {:?}", self.paths())),
            })))
        })
    }
}

impl<T, V> IntoIterator for LeafValues<T, V> {
    type Item = V;
    type IntoIter = std::vec::IntoIter<V>;
    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<T, V: fmt::Debug> fmt::Debug for LeafValues<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.structure.paths().iter().zip(&self.values)).finish()
    }
}
