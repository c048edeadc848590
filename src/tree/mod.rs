//! Trees: values made of arrays.
//!
//! Models, batches, optimizer states and tuples of them are trees with [`Array`] leaves. Transforms
//! take them apart and put them together again; a leaf's path (`blocks[3].attn.qkv.weight`) names
//! the same thing in errors, checkpoints, sharding rules and recompile reports. Plain structs and
//! enums become trees with `#[derive(Tree)]`.

mod args;
mod arity;
mod containers;
mod def;
mod pattern;
mod signature;
#[cfg(test)]
mod tests;

pub use args::{Arg, Args, Arguments, Example, Examples, Function};
pub(crate) use arity::for_each_arity;
pub(crate) use def::{Difference, count_leaves, expect_alike, leaves_of, rebuild, rooted};
pub use def::{StaticKey, TreeDef};
pub use oxidax_macros::Tree;
pub(crate) use pattern::captures;
pub(crate) use signature::Gathered;
pub use signature::Signature;

use crate::core::Array;
use crate::core::Loc;
use std::fmt::Display;

/// A value made of arrays, which can be taken apart into leaves and rebuilt with others.
///
/// Derive it: `#[derive(Tree)]` for structs, tuple structs and enums whose fields are trees; a field
/// marked `#[tree(static)]` is not an array but part of the structure (`Clone + Eq + Hash + Debug`)
/// and of the signature by which `jit` finds its program. `bool`, `char`, the integers, `&'static str`,
/// `String` and [`Static`] are static wherever they stand. Options, boxes, vectors, arrays, tuples of
/// up to twelve, and maps (their leaves in the order of the keys) of trees are trees.
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
///     move |x: Array| Mlp { hidden: vec![linear(&x, true), linear(&x, false)], head: linear(&x, false) },
///     Aval::new(DType::F32, [2, 3]),
/// )?;
/// assert_eq!(
///     tree::paths(&mlp),
///     ["hidden[0].weight", "hidden[0].bias", "hidden[1].weight", "head.weight"]
/// );
/// # Ok::<(), Error>(())
/// ```
///
/// Laws: `unflatten` puts leaves back in the order in which `flatten` gave them, and both walk the
/// same structure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of arrays",
    label = "not a tree of arrays",
    note = "numbers that vary between calls must be passed as an `Array`: a static `f32` would recompile at every new value",
    note = "derive it for your own types with `#[derive(Tree)]`; functions under `jit` and `vmap` take their arguments by value, those under `grad` by reference",
    note = "wrap configuration in `Static(…)`, or mark the field `#[tree(static)]`"
)]
pub trait Tree: Sized + Send + Sync + 'static {
    /// Shows the structure and every leaf, in order.
    fn flatten(&self, visitor: &mut dyn Visitor);

    /// The same structure with other leaves, taken from the front of `leaves`.
    ///
    /// # Panics
    /// If there are too few; oxidax counts them before.
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self;
}

/// What has structure and leaves: every [`Tree`], and the [`Arguments`] of a call.
pub trait Walk {
    /// Shows the structure and every leaf, in order.
    fn walk(&self, visitor: &mut dyn Visitor);
}

impl<T: Tree> Walk for T {
    fn walk(&self, visitor: &mut dyn Visitor) {
        self.flatten(visitor);
    }
}

/// What [`Tree::flatten`] reports to.
pub trait Visitor {
    /// An array.
    fn leaf(&mut self, leaf: &Array);
    /// A fact about the structure at this place.
    fn tag(&mut self, tag: Tag<'_>);
    /// Steps down to a child.
    fn enter(&mut self, key: Key<'_>);
    /// Steps back up.
    fn exit(&mut self);
}

/// A fact about a tree's structure; two trees with the same facts in the same order are alike.
#[derive(Clone, Copy, Debug)]
pub enum Tag<'a> {
    /// A struct, an enum's variant, or another constructor, by name.
    Name(&'static str),
    /// How many children follow.
    Len(usize),
    /// A value that is part of the structure.
    Static(&'a dyn StaticKey),
}

impl<'a> Tag<'a> {
    /// The tag of a static value.
    pub fn of<T: StaticKey>(value: &'a T) -> Tag<'a> {
        Tag::Static(value)
    }
}

/// A step in a leaf's path.
#[derive(Clone, Copy)]
pub enum Key<'a> {
    /// A field of a struct: prints as `.weight`.
    Field(&'static str),
    /// A position in a tuple, vector or array: prints as `[3]`.
    Index(usize),
    /// A map's key: prints as `.key`.
    Entry(&'a dyn Display),
}

/// A value that is part of a tree's structure and not of its arrays.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(
///     |x: Array, power: Static<u32>| (1..power.0).fold(x.clone(), |y, _| &y * &x),
///     (Aval::new(DType::F32, []), Static(3)),
/// )?;
/// assert_eq!(program.eqns().len(), 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "static_argnums")]
#[doc(alias = "static_argnames")]
pub struct Static<T>(pub T);

/// The arrays of a tree, in order.
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

/// The paths of a tree's leaves, in order: `blocks[3].attn.qkv.weight`.
///
/// The root has the empty path. A map's keys are printed as they are, dots and brackets included.
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

/// A tree's structure, without its arrays.
///
/// ```
/// use oxidax::tree;
/// assert_eq!(tree::structure(&(3, "a")), tree::structure(&(3, "a")));
/// assert_ne!(tree::structure(&(3, "a")), tree::structure(&(4, "a")));
/// ```
pub fn structure<T: Tree>(tree: &T) -> TreeDef {
    TreeDef::of(tree)
}

/// The structure of `template` with the given leaves, in order.
///
/// Throws `Tree` if they are fewer or more than the template's; their shapes and dtypes may differ.
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

/// The same structure with every leaf replaced.
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

/// The same structure with every leaf replaced, given its path.
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

/// Combines two trees of one structure leaf by leaf.
///
/// Throws `Tree` naming the first difference if the structures differ.
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
