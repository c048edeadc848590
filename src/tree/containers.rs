//! Implementations for arrays, tuples, vectors, options, maps and static values.

use super::{
    NodeVisitor, PathKey, Static, StaticFloat, Tag, Tree, Visitor, for_each_arity, share,
    visit_child, visit_node,
};
use crate::core::{Array, DType};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

impl Tree for Array {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.leaf(self);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Array {
        leaves.next().expect("as many leaves as the template has")
    }
}

macro_rules! static_trees {
    ($($ty:ty),*) => {$(
        impl Tree for $ty {
            fn flatten(&self, visitor: &mut dyn Visitor) {
                visitor.tag(Tag::Static(self));
            }
            fn unflatten(&self, _: &mut dyn Iterator<Item = Array>) -> Self {
                self.clone()
            }
        }
    )*};
}

static_trees!(
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    NonZeroU32,
    NonZeroU64,
    NonZeroUsize,
    Duration,
    DType,
    StaticFloat,
    &'static str,
    String
);

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Tree for Static<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Static(&self.0));
    }
    fn unflatten(&self, _: &mut dyn Iterator<Item = Array>) -> Self {
        self.clone()
    }
}

impl<T: ?Sized + Send + Sync + 'static> Tree for PhantomData<T> {
    fn flatten(&self, _: &mut dyn Visitor) {}
    fn unflatten(&self, _: &mut dyn Iterator<Item = Array>) -> Self {
        PhantomData
    }
}

impl<T: Tree> Tree for Box<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        (**self).flatten(visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        Box::new((**self).unflatten(leaves))
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        visit_node(&mut **self, visitor);
    }
}

/// Trees that share a part: it has leaves in each place, as it has in JAX.
impl<T: Tree> Tree for Arc<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        (**self).flatten(visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        Arc::new((**self).unflatten(leaves))
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        let mut part = share(&**self);
        visit_node(&mut part, visitor);
        *self = Arc::new(part);
    }
}

impl<T: Tree> Tree for Option<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        match self {
            None => visitor.tag(Tag::Name("None")),
            Some(tree) => {
                visitor.tag(Tag::Name("Some"));
                tree.flatten(visitor);
            }
        }
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.as_ref().map(|tree| tree.unflatten(leaves))
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        if let Some(tree) = self {
            visit_node(tree, visitor);
        }
    }
}

fn flatten_items<'a, T: Tree>(
    items: impl ExactSizeIterator<Item = &'a T>,
    visitor: &mut dyn Visitor,
) {
    visitor.list(items.len());
    for (index, item) in items.enumerate() {
        visitor.enter(PathKey::Index(index));
        item.flatten(visitor);
        visitor.exit();
    }
}

fn visit_items<'a, T: Tree>(items: impl Iterator<Item = &'a mut T>, visitor: &mut dyn NodeVisitor) {
    for (index, item) in items.enumerate() {
        visit_child(PathKey::Index(index), item, visitor);
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.iter().map(|item| item.unflatten(leaves)).collect()
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        visit_items(self.iter_mut(), visitor);
    }
}

impl<T: Tree> Tree for VecDeque<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.iter().map(|item| item.unflatten(leaves)).collect()
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        visit_items(self.iter_mut(), visitor);
    }
}

impl<T: Tree> Tree for Box<[T]> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.iter().map(|item| item.unflatten(leaves)).collect()
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        visit_items(self.iter_mut(), visitor);
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        std::array::from_fn(|index| self[index].unflatten(leaves))
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        visit_items(self.iter_mut(), visitor);
    }
}

/// The bounds of map keys, which order and name leaves.
trait MapKey: Ord + Display + Debug + Clone + Eq + Hash + Send + Sync + 'static {}
impl<K: Ord + Display + Debug + Clone + Eq + Hash + Send + Sync + 'static> MapKey for K {}

fn flatten_entries<'a, K: MapKey, V: Tree>(
    entries: impl ExactSizeIterator<Item = (&'a K, &'a V)>,
    visitor: &mut dyn Visitor,
) {
    visitor.map(entries.len());
    for (key, value) in entries {
        visitor.tag(Tag::Static(key));
        visitor.enter(PathKey::Entry(key));
        value.flatten(visitor);
        visitor.exit();
    }
}

impl<K, V: Tree> Tree for BTreeMap<K, V>
where
    K: Ord + Display + Debug + Clone + Hash + Send + Sync + 'static,
{
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_entries(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.iter().map(|(key, value)| (key.clone(), value.unflatten(leaves))).collect()
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        for (key, value) in self {
            visit_child(PathKey::Entry(key), value, visitor);
        }
    }
}

fn sorted<K: Ord, V, S>(map: &HashMap<K, V, S>) -> Vec<(&K, &V)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
    entries
}

/// Leaves are in the order of the keys, not of the map.
impl<K, V: Tree, S> Tree for HashMap<K, V, S>
where
    K: Ord + Display + Debug + Clone + Hash + Send + Sync + 'static,
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_entries(sorted(self).into_iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        let entries = sorted(self).into_iter();
        entries.map(|(key, value)| (key.clone(), value.unflatten(leaves))).collect()
    }
    fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
        let mut entries: Vec<_> = self.iter_mut().collect();
        entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for (key, value) in entries {
            visit_child(PathKey::Entry(key), value, visitor);
        }
    }
}

impl Tree for () {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Len(0));
    }
    fn unflatten(&self, _: &mut dyn Iterator<Item = Array>) -> Self {}
}

macro_rules! tuple_trees {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            fn flatten(&self, visitor: &mut dyn Visitor) {
                visitor.tag(Tag::Len([$($index),*].len()));
                $(
                    visitor.enter(PathKey::Index($index));
                    self.$index.flatten(visitor);
                    visitor.exit();
                )*
            }
            fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
                ($(self.$index.unflatten(leaves),)*)
            }
            fn visit_children(&mut self, visitor: &mut dyn NodeVisitor) {
                $(visit_child(PathKey::Index($index), &mut self.$index, visitor);)*
            }
        }
    };
}

for_each_arity!(1..=16 tuple_trees []);
