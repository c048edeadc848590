//! [`NestableTree`]: trees whose leaves can be replaced by trees, the structure of Jacobians.

use super::{PathKey, Static, Tag, Tree, Visitor, for_each_arity, paths, share};
use crate::core::Array;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;

/// A tree whose leaves can be replaced by other trees.
///
/// [`jacfwd`](crate::transforms::jacfwd), [`jacrev`](crate::transforms::jacrev) and
/// [`hessian`](crate::transforms::hessian) return the tree of the outputs with a tree of the inputs
/// in place of every leaf, as JAX does. For arrays, tuples, vectors, options and maps it is a type
/// of the same shape: for outputs `(Array, Vec<Array>)`, inputs `P` give `(P, Vec<P>)`. For types
/// with `#[derive(Tree)]` it is a [`NestedTree`].
#[diagnostic::on_unimplemented(
    message = "the leaves of `{Self}` cannot be replaced by trees",
    note = "derive it for your own types with `#[derive(Tree)]`"
)]
pub trait NestableTree: Tree {
    /// This type with `P` in place of every array.
    type Nested<P: Tree>: Tree;

    /// Returns this structure with the leaves replaced by `trees`, in order.
    ///
    /// # Panics
    /// If there are too few trees.
    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P>;
}

/// A tree of type `S` with a tree of type `P` in place of every leaf.
///
/// ```
/// use oxidax::prelude::*;
/// #[derive(Tree)]
/// struct Line {
///     slope: Array,
///     offset: Array,
/// }
/// let at_two = |line: &Line| &line.slope * 2.0 + &line.offset.square();
/// let line = Line { slope: ones([]), offset: full([], 3.0) };
/// let curvature = hessian(at_two)(&line);
/// assert_eq!(curvature["offset"].offset.item::<f32>()?, 2.0);
/// assert_eq!(curvature["offset"].slope.item::<f32>()?, 0.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct NestedTree<S, P> {
    outer: S,
    inner: Vec<P>,
}

impl<S: Tree, P: Tree> NestedTree<S, P> {
    /// Replaces the leaves of `outer` by `trees`.
    ///
    /// # Panics
    /// If there are too few trees.
    pub fn new(outer: &S, trees: &mut dyn Iterator<Item = P>) -> NestedTree<S, P> {
        let inner: Vec<P> = trees.take(super::count_leaves(outer)).collect();
        assert_eq!(
            inner.len(),
            super::count_leaves(outer),
            "as many trees as the outer has leaves"
        );
        NestedTree { outer: share(outer), inner }
    }

    /// Returns the trees in place of the leaves, in order.
    pub fn trees(&self) -> &[P] {
        &self.inner
    }

    /// Returns the tree in place of the leaf at `path`, such as `blocks[3].weight`.
    pub fn get(&self, path: &str) -> Option<&P> {
        let index = paths(&self.outer).iter().position(|other| other == path)?;
        self.inner.get(index)
    }
}

impl<S: Tree, P: Tree> std::ops::Index<&str> for NestedTree<S, P> {
    type Output = P;

    /// Returns the tree in place of the leaf at `path`.
    ///
    /// # Panics
    /// If there is no such leaf.
    fn index(&self, path: &str) -> &P {
        match self.get(path) {
            Some(tree) => tree,
            None => panic!("no leaf `{path}`; the leaves are {:?}", paths(&self.outer)),
        }
    }
}

/// A visitor of a tree that visits another tree in place of every leaf.
struct Nesting<'a, P> {
    visitor: &'a mut dyn Visitor,
    trees: std::slice::Iter<'a, P>,
}

impl<P: Tree> Visitor for Nesting<'_, P> {
    fn leaf(&mut self, _: &Array) {
        self.trees.next().expect("one tree per leaf").flatten(self.visitor);
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.visitor.tag(tag);
    }
    fn list(&mut self, len: usize) {
        self.visitor.list(len);
    }
    fn map(&mut self, len: usize) {
        self.visitor.map(len);
    }
    fn static_field(&mut self, key: PathKey<'_>, value: Tag<'_>) {
        self.visitor.static_field(key, value);
    }
    fn enter(&mut self, key: PathKey<'_>) {
        self.visitor.enter(key);
    }
    fn exit(&mut self) {
        self.visitor.exit();
    }
}

impl<S: Tree, P: Tree> Tree for NestedTree<S, P> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        self.outer.flatten(&mut Nesting { visitor, trees: self.inner.iter() });
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        let inner = self.inner.iter().map(|tree| tree.unflatten(leaves)).collect();
        NestedTree { outer: share(&self.outer), inner }
    }
}

impl<S: Tree, P: Tree> NestableTree for NestedTree<S, P> {
    type Nested<Q: Tree> = NestedTree<NestedTree<S, P>, Q>;

    fn nest<Q: Tree>(&self, trees: &mut dyn Iterator<Item = Q>) -> Self::Nested<Q> {
        NestedTree::new(self, trees)
    }
}

impl NestableTree for Array {
    type Nested<P: Tree> = P;

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> P {
        trees.next().expect("as many trees as the outer has leaves")
    }
}

impl NestableTree for () {
    type Nested<P: Tree> = ();

    fn nest<P: Tree>(&self, _: &mut dyn Iterator<Item = P>) {}
}

impl<T: NestableTree> NestableTree for Box<T> {
    type Nested<P: Tree> = Box<T::Nested<P>>;

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P> {
        Box::new((**self).nest(trees))
    }
}

impl<T: NestableTree> NestableTree for Option<T> {
    type Nested<P: Tree> = Option<T::Nested<P>>;

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P> {
        self.as_ref().map(|tree| tree.nest(trees))
    }
}

impl<T: NestableTree> NestableTree for Vec<T> {
    type Nested<P: Tree> = Vec<T::Nested<P>>;

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P> {
        self.iter().map(|item| item.nest(trees)).collect()
    }
}

impl<T: NestableTree, const N: usize> NestableTree for [T; N] {
    type Nested<P: Tree> = [T::Nested<P>; N];

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P> {
        std::array::from_fn(|index| self[index].nest(trees))
    }
}

impl<K, V: NestableTree> NestableTree for BTreeMap<K, V>
where
    K: Ord + Display + Debug + Clone + Hash + Send + Sync + 'static,
{
    type Nested<P: Tree> = BTreeMap<K, V::Nested<P>>;

    fn nest<P: Tree>(&self, trees: &mut dyn Iterator<Item = P>) -> Self::Nested<P> {
        self.iter().map(|(key, value)| (key.clone(), value.nest(trees))).collect()
    }
}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> NestableTree for Static<T> {
    type Nested<P: Tree> = Static<T>;

    fn nest<P: Tree>(&self, _: &mut dyn Iterator<Item = P>) -> Static<T> {
        self.clone()
    }
}

macro_rules! nestable_tuples {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: NestableTree),*> NestableTree for ($($name,)*) {
            type Nested<Inner: Tree> = ($($name::Nested<Inner>,)*);

            fn nest<Inner: Tree>(
                &self,
                trees: &mut dyn Iterator<Item = Inner>,
            ) -> Self::Nested<Inner> {
                ($(self.$index.nest(trees),)*)
            }
        }
    };
}

for_each_arity!(1..=16 nestable_tuples []);
