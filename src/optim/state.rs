//! What an optimizer remembers between steps.

use super::leaves::Leaf;
use crate::core::Array;
use crate::tree::{Key, Tag, Tree, Visitor};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an optimizer remembers between steps: a tree of arrays, named after the model's leaves.
///
/// Made by [`Optimizer::init`](super::Optimizer::init). Its leaves are `count: i32[]`, the number of
/// updates made, and for each accumulator one array per trained leaf of the model: `mu.head.weight`.
/// It does not depend on the model's type, and saves and loads like any tree.
#[derive(Clone, Debug)]
#[doc(alias = "OptState")]
pub struct State {
    pub(super) count: Array,
    pub(super) accumulators: Vec<Accumulator>,
}

/// One array per trained leaf.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    pub(super) name: &'static str,
    pub(super) paths: Paths,
    pub(super) values: Vec<Array>,
}

/// Leaf paths, hashed once: states are compared at every call of a compiled step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    hash: u64,
    list: Arc<[String]>,
}

impl Paths {
    pub(super) fn of(leaves: &[Leaf]) -> Paths {
        let list: Arc<[String]> = leaves.iter().map(|leaf| leaf.path.clone()).collect();
        let mut hasher = rustc_hash::FxHasher::default();
        list.hash(&mut hasher);
        Paths { hash: hasher.finish(), list }
    }

    pub(super) fn list(&self) -> &[String] {
        &self.list
    }
}

impl Hash for Paths {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl State {
    /// How many updates were made: `i32[]`.
    pub fn count(&self) -> &Array {
        &self.count
    }

    /// The names of the accumulators: `mu` and `nu` for Adam.
    pub fn accumulators(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.accumulators.iter().map(|accumulator| accumulator.name)
    }

    /// What an accumulator holds for the model's leaf at `path`, if both are there.
    pub fn get(&self, accumulator: &str, path: &str) -> Option<&Array> {
        let accumulator = self.accumulators.iter().find(|found| found.name == accumulator)?;
        let position = accumulator.paths.list().iter().position(|found| found == path)?;
        accumulator.values.get(position)
    }
}

impl Tree for State {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name("State"));
        visitor.enter(Key::Field("count"));
        visitor.leaf(&self.count);
        visitor.exit();
        visitor.tag(Tag::Len(self.accumulators.len()));
        for accumulator in &self.accumulators {
            visitor.tag(Tag::Name(accumulator.name));
            visitor.tag(Tag::Static(&accumulator.paths));
            visitor.enter(Key::Field(accumulator.name));
            for (path, value) in accumulator.paths.list().iter().zip(&accumulator.values) {
                visitor.enter(Key::Entry(path));
                visitor.leaf(value);
                visitor.exit();
            }
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> State {
        State {
            count: self.count.unflatten(leaves),
            accumulators: self
                .accumulators
                .iter()
                .map(|accumulator| Accumulator {
                    name: accumulator.name,
                    paths: accumulator.paths.clone(),
                    values: accumulator.values.unflatten(leaves),
                })
                .collect(),
        }
    }
}
