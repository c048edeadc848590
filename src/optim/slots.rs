//! Access of transformations to the optimizer's state.

use super::extra_args::ExtraArgs;
use super::leaves::{Leaf, expect_same_paths, throw_tree};
use super::schedule::{Hyperparams, Schedule};
use super::state::{Header, Paths, Slot, SlotKind, StatePart};
use crate::core::{Array, Aval, DType, Loc, Scalar, Shape};
use crate::primitives::{convert_element_type, fill_of, minimum, pow};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// One transformation of a chain: changes updates, and may have slots in the state.
pub(super) trait Transformation: fmt::Debug + Send + Sync {
    /// Creates its slots, with [`Slots::create`].
    fn init(&self, _leaves: &[Leaf], _memory: &mut Slots<'_>) {}

    /// Changes the updates. Takes the slots that `init` created, in that order, and puts the same
    /// number of slots.
    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>);

    /// Visits its schedules, including those of inner transformations.
    fn schedules(&self, _visit: &mut dyn FnMut(&Schedule)) {}
}

/// The transformations of a chain, in order.
pub(super) type Links = Arc<[Arc<dyn Transformation>]>;

/// The step, as transformations see it.
pub(super) struct Step<'a> {
    /// The number of updates before this one.
    pub(super) before: &'a Array,
    /// The number of updates, this one included.
    pub(super) count: Array,
    pub(super) hyperparams: Hyperparams<'a>,
    /// Further arguments of the update.
    pub(super) extra: &'a ExtraArgs<'a>,
    corrections: RefCell<Vec<(u64, DType, Array)>>,
}

impl<'a> Step<'a> {
    pub(super) fn after(
        before: &'a Array,
        hyperparams: Hyperparams<'a>,
        extra: &'a ExtraArgs<'a>,
    ) -> Step<'a> {
        let (count, corrections) = (next_count(before), RefCell::default());
        Step { before, count, hyperparams, extra, corrections }
    }

    /// Returns the value of a schedule at this step.
    pub(super) fn rate(&self, schedule: &Schedule) -> Rate {
        match schedule.constant() {
            Some(number) => Rate::Number(number),
            None => Rate::Array(schedule.value_with(self.before, self.hyperparams)),
        }
    }

    /// Corrects the bias of a mean that started at zero: `mean / (1 - decay^count)`.
    pub(super) fn debias(&self, mean: &Array, decay: f64) -> Array {
        self.debias_at(mean, decay, &self.count)
    }

    /// Corrects the bias of a mean at another count.
    pub(super) fn debias_at(&self, mean: &Array, decay: f64, count: &Array) -> Array {
        // The power of the decay needs more digits than the mean: 0.999 is 1 in bf16.
        let wide = if mean.dtype().real() == DType::F64 { DType::F64 } else { DType::F32 };
        // Corrections at the count of this step are computed once.
        let is_current = std::ptr::eq(count, &self.count);
        let mut cache = self.corrections.borrow_mut();
        let cached = cache
            .iter()
            .find(|(bits, dtype, _)| is_current && *bits == decay.to_bits() && *dtype == wide);
        let correction = match cached {
            Some((_, _, correction)) => correction.clone(),
            None => {
                let correction = 1.0 - power(decay, count, wide);
                if is_current {
                    cache.push((decay.to_bits(), wide, correction.clone()));
                }
                correction
            }
        };
        mean / convert_element_type(&correction, mean.dtype())
    }
}

/// Returns `base^count` in `dtype`.
pub(super) fn power(base: f64, count: &Array, dtype: DType) -> Array {
    let base = fill_of(Scalar::Float(base), &Aval::new(dtype, Shape::scalar()));
    pow(&base, convert_element_type(count, dtype))
}

/// Returns an array that is not weakly typed. A state that starts with weak types has strong ones
/// after a step, so that a compiled step would be compiled twice.
fn strong(value: &Array) -> Array {
    if value.aval().weak { convert_element_type(value, value.dtype()) } else { value.clone() }
}

/// Returns the next count. It saturates, so that the bias correction of a very long run stays 1.
pub(super) fn next_count(count: &Array) -> Array {
    minimum(count, i32::MAX - 1) + 1
}

/// A number at this step: a constant of the program, or an array.
#[derive(Clone, Debug)]
pub(super) enum Rate {
    Number(f64),
    Array(Array),
}

impl Rate {
    /// Multiplies `x` by the number, in the dtype of `x`.
    pub(super) fn times(&self, x: &Array) -> Array {
        match self {
            Rate::Number(number) => x * *number,
            Rate::Array(array) => x * convert_element_type(array, x.dtype()),
        }
    }

    pub(super) fn negated(self) -> Rate {
        match self {
            Rate::Number(number) => Rate::Number(-number),
            Rate::Array(array) => Rate::Array(-array),
        }
    }
}

/// The slots of a state before and after a step. Transformations take and put theirs in the same
/// order.
pub(super) struct Slots<'a> {
    before: &'a [Slot],
    taken: usize,
    after: Vec<Slot>,
    scope: String,
    pub(super) loc: Loc,
}

impl<'a> Slots<'a> {
    pub(super) fn new(before: &'a [Slot], loc: Loc) -> Slots<'a> {
        Slots { before, taken: 0, after: Vec::new(), scope: String::new(), loc }
    }

    pub(super) fn finish(self) -> Vec<Slot> {
        self.after
    }

    /// Runs `f` with the prefix `scope.` for names of slots.
    pub(super) fn within<R>(&mut self, scope: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.scope.clone();
        self.scope = format!("{outer}{scope}.");
        let result = f(self);
        self.scope = outer;
        result
    }

    /// Returns the number of slots put so far.
    pub(super) fn put_count(&self) -> usize {
        self.after.len()
    }

    /// Replaces the slots put since position `from` by a function of their values before and after.
    pub(super) fn revise(&mut self, from: usize, f: impl Fn(&Array, &Array) -> Array) {
        for (after, before) in self.after[from..].iter_mut().zip(&self.before[from..]) {
            for (after, before) in after.values.iter_mut().zip(&before.values) {
                *after = f(before, after);
            }
        }
    }

    /// Replaces the value of a slot of one array that was put at a position.
    pub(super) fn replace_single(&mut self, position: usize, value: Array) {
        self.after[position].values[0] = value;
    }

    /// Returns a unique name for a new slot: `name`, or `name_1`, `name_2` and so on.
    fn unique_name(&self, name: &str, slots: &[Slot]) -> String {
        let first = format!("{}{name}", self.scope);
        let is_free = |name: &String| slots.iter().all(|slot| slot.header.name != *name);
        let numbered = (1..).map(|n| format!("{first}_{n}"));
        let free = std::iter::once(first.clone()).chain(numbered).find(is_free);
        free.expect("there are more numbers than slots")
    }

    /// Creates a slot with one array for each of these leaves.
    pub(super) fn create<'l>(
        &mut self,
        name: &str,
        leaves: impl IntoIterator<Item = &'l Leaf>,
        f: impl Fn(&Leaf) -> Array,
    ) {
        let leaves: Vec<&Leaf> = leaves.into_iter().collect();
        let name = self.unique_name(name, &self.after);
        let paths = Some(Paths::new(leaves.iter().map(|leaf| leaf.path.clone())));
        let values = leaves.into_iter().map(|leaf| strong(&f(leaf))).collect();
        self.after.push(Slot { header: Arc::new(Header { name, paths }), values });
    }

    /// Creates a slot with one array.
    pub(super) fn create_single(&mut self, name: &str, value: Array) {
        let name = self.unique_name(name, &self.after);
        self.after.push(Slot {
            header: Arc::new(Header { name, paths: None }),
            values: vec![strong(&value)],
        });
    }

    /// Takes the next slot, whose arrays have the shapes of the leaves.
    pub(super) fn take(&mut self, name: &str, leaves: &[Leaf]) -> Vec<Array> {
        self.take_shaped(name, leaves, |leaf| leaf.parameter.shape().clone())
    }

    /// Takes the next slot, whose arrays have the shapes returned by `shape`.
    pub(super) fn take_shaped<'l>(
        &mut self,
        name: &str,
        leaves: impl IntoIterator<Item = &'l Leaf>,
        shape: impl Fn(&Leaf) -> Shape,
    ) -> Vec<Array> {
        let leaves: Vec<&Leaf> = leaves.into_iter().collect();
        let slot = self.next(name, SlotKind::PerLeaf);
        let paths: Vec<String> = leaves.iter().map(|leaf| leaf.path.clone()).collect();
        let slot_paths = slot.header.paths.as_ref().expect("`next` checks the kind");
        expect_same_paths(&paths, slot_paths.list(), "the state", self.loc);
        for (leaf, value) in leaves.iter().zip(&slot.values) {
            if shape(leaf) != *value.shape() {
                let (parameter, value) = (leaf.parameter.aval(), value.aval());
                let name = &slot.header.name;
                let message = format!("the parameter is {parameter}, the state's `{name}` {value}");
                let help = "create the state with `init` of the same model";
                throw_tree(&leaf.path, message, help, self.loc);
            }
        }
        slot.values.clone()
    }

    /// Creates a slot with the paths and values of a part of a typed state.
    pub(super) fn create_part(&mut self, part: &StatePart, values: &[Array]) {
        let name = self.unique_name(&part.name, &self.after);
        let header = Arc::new(Header { name, paths: part.paths.clone() });
        self.after.push(Slot { header, values: values.iter().map(strong).collect() });
    }

    /// Takes the next slot, which must have the paths and types of a part of a typed state.
    pub(super) fn take_part(&mut self, part: &StatePart, template: &[Array]) -> Vec<Array> {
        let kind = if part.paths.is_some() { SlotKind::PerLeaf } else { SlotKind::Single };
        let slot = self.next(&part.name, kind);
        if let (Some(paths), Some(slot_paths)) = (&part.paths, &slot.header.paths) {
            expect_same_paths(paths.list(), slot_paths.list(), "the state", self.loc);
        }
        self.expect_types(part, &slot.header.name, template, &slot.values, "the state has");
        slot.values.clone()
    }

    /// Puts the values of a part of a typed state, whose shapes must not have changed.
    pub(super) fn put_part(&mut self, part: &StatePart, values: Vec<Array>) {
        let before = &self.before[self.after.len()];
        let name = &before.header.name;
        self.expect_types(part, name, &before.values, &values, "the update returned");
        self.put(values);
    }

    fn expect_types(
        &self,
        part: &StatePart,
        name: &str,
        expected: &[Array],
        actual: &[Array],
        description: &str,
    ) {
        for (i, (expected, actual)) in expected.iter().zip(actual).enumerate() {
            let same_kind = expected.dtype().is_inexact() == actual.dtype().is_inexact();
            if expected.shape() != actual.shape() || !same_kind {
                let path = part.paths.as_ref().map_or("", |paths| paths.list()[i].as_str());
                let (expected, actual) = (expected.aval(), actual.aval());
                let message = format!("`{name}` starts as {expected}, {description} {actual}");
                let help = "keep the shapes of the state that `init` returns, and create the \
                            state with `init` of the same model";
                throw_tree(path, message, help, self.loc);
            }
        }
    }

    /// Takes the next slot, of one array.
    pub(super) fn take_single(&mut self, name: &str) -> Array {
        self.next(name, SlotKind::Single).values[0].clone()
    }

    fn next(&mut self, name: &str, kind: SlotKind) -> &'a Slot {
        let name = self.unique_name(name, &self.before[..self.taken]);
        let slot = self.before.get(self.taken);
        let Some(slot) = slot.filter(|slot| slot.header.name == name && slot.header.kind() == kind)
        else {
            let names: Vec<&str> =
                self.before.iter().map(|slot| slot.header.name.as_str()).collect();
            let names = names.join(", ");
            let message = format!("the optimizer needs `{name}`, the state has [{names}]");
            throw_tree("", message, "create the state with `init` of the same optimizer", self.loc);
        };
        self.taken += 1;
        slot
    }

    /// Puts the values of a slot after the step, converted to its dtypes. Slots are put in the
    /// order in which they were taken.
    pub(super) fn put(&mut self, values: Vec<Array>) {
        let before = &self.before[self.after.len()];
        let pairs = values.iter().zip(&before.values);
        let values = pairs.map(|(value, old)| convert_element_type(value, old.dtype())).collect();
        self.after.push(Slot { header: before.header.clone(), values });
    }

    /// Puts the value of a slot of one array.
    pub(super) fn put_single(&mut self, value: Array) {
        self.put(vec![value]);
    }
}
