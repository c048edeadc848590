//! How the links of a chain read what they remember, and write what they will.

use super::leaves::{Leaf, Place, expect_same_paths, throw_tree};
use super::schedule::{Hyperparams, Schedule};
use super::state::{Header, Paths, Slot};
use crate::core::{Array, Aval, DType, Scalar, Shape};
use crate::primitives::{convert_element_type, fill_of, minimum, pow};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// One link of a chain: changes updates, and may remember something between steps.
pub(super) trait Rule: fmt::Debug + Send + Sync {
    /// Writes what it remembers before the first update, by [`Memory::make`].
    fn init(&self, _leaves: &[Leaf], _memory: &mut Memory<'_>) {}

    /// Changes the updates. Takes from memory what `init` made, in that order, and keeps as many.
    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>);

    /// Shows the schedules that it follows, also those of links inside.
    fn schedules(&self, _visit: &mut dyn FnMut(&Schedule)) {}
}

/// Links in their order.
pub(super) type Rules = Arc<[Arc<dyn Rule>]>;

/// What every link of a chain may know of the step.
pub(super) struct Step<'a> {
    /// The updates made before this one.
    pub(super) before: &'a Array,
    /// The updates made, this one included.
    pub(super) count: Array,
    pub(super) hyperparams: Hyperparams<'a>,
    corrections: RefCell<Vec<(u64, DType, Array)>>,
}

impl<'a> Step<'a> {
    pub(super) fn after(before: &'a Array, hyperparams: Hyperparams<'a>) -> Step<'a> {
        Step { before, count: following(before), hyperparams, corrections: RefCell::default() }
    }

    /// What a schedule says for this step: `f32[]`.
    pub(super) fn rate(&self, schedule: &Schedule) -> Rate {
        match schedule.constant() {
            Some(number) => Rate::Number(number),
            None => Rate::Array(schedule.at(self.before, self.hyperparams)),
        }
    }

    /// `mean / (1 - decay^count)`: a mean that began at zero, of what has been filled of it.
    pub(super) fn debias(&self, mean: &Array, decay: f64) -> Array {
        self.debias_at(mean, decay, &self.count)
    }

    /// As `debias`, at another count.
    pub(super) fn debias_at(&self, mean: &Array, decay: f64, count: &Array) -> Array {
        // The powers of the decays need more digits than the moments: in bf16 0.999 is 1.
        let wide = if mean.dtype().real() == DType::F64 { DType::F64 } else { DType::F32 };
        let is_now = std::ptr::eq(count, &self.count);
        let mut known = self.corrections.borrow_mut();
        let found = known
            .iter()
            .find(|(bits, dtype, _)| is_now && *bits == decay.to_bits() && *dtype == wide);
        let correction = match found {
            Some((_, _, correction)) => correction.clone(),
            None => {
                let correction = 1.0 - power(decay, count, wide);
                if is_now {
                    known.push((decay.to_bits(), wide, correction.clone()));
                }
                correction
            }
        };
        mean / convert_element_type(&correction, mean.dtype())
    }
}

/// `base^count` in `dtype`.
pub(super) fn power(base: f64, count: &Array, dtype: DType) -> Array {
    let base = fill_of(Scalar::Float(base), &Aval::new(dtype, Shape::scalar()));
    pow(&base, convert_element_type(count, dtype))
}

/// The next count. Saturates, so that the bias correction of a very long run stays 1.
pub(super) fn following(count: &Array) -> Array {
    minimum(count, i32::MAX - 1) + 1
}

/// A number of this step: known while tracing, or not.
#[derive(Clone, Debug)]
pub(super) enum Rate {
    Number(f64),
    Array(Array),
}

impl Rate {
    /// `x` times the number, in `x`'s dtype.
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

/// The slots of a state: those before the step, of which each link takes its own, and those after.
pub(super) struct Memory<'a> {
    before: &'a [Slot],
    taken: usize,
    after: Vec<Slot>,
    scope: String,
    pub(super) place: Place,
}

impl<'a> Memory<'a> {
    pub(super) fn new(before: &'a [Slot], place: Place) -> Memory<'a> {
        Memory { before, taken: 0, after: Vec::new(), scope: String::new(), place }
    }

    pub(super) fn finish(self) -> Vec<Slot> {
        self.after
    }

    /// Runs `f` with the names of slots beginning with `scope` and a dot.
    pub(super) fn within<R>(&mut self, scope: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.scope.clone();
        self.scope = format!("{outer}{scope}.");
        let result = f(self);
        self.scope = outer;
        result
    }

    /// How many slots have been kept.
    pub(super) fn kept(&self) -> usize {
        self.after.len()
    }

    /// Replaces what was kept from position `from` on by a function of before and after.
    pub(super) fn revise(&mut self, from: usize, f: impl Fn(&Array, &Array) -> Array) {
        for (after, before) in self.after[from..].iter_mut().zip(&self.before[from..]) {
            for (after, before) in after.values.iter_mut().zip(&before.values) {
                *after = f(before, after);
            }
        }
    }

    /// The name of a new slot: another is found if `those` have it.
    fn name(&self, name: &str, those: &[Slot]) -> String {
        let first = format!("{}{name}", self.scope);
        let is_free = |name: &String| those.iter().all(|slot| slot.header.name != *name);
        let others = (1..).map(|n| format!("{first}_{n}"));
        let free = std::iter::once(first.clone()).chain(others).find(is_free);
        free.expect("there are more numbers than slots")
    }

    /// A slot with an array for each of these leaves.
    pub(super) fn make<'l>(
        &mut self,
        name: &str,
        leaves: impl IntoIterator<Item = &'l Leaf>,
        f: impl Fn(&Leaf) -> Array,
    ) {
        let leaves: Vec<&Leaf> = leaves.into_iter().collect();
        let name = self.name(name, &self.after);
        let paths = Some(Paths::new(leaves.iter().map(|leaf| leaf.path.clone())));
        let values = leaves.into_iter().map(f).collect();
        self.after.push(Slot { header: Arc::new(Header { name, paths }), values });
    }

    /// A slot with one array.
    pub(super) fn make_single(&mut self, name: &str, value: Array) {
        let name = self.name(name, &self.after);
        self.after
            .push(Slot { header: Arc::new(Header { name, paths: None }), values: vec![value] });
    }

    /// The next slot, whose arrays have the leaves' shapes.
    pub(super) fn take(&mut self, name: &str, leaves: &[Leaf]) -> Vec<Array> {
        self.take_shaped(name, leaves, |leaf| leaf.parameter.shape().clone())
    }

    /// The next slot, whose arrays have the shapes given.
    pub(super) fn take_shaped<'l>(
        &mut self,
        name: &str,
        leaves: impl IntoIterator<Item = &'l Leaf>,
        shape: impl Fn(&Leaf) -> Shape,
    ) -> Vec<Array> {
        let leaves: Vec<&Leaf> = leaves.into_iter().collect();
        let slot = self.next(name, true);
        let paths: Vec<String> = leaves.iter().map(|leaf| leaf.path.clone()).collect();
        let known = slot.header.paths.as_ref().expect("`next` looked for it");
        expect_same_paths(&paths, known.list(), "the state", self.place);
        for (leaf, value) in leaves.iter().zip(&slot.values) {
            if shape(leaf) != *value.shape() {
                let (parameter, value) = (leaf.parameter.aval(), value.aval());
                let name = &slot.header.name;
                let message = format!("the parameter is {parameter}, the state's `{name}` {value}");
                let help = "make the state with `init` of the same model";
                throw_tree(&leaf.path, message, help, self.place);
            }
        }
        slot.values.clone()
    }

    /// The next slot, of one array.
    pub(super) fn take_single(&mut self, name: &str) -> Array {
        self.next(name, false).values[0].clone()
    }

    fn next(&mut self, name: &str, per_leaf: bool) -> &'a Slot {
        let name = self.name(name, &self.before[..self.taken]);
        let found = self
            .before
            .get(self.taken)
            .filter(|slot| slot.header.name == name && slot.header.paths.is_some() == per_leaf);
        let Some(found) = found else {
            let names: Vec<&str> =
                self.before.iter().map(|slot| slot.header.name.as_str()).collect();
            let has = names.join(", ");
            let message = format!("the optimizer needs `{name}`, the state has [{has}]");
            throw_tree("", message, "make the state with `init` of the same optimizer", self.place);
        };
        self.taken += 1;
        found
    }

    /// What a slot taken before holds after the step, in its dtypes. Slots are kept in the order in which
    /// they were taken.
    pub(super) fn keep(&mut self, values: Vec<Array>) {
        let before = &self.before[self.after.len()];
        let pairs = values.iter().zip(&before.values);
        let values = pairs.map(|(value, old)| convert_element_type(value, old.dtype())).collect();
        self.after.push(Slot { header: before.header.clone(), values });
    }

    /// As `keep`, for a slot of one array.
    pub(super) fn keep_single(&mut self, value: Array) {
        self.keep(vec![value]);
    }
}
