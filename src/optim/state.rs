//! The state of an optimizer.

use super::leaves::{LEAVES, Leaf, Leaves, throw_tree};
use crate::core::{Array, DType, Loc};
use crate::primitives::{convert_element_type, full};
use crate::tree::{self, PathKey, Tag, Tree, Visitor};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The state of an optimizer: a tree of arrays, named after the leaves of the model.
///
/// [`Optimizer::init`](super::Optimizer::init) creates it. Its leaves are:
///
/// - `count: i32[]`: the number of updates;
/// - `hyperparams.learning_rate: f32[]` and so on, one for each
///   [`hyperparam`](super::hyperparam());
/// - `mu.head.weight` and so on: for each accumulator one array per leaf of the model.
///
/// The type does not depend on that of the model. A second accumulator of the same name is called
/// `mu_1`. Accumulators of a part of a [`partition`](super::partition()) have the prefix of the
/// part, as in `muon.mu`.
#[derive(Clone, Debug)]
#[doc(alias = "OptState")]
pub struct State {
    pub(super) count: Array,
    pub(super) hyperparams: Vec<(Arc<str>, Array)>,
    pub(super) slots: Vec<Slot>,
}

/// A named array, or one array per leaf.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) header: Arc<Header>,
    pub(super) values: Vec<Array>,
}

impl Slot {
    /// Returns the index of a hyperparameter of an inner optimizer.
    fn nested(&self, name: &str) -> Option<usize> {
        let header = &self.header;
        let is_list = header.name == "hyperparams" || header.name.ends_with(".hyperparams");
        let paths = header.paths.as_ref().filter(|_| is_list)?;
        paths.list().iter().position(|path| path == name)
    }
}

/// The name of a slot and the paths of its leaves, if it has one array per leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) paths: Option<Paths>,
}

/// The arrays of a slot: a single one, or one per leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    Single,
    PerLeaf,
}

impl Header {
    /// Returns true if the name is another one with a number behind it, a prefix, or both.
    fn is_related(&self, name: &str) -> bool {
        let last = self.name.rsplit('.').next().unwrap_or(&self.name);
        let number = last.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
        last == name || number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    }

    pub(super) fn kind(&self) -> SlotKind {
        if self.paths.is_some() { SlotKind::PerLeaf } else { SlotKind::Single }
    }
}

/// A part of a typed state that becomes one slot: a field of a struct, or an item of a tuple.
#[derive(Clone, Debug)]
pub(super) struct StatePart {
    pub(super) name: String,
    pub(super) paths: Option<Paths>,
    /// The number of its arrays.
    pub(super) n_leaves: usize,
}

impl StatePart {
    /// Returns the parts of a typed state, in the order of its leaves.
    pub(super) fn all_of(state: &impl Tree) -> Vec<StatePart> {
        let mut parts = Parts::default();
        state.flatten(&mut parts);
        let part = |Part { name, paths, is_per_leaf }: Part| {
            let is_single = paths.len() == 1 && paths[0].is_empty() && !is_per_leaf;
            let n_leaves = paths.len();
            let paths = (!is_single).then(|| Paths::new(paths.into_iter()));
            StatePart { name, paths, n_leaves }
        };
        parts.list.into_iter().filter(|part| !part.paths.is_empty()).map(part).collect()
    }
}

/// Collects the parts of a typed state. The slots of a nested [`State`] are parts as well, with the
/// field as the prefix of their names.
#[derive(Default)]
struct Parts {
    list: Vec<Part>,
    depth: usize,
    path: Vec<String>,
    /// The name of the field that holds a nested state.
    prefix: Option<String>,
}

struct Part {
    name: String,
    paths: Vec<String>,
    is_per_leaf: bool,
}

impl Part {
    fn new(name: String) -> Part {
        Part { name, paths: Vec::new(), is_per_leaf: false }
    }
}

impl Parts {
    /// Returns the current part. Leaves outside of a field belong to the part `state`.
    fn part(&mut self) -> &mut Part {
        if self.depth == 0 && self.list.is_empty() {
            self.list.push(Part::new("state".into()));
        }
        self.list.last_mut().expect("a part was entered")
    }

    fn is_whole(&self) -> bool {
        self.list.first().is_some_and(|part| part.name == "state" && part.is_per_leaf)
    }

    /// Returns the depth at which children are parts.
    fn part_depth(&self) -> usize {
        usize::from(self.prefix.is_some())
    }
}

impl Visitor for Parts {
    fn leaf(&mut self, _: &Array) {
        let path = self.path.concat();
        self.part().paths.push(path);
    }

    fn tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Name(LEAVES) if self.depth <= 1 => self.part().is_per_leaf = true,
            Tag::Name(STATE) if self.depth == 1 => {
                self.prefix = self.list.pop().map(|part| part.name);
            }
            _ => {}
        }
    }

    fn enter(&mut self, key: PathKey<'_>) {
        let is_part = self.depth == self.part_depth() && !self.is_whole();
        let is_first = self.path.is_empty();
        let (text, is_index) = match key {
            PathKey::Field(name) => (name.to_string(), false),
            PathKey::Index(index) if is_part => (index.to_string(), false),
            PathKey::Index(index) => (format!("[{index}]"), true),
            PathKey::Entry(key) => (key.to_string(), false),
        };
        self.depth += 1;
        if is_part {
            let name = match &self.prefix {
                Some(prefix) => format!("{prefix}.{text}"),
                None => text,
            };
            self.list.push(Part::new(name));
        } else {
            let dot = if is_first || is_index || text.starts_with('[') { "" } else { "." };
            self.path.push(format!("{dot}{text}"));
        }
    }

    fn exit(&mut self) {
        self.depth -= 1;
        if self.depth > self.part_depth() || self.is_whole() {
            self.path.pop();
        }
        if self.depth == 0 {
            self.prefix = None;
        }
    }
}

/// Leaf paths, hashed once, because every call of a compiled step compares states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    hash: u64,
    list: Arc<[String]>,
}

impl Paths {
    pub(super) fn new(paths: impl Iterator<Item = String>) -> Paths {
        let list: Arc<[String]> = paths.collect();
        let mut hasher = rustc_hash::FxHasher::default();
        list.hash(&mut hasher);
        Paths { hash: hasher.finish(), list }
    }

    pub(super) fn of(leaves: &[Leaf]) -> Paths {
        Paths::new(leaves.iter().map(|leaf| leaf.path.clone()))
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
    /// Returns the number of updates: `i32[]`.
    pub fn count(&self) -> &Array {
        &self.count
    }

    /// Returns the names of the accumulators, such as `mu` and `nu` for Adam.
    pub fn accumulators(&self) -> impl Iterator<Item = &str> + '_ {
        let per_leaf = self.slots.iter().filter(|slot| slot.header.paths.is_some());
        per_leaf.map(|slot| slot.header.name.as_str())
    }

    /// Returns the array of an accumulator for the leaf at `path`, if both exist.
    ///
    /// If the accumulator of this name does not have the leaf, it is looked for in those that a
    /// chain numbers or that have a prefix, in order: `mu` also finds `mu_1` and `adam.mu`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let norm = |updates: &optim::Leaves| tree::norm(updates);
    /// let optimizer = optim::chain([
    ///     optim::snapshot("before", norm),
    ///     optim::clip_by_global_norm(1.0),
    ///     optim::snapshot("after", norm),
    /// ]);
    /// let w = array![3f32, 4.0];
    /// let (_, state) = optimizer.update(&w, &optimizer.init(&w), &w);
    /// assert_eq!(state.get("measurements", "before").unwrap().item::<f32>()?, 5.0);
    /// assert_eq!(state.get("measurements", "after").unwrap().item::<f32>()?, 1.0);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "tree_get_all_with_path")]
    pub fn get(&self, accumulator: &str, path: &str) -> Option<&Array> {
        let of_leaf = |slot: &'_ Slot| {
            let paths = slot.header.paths.as_ref()?;
            paths.list().iter().position(|leaf_path| leaf_path == path)
        };
        let exact = self.slots.iter().filter(|slot| slot.header.name == accumulator);
        let related = self.slots.iter().filter(|slot| slot.header.is_related(accumulator));
        exact.chain(related).find_map(|slot| slot.values.get(of_leaf(slot)?))
    }

    /// Returns the arrays of an accumulator for all trained leaves, if it exists.
    #[doc(alias = "tree_get")]
    pub fn accumulator(&self, name: &str, parameters: &Leaves) -> Option<Leaves> {
        let arrays = parameters.iter().map(|(path, _)| self.get(name, path).cloned());
        let arrays = arrays.collect::<Option<Vec<Array>>>()?;
        Some(Leaves::from_parts(parameters.paths().clone(), arrays))
    }

    /// Sets an array that does not belong to a leaf, such as `learning_rate` of a line search.
    ///
    /// Throws `Tree` if there is none of this name, or its type differs.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let optimizer = optim::multi_steps(optim::sgd(0.1), 4);
    /// let mut state = optimizer.init(&ones([2]));
    /// state.set_value("mini_step", &scalar(3));
    /// assert_eq!(state.value("mini_step").unwrap().item::<i32>()?, 3);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "tree_set")]
    #[track_caller]
    pub fn set_value(&mut self, name: &str, value: &Array) {
        let loc = Loc::caller();
        let is_it = |slot: &Slot| slot.header.paths.is_none() && slot.header.name == name;
        let Some(index) = self.slots.iter().position(is_it) else {
            let message = format!("the state does not have a value `{name}`");
            throw_tree("", message, "`tree::paths(&state)` lists the names", loc);
        };
        let old = &mut self.slots[index].values[0];
        expect_type(name, old, value, loc);
        *old = convert_element_type(value, old.dtype());
    }

    /// Sets the array of an accumulator for the leaf at `path`.
    ///
    /// Throws `Tree` if one of both does not exist, or its type differs.
    #[track_caller]
    pub fn set(&mut self, accumulator: &str, path: &str, value: &Array) {
        let loc = Loc::caller();
        let found = self.slots.iter().enumerate().find_map(|(i, slot)| {
            let paths = slot.header.paths.as_ref().filter(|_| slot.header.name == accumulator)?;
            Some((i, paths.list().iter().position(|leaf| leaf == path)?))
        });
        let Some((slot, index)) = found else {
            let message = format!("the state does not have an accumulator `{accumulator}` of it");
            throw_tree(path, message, "`tree::paths(&state)` lists the names", loc);
        };
        let old = &mut self.slots[slot].values[index];
        expect_type(path, old, value, loc);
        *old = convert_element_type(value, old.dtype());
    }

    /// Returns an array that does not belong to a leaf: `last_finite`, `notfinite_count`,
    /// `mini_step`.
    ///
    /// If there is none of this name, it is one with a number or a prefix, as in `adam.count`.
    pub fn value(&self, name: &str) -> Option<&Array> {
        let mut singles = self.slots.iter().filter(|slot| slot.header.paths.is_none());
        let exact = singles.clone().find(|slot| slot.header.name == name);
        let slot = exact.or_else(|| singles.find(|slot| slot.header.is_related(name)))?;
        slot.values.first()
    }

    /// Returns the current value of a [`hyperparam`](super::hyperparam()): `f32[]`.
    pub fn hyperparam(&self, name: &str) -> Option<&Array> {
        let outer = self.hyperparams.iter().find(|(other, _)| **other == *name);
        outer.map(|(_, value)| value).or_else(|| {
            let nested = self.slots.iter().find_map(|slot| Some((slot, slot.nested(name)?)));
            nested.map(|(slot, index)| &slot.values[index])
        })
    }

    /// Sets a [`hyperparam`](super::hyperparam()) for later updates, without recompiling the step.
    ///
    /// Throws `Tree` if the optimizer does not have a hyperparameter of that name.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let optimizer = optim::adamw(optim::hyperparam("learning_rate", 1e-3));
    /// let mut state = optimizer.init(&zeros([3]));
    /// state.set_hyperparam("learning_rate", 1e-4);
    /// ```
    #[track_caller]
    pub fn set_hyperparam(&mut self, name: &str, value: f64) {
        let names: Vec<&str> = self.hyperparams.iter().map(|(name, _)| &**name).collect();
        let index = names.iter().position(|other| *other == name);
        let nested = self.slots.iter().position(|slot| slot.nested(name).is_some());
        if let (None, Some(at)) = (index, nested) {
            let slot = &mut self.slots[at];
            let index = slot.nested(name).expect("the slot has it");
            slot.values[index] = number(value);
            return;
        }
        let Some(index) = index else {
            let message =
                format!("`{name}` is not a hyperparameter, there are [{}]", names.join(", "));
            let help = "give the optimizer `optim::hyperparam(name, value)` instead of the number";
            throw_tree("hyperparams", message, help, Loc::caller());
        };
        self.hyperparams[index].1 = number(value);
    }

    /// Returns the averages of [`params_ema`](super::params_ema) in the structure and dtypes of the
    /// model.
    ///
    /// Leaves that are not trained are those of `parameters`.
    ///
    /// Throws `Tree` if the state does not have an average for a trained leaf.
    #[track_caller]
    pub fn params_ema<T: Tree>(&self, parameters: &T) -> T {
        let loc = Loc::caller();
        let mut averages = Vec::new();
        for (path, leaf) in tree::paths(parameters).iter().zip(tree::leaves(parameters)) {
            averages.push(match self.get("params_ema", path) {
                Some(average) => convert_element_type(average, leaf.dtype()),
                None if !leaf.dtype().is_inexact() => leaf,
                None => {
                    let message = "the state does not have an average of it".to_owned();
                    throw_tree(path, message, "chain `optim::params_ema(decay)` at the end", loc)
                }
            });
        }
        super::leaves::rebuild(parameters, averages)
    }
}

/// Throws unless a new value has the shape and the kind of dtype of the old one.
fn expect_type(path: &str, old: &Array, new: &Array, loc: Loc) {
    let same_kind = old.dtype().is_inexact() == new.dtype().is_inexact();
    if old.shape() != new.shape() || !same_kind {
        let message = format!("it is {}, the new value {}", old.aval(), new.aval());
        throw_tree(path, message, "keep the shape and the kind of dtype", loc);
    }
}

/// Converts a number to the dtype of numbers in the state.
#[track_caller]
pub(super) fn number(value: f64) -> Array {
    convert_element_type(&full([], value), DType::F32)
}

/// The name that a [`State`] has as a node of a tree.
const STATE: &str = "State";

impl Tree for State {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name(STATE));
        visitor.enter(PathKey::Field("count"));
        visitor.leaf(&self.count);
        visitor.exit();
        visitor.tag(Tag::Len(self.hyperparams.len()));
        if !self.hyperparams.is_empty() {
            visitor.enter(PathKey::Field("hyperparams"));
            for (name, value) in &self.hyperparams {
                visitor.tag(Tag::Static(name));
                visitor.enter(PathKey::Entry(name));
                visitor.leaf(value);
                visitor.exit();
            }
            visitor.exit();
        }
        visitor.tag(Tag::Len(self.slots.len()));
        for slot in &self.slots {
            visitor.tag(Tag::Static(&slot.header));
            visitor.enter(PathKey::Entry(&slot.header.name));
            match &slot.header.paths {
                None => slot.values.iter().for_each(|value| visitor.leaf(value)),
                Some(paths) => {
                    for (path, value) in paths.list().iter().zip(&slot.values) {
                        // A model that is one array has no name below the accumulator's.
                        if path.is_empty() {
                            visitor.leaf(value);
                            continue;
                        }
                        visitor.enter(PathKey::Entry(path));
                        visitor.leaf(value);
                        visitor.exit();
                    }
                }
            }
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> State {
        let count = self.count.unflatten(leaves);
        let mut hyperparams = self.hyperparams.clone();
        for (_, value) in &mut hyperparams {
            *value = value.unflatten(leaves);
        }
        let slots = self.slots.iter().map(|slot| Slot {
            header: slot.header.clone(),
            values: slot.values.unflatten(leaves),
        });
        State { count, hyperparams, slots: slots.collect() }
    }
}
