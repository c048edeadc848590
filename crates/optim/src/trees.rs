//! Functions of whole trees that `optax.tree` has beyond [`oxidax::tree`].

use crate::check::expect_value;
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Returns the largest element of all leaves.
///
/// Throws `Op` (value) if there are no leaves.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = (array![1f32, 7.0], scalar(3.0));
/// assert_eq!(oxidax_optim::trees::max(&pair).item::<f32>()?, 7.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_max")]
#[track_caller]
pub fn max<T: Tree>(tree: &T) -> Array {
    let largest = tree::leaves(tree).into_iter().map(|leaf| leaf.max());
    expect_leaves("max", largest.reduce(|a, b| maximum(a, b)))
}

#[track_caller]
fn expect_leaves(function: &str, extremum: Option<Array>) -> Array {
    expect_value(extremum.is_some(), function, || "needs a tree with a leaf".into());
    extremum.expect("a check above")
}

/// Returns the least element of all leaves.
///
/// Throws `Op` (value) if there are no leaves.
#[doc(alias = "tree_min")]
#[track_caller]
pub fn min<T: Tree>(tree: &T) -> Array {
    let least = tree::leaves(tree).into_iter().map(|leaf| leaf.min());
    expect_leaves("min", least.reduce(|a, b| minimum(a, b)))
}

/// Returns the number of elements of all leaves.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(oxidax_optim::trees::size(&(ones([2, 3]), scalar(1.0))), 7);
/// ```
#[doc(alias = "tree_size")]
pub fn size<T: Tree>(tree: &T) -> usize {
    tree::leaves(tree).iter().map(Array::size).sum()
}

/// The tolerances of [`all_close`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeCloseOptions {
    /// The difference relative to the second tree. 1e-5 by default.
    pub rtol: f64,
    /// The absolute difference. 1e-8 by default.
    pub atol: f64,
}

impl Default for TreeCloseOptions {
    fn default() -> TreeCloseOptions {
        TreeCloseOptions { rtol: 1e-5, atol: 1e-8 }
    }
}

/// Returns true if all elements of two trees are equal within tolerances: `bool[]`. NaN is not
/// close to anything.
///
/// Throws `Tree` if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::trees::{TreeCloseOptions, all_close};
/// let close = all_close(&ones([2]), &full([2], 1.000_001), TreeCloseOptions::default());
/// assert!(close.item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_allclose")]
#[track_caller]
pub fn all_close<T: Tree>(a: &T, b: &T, options: TreeCloseOptions) -> Array {
    let TreeCloseOptions { rtol, atol } = options;
    let close = tree::zip_map(a, b, |a, b| {
        let axes: Vec<isize> = (0..a.rank() as isize).collect();
        let is_close = if a.dtype().is_inexact() {
            bitwise_or(eq(a, b), le(abs(&(a - b)), abs(b) * rtol + atol))
        } else {
            eq(a, b)
        };
        reduce_and(&is_close, &axes)
    });
    tree::leaves(&close).into_iter().reduce(|a, b| bitwise_and(a, b)).unwrap_or(full([], true))
}

/// The choice of [`dtype`] for a tree of several dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "mixed_dtype_handler")]
pub enum MixedDtypes {
    /// The dtype of most bits.
    Highest,
    /// The dtype of least bits.
    Lowest,
}

/// Returns the dtype of the leaves of a tree, or of one of them if they differ. `None` without
/// leaves.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::trees::{MixedDtypes, dtype};
/// let pair = (zeros(([2], DType::BF16)), zeros(([2], DType::F32)));
/// assert_eq!(dtype(&pair, MixedDtypes::Lowest), Some(DType::BF16));
/// ```
#[doc(alias = "tree_dtype")]
pub fn dtype<T: Tree>(tree: &T, choice: MixedDtypes) -> Option<DType> {
    let dtypes = tree::leaves(tree).into_iter().map(|leaf| leaf.dtype());
    match choice {
        MixedDtypes::Highest => dtypes.max_by_key(|dtype| dtype.bits()),
        MixedDtypes::Lowest => dtypes.min_by_key(|dtype| dtype.bits()),
    }
}

/// Repeats every leaf along new first axes.
///
/// ```
/// use oxidax::prelude::*;
/// let batch = oxidax_optim::trees::batch_shape(&ones([3]), &[2]);
/// assert_eq!(batch.shape().dims(), [2, 3]);
/// ```
#[doc(alias = "tree_batch_shape")]
#[track_caller]
pub fn batch_shape<T: Tree>(tree: &T, shape: &[usize]) -> T {
    tree::map(tree, |leaf| broadcast_to(leaf, [shape, leaf.shape().dims()].concat()))
}

/// Returns one key for each leaf, in order. [`random::tree_like`] samples with them.
#[doc(alias = "tree_split_key_like")]
#[track_caller]
pub fn split_key_like<T: Tree>(key: Key, tree: &T) -> Vec<Key> {
    let n_leaves = tree::leaves(tree).len();
    if n_leaves == 0 { Vec::new() } else { random::split(key, n_leaves).into_iter().collect() }
}

/// Returns the leaves whose path has a field or key called `name`, with their paths: one leaf of a
/// field, or all leaves of a tree of that name.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::trees::get_all_with_path;
/// let state = optim::adam(0.1).init(&nn::Linear::new(random::key(0), 2, 3));
/// let first_moments = get_all_with_path(&state, "mu");
/// let paths: Vec<&str> = first_moments.iter().map(|(path, _)| path.as_str()).collect();
/// assert!(paths.iter().all(|path| path.contains("mu")), "{paths:?}");
/// assert_eq!(paths.len(), 2);
/// ```
#[doc(alias = "tree_get_all_with_path")]
pub fn get_all_with_path<T: Tree>(tree: &T, name: &str) -> Vec<(String, Array)> {
    let leaves = tree::paths(tree).into_iter().zip(tree::leaves(tree));
    leaves.filter(|(path, _)| has_part(path, name)).collect()
}

/// Returns true if a field or key of the path is called `name`.
fn has_part(path: &str, name: &str) -> bool {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.into_iter().any(|part| part.trim_matches('"') == name)
}

/// Returns the leaf whose path has a field or key called `name`, or `None` if there is none.
///
/// Throws `Op` (value) if there are several; [`get_all_with_path`] returns them all.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::trees::get;
/// let state = optim::adam(0.1).init(&ones([2]));
/// let count = get(&state, "count").expect("a state counts its updates");
/// assert_eq!(count.item::<i32>()?, 0);
/// assert!(get(&state, "momentum").is_none());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_get")]
#[track_caller]
pub fn get<T: Tree>(tree: &T, name: &str) -> Option<Array> {
    let mut found = get_all_with_path(tree, name);
    expect_value(found.len() < 2, "get", || {
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        format!("several leaves are called `{name}`: {}", paths.join(", "))
    });
    found.pop().map(|(_, leaf)| leaf)
}
