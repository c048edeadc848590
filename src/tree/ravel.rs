//! Trees as flat vectors, and lists of trees as one tree.

use super::{Arg, Tree, def, leaves_of, paths, rebuild, rooted};
use crate::core::{Array, Aval, DType, Error, Loc, OpErrorKind, TreeError, promote, trace};
use crate::primitives::{
    concatenate, convert_element_type, expand_dims, reshape, slice, split_sizes, zeros,
};

/// Returns all elements of a tree as one vector, and the function that converts such a vector back
/// to a tree.
///
/// Leaves are in order, each row by row. The vector has the dtype to which the leaves promote, and
/// is `f32[0]` for a tree without leaves. Transforms accept the returned function. It gives each
/// leaf its shape. If all leaves have one dtype, they get that of the vector, which may be another;
/// else each gets its own dtype back.
///
/// The returned function throws `Op`: shape for a vector of another length, dtype for a vector of
/// another dtype if the leaves differ in dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let params = (ones([2, 3]), zeros([3]));
/// let (flat, unravel) = tree::ravel(&params);
/// assert_eq!(flat.shape().dims(), [9]);
/// let loss = |flat: &Array| tree::sum(&unravel(flat)).square();
/// let curvature = hessian(loss)(&flat);
/// assert_eq!(curvature.shape().dims(), [9, 9]);
/// ```
#[doc(alias = "ravel_pytree")]
#[track_caller]
pub fn ravel<T: Tree>(tree: &T) -> (Array, impl Fn(&Array) -> T + Send + Sync + use<T>) {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let dtype = common_dtype(&leaves, &paths(tree), loc);
    let flat = loc.scope(|| {
        let Some(dtype) = dtype else { return zeros([0]) };
        let vectors: Vec<Array> = leaves
            .iter()
            .map(|leaf| convert_element_type(&reshape(leaf, [leaf.size()]), dtype))
            .collect();
        concatenate(&vectors, 0)
    });
    let avals: Vec<_> = leaves.iter().map(|leaf| leaf.aval().clone()).collect();
    let template = rebuild(tree, avals.iter().cloned().map(Array::of_type).collect());
    let n: usize = leaves.iter().map(Array::size).sum();
    let mixed = dtype.filter(|dtype| leaves.iter().any(|leaf| leaf.dtype() != *dtype));
    (flat, move |flat: &Array| {
        if flat.shape().dims() != [n] {
            let message =
                format!("the tree has {n} elements, so it needs [{n}], got {}", flat.aval());
            trace::throw_op(OpErrorKind::Shape, "unravel", message, Loc::scoped().or(loc));
        }
        if let Some(dtype) = mixed.filter(|dtype| *dtype != flat.dtype()) {
            let message = format!(
                "the leaves differ in dtype, so it needs {dtype}, got {flat_aval}",
                flat_aval = flat.aval()
            );
            trace::throw_op(OpErrorKind::DType, "unravel", message, Loc::scoped().or(loc));
        }
        let sizes: Vec<usize> = avals.iter().map(Aval::size).collect();
        let parts = split_sizes(flat, &sizes, 0);
        let leaves = parts.iter().zip(&avals).map(|(part, aval)| {
            let leaf = reshape(part, aval.shape.clone());
            if mixed.is_some() { convert_element_type(&leaf, aval.dtype) } else { leaf }
        });
        rebuild(&template, leaves.collect())
    })
}

/// Returns the dtype that all leaves promote to; `None` without leaves.
fn common_dtype(leaves: &[Array], paths: &[String], loc: Loc) -> Option<DType> {
    let (first, rest) = leaves.split_first()?;
    // Weak types count as others here, as in JAX.
    let mut common = (first.dtype(), false);
    for (leaf, path) in rest.iter().zip(&paths[1..]) {
        common = promote(common, (leaf.dtype(), false)).unwrap_or_else(|| {
            let message = format!("ravel: {} and {} have no common dtype", common.0, leaf.aval());
            throw_leaf(path, message, "convert the leaves to one dtype", loc)
        });
    }
    Some(common.0)
}

fn throw_leaf(path: &str, message: String, help: &str, loc: Loc) -> ! {
    let help = Some(help.to_string());
    trace::throw(Error::Tree(Box::new(TreeError { path: rooted(path), message, loc, help })))
}

/// Stacks trees of equal structure and types along a new axis 0 of every leaf. `vmap` maps over the
/// result and `scan` steps through it.
///
/// Throws `Tree` if the structures or types differ, and `Op` (value) for an empty list.
///
/// ```
/// use oxidax::prelude::*;
/// let keys = random::split(random::key(0), 5);
/// let models = keys.into_iter().map(|key| nn::Linear::new(key, 3, 2));
/// let ensemble: nn::Linear = tree::stack(models);
/// assert_eq!(ensemble.weight.shape().dims(), [5, 3, 2]);
/// let outputs = vmap(|m: &nn::Linear, x: &Array| m.forward(x))
///     .in_axes((0, None))
///     .apply(&ensemble, ones([3]));
/// assert_eq!(outputs.shape().dims(), [5, 2]);
/// ```
#[track_caller]
pub fn stack<T: Tree, I: IntoIterator>(trees: I) -> T
where
    I::Item: Arg<T>,
{
    let loc = Loc::caller();
    let trees: Vec<_> = trees.into_iter().map(Arg::hold).collect();
    let Some(first) = trees.first() else {
        let message = "needs at least one tree, got an empty list".into();
        trace::throw_op(OpErrorKind::Value, "tree::stack", message, loc);
    };
    let (paths, avals) = (paths(&**first), leaves_of(&**first));
    let mut columns: Vec<Vec<Array>> = vec![Vec::with_capacity(trees.len()); avals.len()];
    for (index, tree) in trees.iter().enumerate() {
        def::expect_alike(&**first, &**tree, loc);
        for (position, leaf) in leaves_of(&**tree).into_iter().enumerate() {
            let expected = &avals[position];
            if leaf.shape() != expected.shape() || leaf.dtype() != expected.dtype() {
                let message = format!(
                    "tree::stack: tree 0 has {} here, tree {index} {}",
                    expected.aval(),
                    leaf.aval()
                );
                throw_leaf(&paths[position], message, "stack trees of equal types", loc);
            }
            columns[position].push(loc.scope(|| expand_dims(&leaf, &[0])));
        }
    }
    let leaves = columns.iter().map(|column| loc.scope(|| concatenate(column, 0))).collect();
    rebuild(&**first, leaves)
}

/// Splits a tree along axis 0 of its leaves into one tree per index: the inverse of [`stack`].
///
/// Throws `Tree`, naming the leaf, if a leaf is a scalar or the leaves differ in length.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = (eye(3), arange(3));
/// let rows = tree::unstack(&pair);
/// assert_eq!((rows.len(), rows[2].1.item::<i32>()?), (3, 2));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn unstack<T: Tree>(tree: &T) -> Vec<T> {
    let loc = Loc::caller();
    let (paths, leaves) = (paths(tree), leaves_of(tree));
    let mut length = None;
    for (leaf, path) in leaves.iter().zip(&paths) {
        if leaf.rank() == 0 {
            let message = format!("tree::unstack: {} has no axis to split", leaf.aval());
            throw_leaf(path, message, "every leaf needs the same first axis", loc);
        }
        let n = leaf.shape()[0];
        if length.is_some_and(|length| length != n) {
            let message = format!(
                "tree::unstack: lengths differ: {} has {n}, {} has {}",
                leaf.aval(),
                rooted(&paths[0]),
                leaves[0].shape()[0]
            );
            throw_leaf(path, message, "every leaf needs the same first axis", loc);
        }
        length = Some(n);
    }
    let row = |leaf: &Array, index: usize| {
        let (mut start, mut stop) = (vec![0; leaf.rank()], leaf.shape().to_vec());
        (start[0], stop[0]) = (index, index + 1);
        let row = slice(leaf, &start, &stop, &vec![1; leaf.rank()]);
        reshape(&row, leaf.shape().remove(0))
    };
    loc.scope(|| {
        (0..length.unwrap_or(0))
            .map(|index| rebuild(tree, leaves.iter().map(|leaf| row(leaf, index)).collect()))
            .collect()
    })
}
