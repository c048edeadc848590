//! Which leaves a transformation is for.

use super::leaves::{Leaf, throw_tree};
use super::memory::{Memory, Rule, Rules, Step};
use super::optimizer::{Optimizer, init_all, update_all};
use super::schedule::Schedule;
use crate::core::Aval;
use crate::tree;
use std::fmt;
use std::sync::Arc;

/// Which leaves of a model, by path and type.
///
/// ```
/// use oxidax::prelude::*;
/// let bias = optim::Mask::paths(["*.bias", "*norm*"]);
/// let numbers = optim::Adam { weight_decay: 0.1, ..optim::Adam::new(3e-4) };
/// let optimizer = numbers.decay_where(bias.not().and(optim::Mask::min_rank(2)));
/// ```
#[derive(Clone)]
pub struct Mask(Arc<Pick>);

/// Whether a leaf of this path and type belongs to a mask.
type Pick = dyn Fn(&str, &Aval) -> bool + Send + Sync;

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask(..)")
    }
}

impl Mask {
    /// The leaves for which `f`, given path and type, is true.
    pub fn new(f: impl Fn(&str, &Aval) -> bool + Send + Sync + 'static) -> Mask {
        Mask(Arc::new(f))
    }

    /// Every leaf.
    pub fn all() -> Mask {
        Mask::new(|_, _| true)
    }

    /// The leaves whose path fits one of the patterns: `*` stands for any text, dots and brackets
    /// included, or none; everything else for itself.
    pub fn paths<S: Into<String>>(patterns: impl IntoIterator<Item = S>) -> Mask {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        Mask::new(move |path, _| {
            patterns.iter().any(|pattern| tree::captures(pattern, path).is_some())
        })
    }

    /// The leaves with at least `rank` axes: `min_rank(2)` leaves out biases and scales.
    pub fn min_rank(rank: usize) -> Mask {
        Mask::new(move |_, aval| aval.rank() >= rank)
    }

    /// The other leaves.
    #[allow(clippy::should_implement_trait, reason = "a chain of words reads better than `!mask`")]
    pub fn not(self) -> Mask {
        Mask::new(move |path, aval| !(self.0)(path, aval))
    }

    /// The leaves of both.
    pub fn and(self, other: Mask) -> Mask {
        Mask::new(move |path, aval| (self.0)(path, aval) && (other.0)(path, aval))
    }

    /// The leaves of either.
    pub fn or(self, other: Mask) -> Mask {
        Mask::new(move |path, aval| (self.0)(path, aval) || (other.0)(path, aval))
    }

    /// Whether a leaf is one of them.
    pub fn contains(&self, path: &str, aval: &Aval) -> bool {
        (self.0)(path, aval)
    }

    pub(super) fn picks(&self, leaf: &Leaf) -> bool {
        self.contains(&leaf.path, leaf.parameter.aval())
    }
}

/// `inner` for the leaves that `mask` picks; the updates of the others pass through unchanged, and nothing
/// is remembered for them.
///
/// ```
/// use oxidax::prelude::*;
/// // The embedding stays as it is.
/// let frozen = optim::masked(optim::set_to_zero(), optim::Mask::paths(["embed.*"]));
/// let optimizer = optim::adamw(1e-3).chain(frozen);
/// ```
pub fn masked(inner: Optimizer, mask: Mask) -> Optimizer {
    let rules = inner.rules().clone();
    Optimizer::one(Partition { parts: vec![Part { name: None, mask, rules }], complete: false })
}

/// An optimizer for each group of leaves: a leaf goes to the first part whose mask picks it. The parts' names
/// begin the names of their accumulators.
///
/// `init` and `update` throw `Tree`, naming the leaf, if no part picks a trained leaf; let the last be for
/// [`Mask::all`].
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::partition([
///     ("frozen", optim::Mask::paths(["embed.*"]), optim::set_to_zero()),
///     ("matrices", optim::Mask::min_rank(2), optim::lion(1e-4)),
///     ("rest", optim::Mask::all(), optim::adam(1e-3)),
/// ]);
/// # drop(optimizer);
/// ```
#[doc(alias = "multi_transform")]
pub fn partition<S: Into<String>>(
    parts: impl IntoIterator<Item = (S, Mask, Optimizer)>,
) -> Optimizer {
    let parts = parts.into_iter().map(|(name, mask, optimizer)| Part {
        name: Some(name.into()),
        mask,
        rules: optimizer.rules().clone(),
    });
    Optimizer::one(Partition { parts: parts.collect(), complete: true })
}

#[derive(Debug)]
struct Partition {
    parts: Vec<Part>,
    /// Whether every leaf must have a part.
    complete: bool,
}

#[derive(Debug)]
struct Part {
    name: Option<String>,
    mask: Mask,
    rules: Rules,
}

impl Part {
    /// Runs `f` with the names of slots that are this part's.
    fn within<R>(&self, memory: &mut Memory<'_>, f: impl FnOnce(&mut Memory<'_>) -> R) -> R {
        match &self.name {
            Some(name) => memory.within(name, |memory| f(memory)),
            None => f(memory),
        }
    }
}

impl Partition {
    /// The positions of each part's leaves.
    fn groups(&self, leaves: &[Leaf], memory: &Memory<'_>) -> Vec<Vec<usize>> {
        let mut groups = vec![Vec::new(); self.parts.len()];
        for (at, leaf) in leaves.iter().enumerate() {
            match self.parts.iter().position(|part| part.mask.picks(leaf)) {
                Some(part) => groups[part].push(at),
                None if self.complete => {
                    let names = self.parts.iter().flat_map(|part| part.name.as_deref());
                    let names = names.collect::<Vec<_>>().join(", ");
                    let message = format!("no part of the partition takes it: [{names}]");
                    let help = "let the last part be for `Mask::all()`";
                    throw_tree(&leaf.path, message, help, memory.place);
                }
                None => {}
            }
        }
        groups
    }
}

impl Rule for Partition {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        let groups = self.groups(leaves, memory);
        for (part, group) in self.parts.iter().zip(groups) {
            let some: Vec<Leaf> = group.iter().map(|&at| leaves[at].clone()).collect();
            part.within(memory, |memory| init_all(&part.rules, &some, memory));
        }
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let groups = self.groups(leaves, memory);
        for (part, group) in self.parts.iter().zip(groups) {
            let mut some: Vec<Leaf> = group.iter().map(|&at| leaves[at].clone()).collect();
            part.within(memory, |memory| update_all(&part.rules, step, &mut some, memory));
            for (at, leaf) in group.into_iter().zip(some) {
                leaves[at] = leaf;
            }
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        for rule in self.parts.iter().flat_map(|part| part.rules.iter()) {
            rule.schedules(visit);
        }
    }
}
