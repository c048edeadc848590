//! Implementations for arrays, tuples, vectors, options, maps and static values.

use super::{PathKey, Static, Tag, Tree, Visitor, for_each_arity};
use crate::core::Array;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

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

impl<T: Tree> Tree for Vec<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        self.iter().map(|item| item.unflatten(leaves)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        flatten_items(self.iter(), visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        std::array::from_fn(|index| self[index].unflatten(leaves))
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
        }
    };
}

for_each_arity!(1..=12 tuple_trees []);
