//! Trees: values made of arrays.
//!
//! Models, batches, optimizer states and tuples of them are trees with [`Array`] leaves. Transforms
//! flatten and rebuild them. A leaf's path (`blocks[3].attn.qkv.weight`) identifies it in errors,
//! checkpoints, sharding rules and recompile reports. Structs and enums become trees with
//! `#[derive(Tree)]`.

mod arg;
mod args;
mod arithmetic;
mod arity;
mod array_ref;
mod containers;
mod def;
mod function;
mod function_name;
mod key_path;
mod leaf_values;
mod nested;
#[cfg(feature = "export")]
mod nesting;
mod nodes;
mod number_arguments;
mod packed_tree;
mod pattern;
mod prefix;
mod primals;
mod ravel;
mod signature;
mod signature_changes;
mod static_values;
#[cfg(test)]
mod tests;

pub(crate) use arg::share;
pub use arg::{Arg, Owned, Passing};
pub use args::{Args, Arguments, Example, Examples};
pub use arithmetic::{
    add, add_scaled, cast, div, full_like, mul, neg, norm, ones_like, reduce, scale, sub, sum,
    vdot, zeros_like,
};
pub(crate) use arity::for_each_arity;
pub(crate) use array_ref::{leaves_and_refs, refs_of};
pub(crate) use def::{
    Difference, count_leaves, expect_alike, leaf_keys, leaves_of, rebuild, rooted,
};
pub use def::{StaticKey, TreeDef};
pub use function::{ByReference, ByValue, FnArgs, Function, Mixed, Transformed, TransformedFn};
pub(crate) use function::{applied_as_function, of_first, shared_arguments, transformed};
pub(crate) use function_name::short_name;
pub use key_path::{
    KeyEntry, KeyPath, all, flatten, flatten_with_path, key_paths, leaves_with_path,
    reduce_associative,
};
pub use leaf_values::{
    LeafValues, map_values, map_values_of, map_values_with_path, map_with_values, transpose,
};
pub use nested::{NestableTree, NestedTree};
#[cfg(feature = "export")]
pub(crate) use nesting::Nesting;
pub use nodes::{
    NodeVisitor, map_node_values, map_nodes, map_nodes_of, map_nodes_with_path, nodes,
    nodes_with_path, visit_child, visit_node, zip_nodes,
};
pub use number_arguments::ScalarNumber;
pub use oxidax_macros::{Tree, TreeOps, TreeRef};
pub use packed_tree::PackedTree;
pub(crate) use pattern::captures;
pub use prefix::broadcast;
pub(crate) use prefix::{EntryMismatch, EntryTree};
pub use primals::{PrimalArgs, Primals};
pub use ravel::{ravel, stack, unstack};
pub(crate) use signature::Gathered;
pub use signature::Signature;
pub use static_values::{ByPointer, Static, StaticFloat};

use crate::core::{Array, Loc};
use std::fmt::Display;

/// A value made of arrays, which can be flattened into leaves and rebuilt with others.
///
/// `#[derive(Tree)]` supports structs, tuple structs and enums whose fields are trees. A field
/// marked `#[tree(static)]` is part of the structure instead of an array, and of the signature that
/// `jit` looks programs up by. Its type must be `Clone + Eq + Hash + Debug`. `bool`, `char`,
/// integers, `&'static str`, `String`, `Duration`, [`DType`](crate::DType), [`StaticFloat`] and
/// [`Static`] are always static. Fields of type `f32` and `f64` may be marked so: their bits count.
/// A closure is static in a [`ByPointer`]. Options, boxes, `Arc`s, vectors, arrays, tuples of up to
/// sixteen elements and maps of trees are trees. Leaves of maps are in the order of the keys.
///
/// ```
/// use oxidax::prelude::*;
///
/// #[derive(Tree)]
/// struct Linear {
///     weight: Array,
///     bias: Option<Array>,
///     #[tree(static)]
///     name: String,
/// }
///
/// #[derive(Tree)]
/// struct Mlp {
///     hidden: Vec<Linear>,
///     head: Linear,
/// }
///
/// let linear = |x: &Array, bias: bool| Linear {
///     weight: x.clone(),
///     bias: bias.then(|| reshape(x, [6])),
///     name: "dense".into(),
/// };
/// let mlp = eval_shape(
///     move |x: Array| Mlp {
///         hidden: vec![linear(&x, true), linear(&x, false)],
///         head: linear(&x, false),
///     },
///     Aval::new(DType::F32, [2, 3]),
/// )?;
/// assert_eq!(
///     tree::paths(&mlp),
///     ["hidden[0].weight", "hidden[0].bias", "hidden[1].weight", "head.weight"]
/// );
/// # Ok::<(), Error>(())
/// ```
///
/// Laws: `unflatten` takes leaves in the order in which `flatten` visits them, and both visit the
/// same structure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of arrays",
    label = "not a tree of arrays",
    note = "numbers that vary between calls must be passed as an `Array`: a static `f32` would \
            recompile at every new value",
    note = "derive it for your own types with `#[derive(Tree)]`; functions under `jit` and `vmap` \
            take their arguments by value, those under `grad` by reference",
    note = "wrap configuration in `Static(…)`, or mark the field `#[tree(static)]`"
)]
pub trait Tree: Sized + Send + Sync + 'static {
    /// Visits the structure and every leaf, in order.
    fn flatten(&self, visitor: &mut dyn Visitor);

    /// Returns this structure with leaves from the front of `leaves`.
    ///
    /// # Panics
    /// If there are too few leaves. oxidax counts them before.
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self;

    /// Visits the trees inside this one, which the visitor may replace; see [`map_nodes`]. Calls
    /// [`visit_child`] for each. By default a tree has no inner nodes.
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        let _ = visitor;
    }

    /// Visits this tree as the child of another at `key`, as [`visit_child`] does. For
    /// `#[derive(Tree)]`; implementations keep the default.
    fn visit_at(&mut self, key: PathKey<'_>, visitor: &mut dyn NodeVisitor) {
        visit_child(key, self, visitor);
    }
}

/// A value with structure and leaves: every [`Tree`], and the [`Arguments`] of a call.
pub trait Walk {
    /// Visits the structure and every leaf, in order.
    fn walk(&self, visitor: &mut dyn Visitor);
}

impl<T: Tree> Walk for T {
    fn walk(&self, visitor: &mut dyn Visitor) {
        self.flatten(visitor);
    }
}

/// A visitor of the structure and the leaves of a tree; see [`Tree::flatten`].
pub trait Visitor {
    /// Visits a leaf.
    fn leaf(&mut self, leaf: &Array);
    /// Visits a fact about the structure at this node.
    fn tag(&mut self, tag: Tag<'_>);
    /// Visits the number of children of a list. By default it is a fact like that of a tuple.
    fn list(&mut self, len: usize) {
        self.tag(Tag::Len(len));
    }
    /// Visits the number of entries of a map. By default it is a fact like that of a tuple.
    fn map(&mut self, len: usize) {
        self.tag(Tag::Len(len));
    }
    /// Visits a static child, which has no leaves. By default its value is a fact about this node.
    fn static_field(&mut self, _key: PathKey<'_>, value: Tag<'_>) {
        self.tag(value);
    }
    /// Enters a child.
    fn enter(&mut self, key: PathKey<'_>);
    /// Leaves a child.
    fn exit(&mut self);
}

/// A fact about a tree's structure. Trees with equal facts in the same order have equal structures.
#[derive(Clone, Copy, Debug)]
pub enum Tag<'a> {
    /// The name of a struct, enum variant or other constructor.
    Name(&'static str),
    /// The number of children.
    Len(usize),
    /// A static value.
    Static(&'a dyn StaticKey),
}

impl<'a> Tag<'a> {
    /// Creates the tag of a static value.
    pub fn of<T: StaticKey>(value: &'a T) -> Tag<'a> {
        Tag::Static(value)
    }
}

/// A step in a leaf's path.
#[derive(Clone, Copy)]
pub enum PathKey<'a> {
    /// A field of a struct, printed as `.weight`.
    Field(&'static str),
    /// An index in a tuple, vector or array, printed as `[3]`.
    Index(usize),
    /// A key of a map, printed as `.key`.
    Entry(&'a dyn Display),
}

/// Returns the arrays of a tree, in order.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = eval_shape(|x: Array| (reshape(&x, [1, 3]), vec![x]), Aval::new(DType::F32, [3]))?;
/// assert_eq!(tree::leaves(&pair)[1].shape().dims(), [3]);
/// # Ok::<(), Error>(())
/// ```
pub fn leaves<T: Tree>(tree: &T) -> Vec<Array> {
    leaves_of(tree)
}

/// Returns the paths of a tree's leaves, in order: `blocks[3].attn.qkv.weight`.
///
/// The root has the empty path. Keys of maps are printed unchanged, including dots and brackets.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = eval_shape(|x: Array| (reshape(&x, [1, 3]), vec![x]), Aval::new(DType::F32, [3]))?;
/// assert_eq!(tree::paths(&pair), ["[0]", "[1][0]"]);
/// # Ok::<(), Error>(())
/// ```
pub fn paths<T: Tree>(tree: &T) -> Vec<String> {
    TreeDef::of(tree).paths().to_vec()
}

/// Returns the structure of a tree, without its arrays.
///
/// ```
/// use oxidax::tree;
/// assert_eq!(tree::structure(&(3, "a")), tree::structure(&(3, "a")));
/// assert_ne!(tree::structure(&(3, "a")), tree::structure(&(4, "a")));
/// ```
pub fn structure<T: Tree>(tree: &T) -> TreeDef {
    TreeDef::of(tree)
}

/// Returns the structure of `template` with other leaves, in order. Shapes and dtypes may differ.
///
/// Throws `Tree` if the number of leaves differs.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = eval_shape(|x: Array| (reshape(&x, [1, 3]), vec![x]), Aval::new(DType::F32, [3]))?;
/// let (_, rest) = tree::unflatten(&pair, tree::leaves(&pair).into_iter().rev());
/// assert_eq!(rest[0].rank(), 2);
/// assert!(oxidax::catch(|| tree::unflatten(&pair, [])).is_err());
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_unflatten")]
#[track_caller]
pub fn unflatten<T: Tree>(template: &T, leaves: impl IntoIterator<Item = Array>) -> T {
    let leaves: Vec<Array> = leaves.into_iter().collect();
    def::expect_count(template, leaves.len(), Loc::caller());
    rebuild(template, leaves)
}

/// Returns the tree with `f` applied to every leaf.
///
/// ```
/// use oxidax::prelude::*;
/// let halves = |pair: (Array, Vec<Array>)| tree::map(&pair, |leaf| leaf * 0.5);
/// let x = Aval::new(DType::F32, [3]);
/// let program = make_program(move |x: Array| halves((reshape(&x, [1, 3]), vec![x])), x)?;
/// assert_eq!(program.avals_out().len(), 2);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_map")]
#[track_caller]
pub fn map<T: Tree>(tree: &T, f: impl FnMut(&Array) -> Array) -> T {
    let leaves: Vec<Array> = leaves(tree).iter().map(f).collect();
    rebuild(tree, leaves)
}

/// Returns the tree with `f` applied to the path and the value of every leaf.
///
/// ```
/// use oxidax::prelude::*;
/// let pair = eval_shape(|x: Array| (reshape(&x, [1, 3]), vec![x]), Aval::new(DType::F32, [3]))?;
/// let mut lines = Vec::new();
/// tree::map_with_path(&pair, |path, leaf| {
///     lines.push(format!("{path}: {}", leaf.aval()));
///     leaf.clone()
/// });
/// assert_eq!(lines, ["[0]: f32[1,3]", "[1][0]: f32[3]"]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_map_with_path")]
#[track_caller]
pub fn map_with_path<T: Tree>(tree: &T, mut f: impl FnMut(&str, &Array) -> Array) -> T {
    let new = paths(tree).iter().zip(leaves(tree)).map(|(path, leaf)| f(path, &leaf)).collect();
    rebuild(tree, new)
}

/// Combines two trees of equal structure leaf by leaf.
///
/// Throws `Tree` with the first difference if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// fn step(weights: (Array, Array), gradients: (Array, Array)) -> (Array, Array) {
///     tree::zip_map(&weights, &gradients, |weight, gradient| weight - 0.1 * gradient)
/// }
/// let pair = || eval_shape(|x: Array| (reshape(&x, [1, 3]), x), Aval::new(DType::F32, [3]));
/// assert_eq!(make_program(step, (pair()?, pair()?))?.avals_out().len(), 2);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_map")]
#[track_caller]
pub fn zip_map<T: Tree>(a: &T, b: &T, mut f: impl FnMut(&Array, &Array) -> Array) -> T {
    def::expect_alike(a, b, Loc::caller());
    let new = leaves(a).iter().zip(leaves(b)).map(|(a, b)| f(a, &b)).collect();
    rebuild(a, new)
}

/// Combines `N` trees of equal structure leaf by leaf.
///
/// Throws `Tree` with the first difference if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// type Pair = (Array, Array);
/// let step = |p: Pair, m: Pair, v: Pair| {
///     tree::map_trees([&p, &m, &v], |[p, m, v]| p - m / (v.sqrt() + 1e-8))
/// };
/// let pair = || eval_shape(|x: Array| (x.sum(), x), Aval::new(DType::F32, [3]));
/// assert_eq!(eval_shape(step, (pair()?, pair()?, pair()?))?.1.shape().dims(), [3]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_map")]
#[track_caller]
pub fn map_trees<T: Tree, const N: usize>(
    trees: [&T; N],
    mut f: impl FnMut([&Array; N]) -> Array,
) -> T {
    const { assert!(N > 0, "map_trees needs at least one tree") };
    for tree in &trees[1..] {
        def::expect_alike(trees[0], *tree, Loc::caller());
    }
    let columns = trees.map(leaves);
    let leaf = |index| f(std::array::from_fn(|tree| &columns[tree][index]));
    rebuild(trees[0], (0..columns[0].len()).map(leaf).collect())
}
