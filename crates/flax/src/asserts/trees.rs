//! Assertions about trees.

use super::failure::{expect, fail_shape, is_enabled};
use oxidax::prelude::*;

/// Throws `Op` (value) if a leaf holds NaN or infinity.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_tree_all_finite;
/// assert_tree_all_finite(&(ones([2]), zeros([])));
/// let error = catch(|| assert_tree_all_finite(&[ones([2]), log(zeros([]))])).unwrap_err();
/// assert!(error.to_string().contains("`[1]`"), "{error}");
/// ```
#[track_caller]
pub fn assert_tree_all_finite<T: Tree>(tree: &T) {
    if !is_enabled() {
        return;
    }
    for (path, leaf) in tree::paths(tree).iter().zip(tree::leaves(tree)) {
        if leaf.dtype().is_inexact() {
            let finite = is_finite(&leaf).all();
            expect("assert_tree_all_finite", &finite, &[&leaf], || {
                format!("`{path}` {} holds NaN or infinity", leaf.aval())
            });
        }
    }
}

/// Throws `Op` (shape) unless the first axes of every leaf have these sizes.
#[track_caller]
pub fn assert_tree_shape_prefix<T: Tree>(tree: &T, prefix: &[usize]) {
    expect_leaves("assert_tree_shape_prefix", tree, |leaf| {
        let fits = leaf.shape().dims().starts_with(prefix);
        (!fits).then(|| format!("does not begin with {prefix:?}"))
    });
}

/// Throws `Op` (shape) unless the last axes of every leaf have these sizes.
#[track_caller]
pub fn assert_tree_shape_suffix<T: Tree>(tree: &T, suffix: &[usize]) {
    expect_leaves("assert_tree_shape_suffix", tree, |leaf| {
        let fits = leaf.shape().dims().ends_with(suffix);
        (!fits).then(|| format!("does not end with {suffix:?}"))
    });
}

#[track_caller]
fn expect_leaves<T: Tree>(name: &str, tree: &T, problem: impl Fn(&Array) -> Option<String>) {
    if !is_enabled() {
        return;
    }
    for (path, leaf) in tree::paths(tree).iter().zip(tree::leaves(tree)) {
        if let Some(problem) = problem(&leaf) {
            fail_shape(name, format!("`{path}` {} {problem}", leaf.aval()), &[&leaf]);
        }
    }
}

/// Throws `Op` (shape) unless all trees have one structure: equal paths of leaves.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_trees_all_equal_structs;
/// let (one, two) = (vec![ones([2])], vec![ones([2]), ones([3])]);
/// assert_trees_all_equal_structs([&one, &one]);
/// assert!(catch(|| assert_trees_all_equal_structs([&one, &two])).is_err());
/// ```
#[track_caller]
pub fn assert_trees_all_equal_structs<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    compare("assert_trees_all_equal_structs", trees, |_, _| None);
}

/// Throws `Op` (shape) unless the leaves of all trees have equal shapes.
#[track_caller]
pub fn assert_trees_all_equal_shapes<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    compare("assert_trees_all_equal_shapes", trees, |a, b| {
        (a.shape() != b.shape()).then(|| "the shapes differ".to_owned())
    });
}

/// Throws `Op` (shape) unless the leaves of all trees have equal dtypes.
#[track_caller]
pub fn assert_trees_all_equal_dtypes<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    compare("assert_trees_all_equal_dtypes", trees, |a, b| {
        (a.dtype() != b.dtype()).then(|| "the dtypes differ".to_owned())
    });
}

/// Throws `Op` (shape) unless the leaves of all trees have equal shapes and dtypes.
#[track_caller]
pub fn assert_trees_all_equal_shapes_and_dtypes<'a, T: Tree + 'a>(
    trees: impl IntoIterator<Item = &'a T>,
) {
    compare("assert_trees_all_equal_shapes_and_dtypes", trees, |a, b| {
        let equal = a.shape() == b.shape() && a.dtype() == b.dtype();
        (!equal).then(|| "the types differ".to_owned())
    });
}

/// Throws `Op` (shape) unless the leaves of all trees have equal numbers of elements.
#[track_caller]
pub fn assert_trees_all_equal_sizes<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    compare("assert_trees_all_equal_sizes", trees, |a, b| {
        (a.size() != b.size()).then(|| "the sizes differ".to_owned())
    });
}

/// Throws `Op` unless a function returns true for each pair of neighbouring leaves of the trees.
///
/// `description` completes the error: "`path`: not `description`".
#[track_caller]
pub fn assert_trees_all_equal_comparator<'a, T: Tree + 'a>(
    trees: impl IntoIterator<Item = &'a T>,
    mut holds: impl FnMut(&Array, &Array) -> bool,
    description: &str,
) {
    compare("assert_trees_all_equal_comparator", trees, |a, b| {
        (!holds(a, b)).then(|| format!("not {description}"))
    });
}

/// Throws `Op` unless the leaves of all trees are equal in shape and in every element. NaN is equal
/// to NaN.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_trees_all_equal;
/// let a = [ones([2]), zeros([])];
/// assert_trees_all_equal([&a, &a.clone()]);
/// let b = [full([2], 2.0f32), zeros([])];
/// assert!(catch(|| assert_trees_all_equal([&a, &b])).is_err());
/// ```
#[track_caller]
pub fn assert_trees_all_equal<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    compare_values("assert_trees_all_equal", trees, "are not equal", |a, b| {
        let equal = eq(a, b);
        match a.dtype().is_inexact() && b.dtype().is_inexact() {
            true => equal | (ne(a, a) & ne(b, b)),
            false => equal,
        }
    });
}

/// Throws `Op` unless the leaves of all trees have equal shapes and close elements:
/// `|a − b| ≤ 1e-6 · |b|`. NaN is close to NaN.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::{assert_trees_all_close, assert_trees_all_close_with};
/// let (a, b) = (array![1.0f32, 2.0], array![1.0f32, 2.001]);
/// let error = catch(|| assert_trees_all_close([&a, &b])).unwrap_err().to_string();
/// assert!(error.contains("1 of 2 elements"), "{error}");
/// let options = CloseOptions { rtol: 1e-2, ..CloseOptions::default() };
/// assert_trees_all_close_with([&a, &b], options);
/// ```
#[track_caller]
pub fn assert_trees_all_close<'a, T: Tree + 'a>(trees: impl IntoIterator<Item = &'a T>) {
    let options = CloseOptions { rtol: 1e-6, atol: 0.0, equal_nan: true };
    assert_trees_all_close_with(trees, options);
}

/// Throws `Op` unless the leaves of all trees have equal shapes and elements that are close by
/// these tolerances.
#[track_caller]
pub fn assert_trees_all_close_with<'a, T: Tree + 'a>(
    trees: impl IntoIterator<Item = &'a T>,
    options: CloseOptions,
) {
    let relation = format!("differ by more than {} · |b| + {}", options.rtol, options.atol);
    compare_values("assert_trees_all_close", trees, &relation, |a, b| isclose_with(a, b, options));
}

/// Throws `Op` unless the leaves of all trees have equal shapes and elements that differ by at most
/// `maxulp` units in the last place of the larger one.
#[track_caller]
pub fn assert_trees_all_close_ulp<'a, T: Tree + 'a>(
    trees: impl IntoIterator<Item = &'a T>,
    maxulp: usize,
) {
    let relation = format!("differ by more than {maxulp} units in the last place");
    compare_values("assert_trees_all_close_ulp", trees, &relation, |a, b| {
        if !a.dtype().is_float() {
            return eq(a, b);
        }
        let larger = maximum(abs(a), abs(b));
        let unit = nextafter(&larger, full_like(&larger, f64::INFINITY)) - &larger;
        let near = le(abs(a - b), unit * maxulp as f64);
        near | eq(a, b) | (ne(a, a) & ne(b, b))
    });
}

/// Compares each tree with the first one, leaf by leaf.
#[track_caller]
fn compare<'a, T: Tree + 'a>(
    name: &str,
    trees: impl IntoIterator<Item = &'a T>,
    mut problem: impl FnMut(&Array, &Array) -> Option<String>,
) {
    if !is_enabled() {
        return;
    }
    let mut trees = trees.into_iter();
    let Some(first) = trees.next() else { return };
    let (paths, leaves) = (tree::paths(first), tree::leaves(first));
    for (index, tree) in trees.enumerate() {
        if tree::structure(first) != tree::structure(tree) {
            let others = tree::paths(tree);
            let missing = paths.iter().find(|path| !others.contains(path));
            let further = others.iter().find(|path| !paths.contains(path));
            let detail = match (missing, further) {
                (Some(path), _) => format!(": `{path}` is missing"),
                (None, Some(path)) => format!(": `{path}` is only there"),
                (None, None) => String::new(),
            };
            let message = format!("tree {} has another structure{detail}", index + 1);
            fail_shape(name, message, &[]);
        }
        for ((path, a), b) in paths.iter().zip(&leaves).zip(tree::leaves(tree)) {
            if let Some(problem) = problem(a, &b) {
                let (a_type, b_type) = (a.aval(), b.aval());
                let message =
                    format!("`{path}` of tree {}: {problem}: {a_type} and {b_type}", index + 1);
                fail_shape(name, message, &[a, &b]);
            }
        }
    }
}

/// Compares the elements of each tree with those of the first one.
#[track_caller]
fn compare_values<'a, T: Tree + 'a>(
    name: &str,
    trees: impl IntoIterator<Item = &'a T>,
    relation: &str,
    close: impl Fn(&Array, &Array) -> Array,
) {
    if !is_enabled() {
        return;
    }
    let trees: Vec<&T> = trees.into_iter().collect();
    compare(name, trees.iter().copied(), |a, b| {
        (a.shape() != b.shape()).then(|| "the shapes differ".to_owned())
    });
    let Some((first, rest)) = trees.split_first() else { return };
    for (index, tree) in rest.iter().enumerate() {
        let leaves = tree::leaves(*first).into_iter().zip(tree::leaves(*tree));
        for (path, (a, b)) in tree::paths(*first).iter().zip(leaves) {
            let close = close(&a, &b);
            expect(name, &close.all(), &[&a, &b], || {
                let text = format!("`{path}` of tree {}: elements {relation}", index + 1);
                format!("{text}{}", statistics(&a, &b, &close))
            });
        }
    }
}

/// Describes the differences of concrete arrays: their number and the largest one.
fn statistics(a: &Array, b: &Array, close: &Array) -> String {
    if close.is_traced() {
        return String::new();
    }
    let differing = catch(|| {
        let differing = (!close).astype(DType::I32).sum().item::<i32>()?;
        let [a, b] = [a, b].map(|x| x.astype(DType::F64));
        Ok::<_, Error>((differing, abs(a - b).max().item::<f64>()?))
    });
    match differing {
        Ok(Ok((count, largest))) => {
            format!(": {count} of {} elements, by {largest:e} at most", close.size())
        }
        _ => String::new(),
    }
}
