//! Arithmetic of whole trees, leaf by leaf, with Optax's names (`optax.tree`).

use super::{Tree, def, leaves_of, rebuild};
use crate::core::{Array, DType, Loc, Scalar, promote};
use crate::primitives::{
    self, ArrayLike, abs, conj, convert_element_type, reduce_sum, scalar, sqrt, square,
};

/// Combines the leaves of two trees of equal structure.
fn combined<T: Tree>(a: &T, b: &T, loc: Loc, f: impl Fn(&Array, &Array) -> Array) -> T {
    def::expect_alike(a, b, loc);
    loc.scope(|| {
        let pairs = leaves_of(a).into_iter().zip(leaves_of(b));
        rebuild(a, pairs.map(|(a, b)| f(&a, &b)).collect())
    })
}

macro_rules! binary {
    ($($name:ident $verb:literal $sign:literal $alias:literal;)*) => {$(
        #[doc = concat!($verb, " two trees of equal structure leaf by leaf: `a ", $sign, " b`.")]
        ///
        /// Leaves promote and broadcast as arrays do.
        ///
        /// Throws `Tree` with the first difference if the structures differ, and `Op` (shape) if
        /// two leaves do not broadcast.
        ///
        /// ```
        /// use oxidax::prelude::*;
        /// let pair = || eval_shape(|x: Array| (x.sum(), x), Aval::new(DType::F32, [3]));
        /// type Pair = (Array, Array);
        #[doc = concat!("let f = |a: Pair, b: Pair| tree::", stringify!($name), "(&a, &b);")]
        /// assert_eq!(eval_shape(f, (pair()?, pair()?))?.1.shape().dims(), [3]);
        /// # Ok::<(), Error>(())
        /// ```
        #[doc(alias = $alias)]
        #[track_caller]
        pub fn $name<T: Tree>(a: &T, b: &T) -> T {
            combined(a, b, Loc::caller(), |a, b| primitives::$name(a, b))
        }
    )*};
}

binary! {
    add "Adds" "+" "tree_add";
    sub "Subtracts" "-" "tree_sub";
    mul "Multiplies" "·" "tree_mul";
    div "Divides" "/" "tree_div";
}

/// Multiplies every leaf by `factor`, a number or an array that broadcasts against each leaf.
///
/// A number keeps the dtype of float leaves.
///
/// ```
/// use oxidax::prelude::*;
/// let halves = |pair: (Array, Array)| tree::scale(&pair, 0.5);
/// let pair = (Aval::new(DType::BF16, [2]), Aval::new(DType::F32, []));
/// let halves = eval_shape(|x: Array, y: Array| halves((x, y)), pair)?;
/// assert_eq!(halves.0.aval().to_string(), "bf16[2]");
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_scalar_mul")]
#[track_caller]
pub fn scale<T: Tree>(tree: &T, factor: impl ArrayLike) -> T {
    Loc::caller().scope(|| map_at(tree, Loc::caller(), |leaf| primitives::mul(leaf, factor.like())))
}

/// Returns `a + factor · b`, leaf by leaf: a step along a direction.
///
/// Throws `Tree` with the first difference if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (w, g) = ((ones([2]), scalar(1.0)), (ones([2]), scalar(2.0)));
/// let next = tree::add_scaled(&w, -0.5, &g);
/// assert_eq!(next.1.item::<f32>()?, 0.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "add_scale")]
#[doc(alias = "tree_add_scalar_mul")]
#[track_caller]
pub fn add_scaled<T: Tree>(a: &T, factor: impl ArrayLike, b: &T) -> T {
    Loc::caller().scope(|| {
        combined(a, b, Loc::caller(), |a, b| primitives::add(a, primitives::mul(b, factor.like())))
    })
}

/// Negates every leaf.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(tree::neg(&(scalar(1.0), scalar(2.0))).1.item::<f32>()?, -2.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn neg<T: Tree>(tree: &T) -> T {
    Loc::caller().scope(|| map_at(tree, Loc::caller(), |leaf| primitives::neg(leaf)))
}

fn map_at<T: Tree>(tree: &T, loc: Loc, f: impl Fn(&Array) -> Array) -> T {
    loc.scope(|| rebuild(tree, leaves_of(tree).iter().map(f).collect()))
}

/// Returns a tree of zeros with the structure, shapes and dtypes of `tree`.
///
/// ```
/// use oxidax::prelude::*;
/// let (w, b) = tree::zeros_like(&(ones([2, 3]), scalar(1.0)));
/// assert_eq!((w.shape().dims(), b.item::<f32>()?), (&[2, 3][..], 0.0));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_zeros_like")]
#[track_caller]
pub fn zeros_like<T: Tree>(tree: &T) -> T {
    map_at(tree, Loc::caller(), primitives::zeros_like)
}

/// Returns a tree of ones with the structure, shapes and dtypes of `tree`.
#[doc(alias = "tree_ones_like")]
#[track_caller]
pub fn ones_like<T: Tree>(tree: &T) -> T {
    map_at(tree, Loc::caller(), primitives::ones_like)
}

/// Returns a tree in which every element is `value`, with the structure, shapes and dtypes of
/// `tree`.
#[doc(alias = "tree_full_like")]
#[track_caller]
pub fn full_like<T: Tree>(tree: &T, value: impl Into<Scalar>) -> T {
    Loc::caller().scope(|| {
        let value = value.into();
        map_at(tree, Loc::caller(), |leaf| primitives::full_like(leaf, value))
    })
}

/// Converts all float leaves to `dtype`. Other leaves are unchanged.
///
/// ```
/// use oxidax::prelude::*;
/// let narrow = |x: Array, n: Array| tree::cast(&(x, n), DType::BF16);
/// let types = (Aval::new(DType::F32, [2]), Aval::new(DType::I32, []));
/// let (x, n) = eval_shape(narrow, types)?;
/// assert_eq!((x.dtype(), n.dtype()), (DType::BF16, DType::I32));
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_cast")]
#[track_caller]
pub fn cast<T: Tree>(tree: &T, dtype: DType) -> T {
    Loc::caller().scope(|| {
        map_at(tree, Loc::caller(), |leaf| match leaf.dtype().is_float() {
            true => convert_element_type(leaf, dtype),
            false => leaf.clone(),
        })
    })
}

/// Combines all leaves into one value: `f(…f(f(initial, leaf 0), leaf 1)…)`.
///
/// ```
/// use oxidax::prelude::*;
/// let count = |p: &(Array, Array)| tree::reduce(p, 0, |n, leaf| n + leaf.size());
/// let pair = eval_shape(|x: Array| (x.sum(), x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(count(&pair), 4);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "tree_reduce")]
pub fn reduce<T: Tree, A>(tree: &T, initial: A, f: impl FnMut(A, &Array) -> A) -> A {
    leaves_of(tree).iter().fold(initial, f)
}

/// Adds the elements of all leaves. The sum of a tree without leaves is 0.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(tree::sum(&(ones([2, 3]), scalar(1.0))).item::<f32>()?, 7.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "tree_sum")]
#[track_caller]
pub fn sum<T: Tree>(tree: &T) -> Array {
    Loc::caller().scope(|| total(leaves_of(tree).iter().map(sum_of)))
}

fn sum_of(x: &Array) -> Array {
    let axes: Vec<isize> = (0..x.rank() as isize).collect();
    reduce_sum(x, &axes)
}

fn total(sums: impl Iterator<Item = Array>) -> Array {
    sums.reduce(|a, b| primitives::add(a, b)).unwrap_or_else(|| scalar(0.0))
}

/// Returns the inner product of two trees of equal structure, over all leaves: the sum of
/// `conj(a) · b`.
///
/// Throws `Tree` with the first difference if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// let a = (ones([3]), scalar(2.0));
/// assert_eq!(tree::vdot(&a, &a).item::<f32>()?, 7.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "dot")]
#[doc(alias = "tree_vdot")]
#[track_caller]
pub fn vdot<T: Tree>(a: &T, b: &T) -> Array {
    let loc = Loc::caller();
    def::expect_alike(a, b, loc);
    loc.scope(|| {
        let pairs = leaves_of(a).into_iter().zip(leaves_of(b));
        total(pairs.map(|(a, b)| match a.dtype().is_complex() {
            true => sum_of(&primitives::mul(conj(a), b)),
            false => sum_of(&primitives::mul(a, b)),
        }))
    })
}

/// Returns the Euclidean norm of all leaves together, computed in `f32` at least.
///
/// The dtype is the one that the leaves promote to: `bf16` for leaves in `bf16`, as in Optax.
/// Leaves without floats have a norm in `f32`.
///
/// ```
/// use oxidax::prelude::*;
/// let gradients = (Array::from_slice(&[3.0f32, 0.0], [2])?, scalar(4.0));
/// assert_eq!(tree::norm(&gradients).item::<f32>()?, 5.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "global_norm")]
#[doc(alias = "tree_norm")]
#[doc(alias = "tree_l2_norm")]
#[track_caller]
pub fn norm<T: Tree>(tree: &T) -> Array {
    Loc::caller().scope(|| {
        let all = leaves_of(tree);
        let dtypes = all.iter().map(|leaf| leaf.dtype().real()).filter(|dtype| dtype.is_inexact());
        let dtype =
            dtypes.reduce(|a, b| promote((a, false), (b, false)).map_or(DType::F32, |d| d.0));
        let squares = all.into_iter().map(|leaf| {
            let leaf = if leaf.dtype().is_complex() { abs(leaf) } else { leaf };
            let leaf = match leaf.dtype() {
                DType::F64 => leaf,
                _ => convert_element_type(&leaf, DType::F32),
            };
            sum_of(&square(leaf))
        });
        convert_element_type(&sqrt(total(squares)), dtype.unwrap_or(DType::F32))
    })
}
