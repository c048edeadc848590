//! Masks and partitions of leaves.

use super::leaves::{Leaf, throw_tree};
use super::optimizer::{Optimizer, init_all, update_all};
use super::schedule::Schedule;
use super::slots::{Links, Slots, Step, Transformation};
use crate::core::Aval;
use crate::tree;
use std::fmt;
use std::sync::Arc;

/// A set of leaves of a model, chosen by path and type.
///
/// ```
/// use oxidax::prelude::*;
/// let bias = optim::Mask::paths(["*.bias", "*norm*"]);
/// let mask = bias.not().and(optim::Mask::min_rank(2));
/// let optimizer = optim::adamw_with(3e-4, optim::AdamWOptions { mask, ..Default::default() });
/// ```
#[derive(Clone)]
pub struct Mask(Arc<Predicate>);

/// Returns true if a leaf of this path and type belongs to a mask.
type Predicate = dyn Fn(&str, &Aval) -> bool + Send + Sync;

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask(..)")
    }
}

impl Mask {
    /// Creates the mask of leaves for whose path and type `f` returns true.
    pub fn new(f: impl Fn(&str, &Aval) -> bool + Send + Sync + 'static) -> Mask {
        Mask(Arc::new(f))
    }

    /// Returns the mask of all leaves.
    pub fn all() -> Mask {
        Mask::new(|_, _| true)
    }

    /// Creates the mask of leaves whose paths match one of the patterns.
    ///
    /// `*` matches any text, including dots, brackets and the empty text.
    pub fn paths<S: Into<String>>(patterns: impl IntoIterator<Item = S>) -> Mask {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        Mask::new(move |path, _| {
            patterns.iter().any(|pattern| tree::captures(pattern, path).is_some())
        })
    }

    /// Creates the mask of leaves with at least `rank` axes. `min_rank(2)` excludes biases and
    /// scales.
    pub fn min_rank(rank: usize) -> Mask {
        Mask::new(move |_, aval| aval.rank() >= rank)
    }

    /// Returns the mask of all other leaves.
    #[allow(clippy::should_implement_trait, reason = "`mask.not().and(other)` reads in order")]
    pub fn not(self) -> Mask {
        Mask::new(move |path, aval| !(self.0)(path, aval))
    }

    /// Returns the intersection of two masks.
    pub fn and(self, other: Mask) -> Mask {
        Mask::new(move |path, aval| (self.0)(path, aval) && (other.0)(path, aval))
    }

    /// Returns the union of two masks.
    pub fn or(self, other: Mask) -> Mask {
        Mask::new(move |path, aval| (self.0)(path, aval) || (other.0)(path, aval))
    }

    /// Returns true if the mask contains a leaf.
    pub fn contains(&self, path: &str, aval: &Aval) -> bool {
        (self.0)(path, aval)
    }

    pub(super) fn contains_leaf(&self, leaf: &Leaf) -> bool {
        self.contains(&leaf.path, leaf.parameter.aval())
    }
}

/// Applies `inner` to the leaves in `mask`. Other updates are unchanged and have no state.
///
/// ```
/// use oxidax::prelude::*;
/// // Freeze the embedding.
/// let frozen = optim::masked(optim::set_to_zero(), optim::Mask::paths(["embed.*"]));
/// let optimizer = optim::adamw(1e-3).chain(frozen);
/// ```
pub fn masked(inner: Optimizer, mask: Mask) -> Optimizer {
    let links = inner.links().clone();
    let parts = vec![PartitionPart { name: None, mask, links }];
    Optimizer::one(Partition { parts, is_complete: false })
}

/// Sets the updates of the leaves of a mask to zero.
pub fn freeze(mask: Mask) -> Optimizer {
    masked(super::set_to_zero(), mask)
}

/// Applies an optimizer to all leaves but those of `freeze_mask`, whose updates are zero.
///
/// The accumulators have the prefix `train`.
///
/// ```
/// use oxidax::prelude::*;
/// let embedding = optim::Mask::paths(["embed.*"]);
/// let optimizer = optim::selective_transform(optim::adamw(1e-3), embedding);
/// # drop(optimizer);
/// ```
pub fn selective_transform(inner: Optimizer, freeze_mask: Mask) -> Optimizer {
    partition([("freeze", freeze_mask, super::set_to_zero()), ("train", Mask::all(), inner)])
}

/// Applies an optimizer to each group of leaves. A leaf belongs to the first part whose mask
/// contains it.
///
/// The name of a part is the prefix of the names of its accumulators.
///
/// `init` and `update` throw `Tree`, naming the leaf, if no part contains a trained leaf. Use
/// [`Mask::all`] for the last part.
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
    let parts = parts.into_iter().map(|(name, mask, optimizer)| PartitionPart {
        name: Some(name.into()),
        mask,
        links: optimizer.links().clone(),
    });
    Optimizer::one(Partition { parts: parts.collect(), is_complete: true })
}

#[derive(Debug)]
struct Partition {
    parts: Vec<PartitionPart>,
    /// Every leaf must belong to a part.
    is_complete: bool,
}

#[derive(Debug)]
struct PartitionPart {
    name: Option<String>,
    mask: Mask,
    links: Links,
}

impl PartitionPart {
    /// Runs `f` with the name of this part as the prefix of slots.
    fn within<R>(&self, slots: &mut Slots<'_>, f: impl FnOnce(&mut Slots<'_>) -> R) -> R {
        match &self.name {
            Some(name) => slots.within(name, |slots| f(slots)),
            None => f(slots),
        }
    }
}

impl Partition {
    /// Returns the positions of the leaves of each part.
    fn groups(&self, leaves: &[Leaf], slots: &Slots<'_>) -> Vec<Vec<usize>> {
        let mut groups = vec![Vec::new(); self.parts.len()];
        for (i, leaf) in leaves.iter().enumerate() {
            match self.parts.iter().position(|part| part.mask.contains_leaf(leaf)) {
                Some(part) => groups[part].push(i),
                None if self.is_complete => {
                    let names = self.parts.iter().flat_map(|part| part.name.as_deref());
                    let names = names.collect::<Vec<_>>().join(", ");
                    let message = format!("no part of the partition contains it: [{names}]");
                    let help = "use `Mask::all()` for the last part";
                    throw_tree(&leaf.path, message, help, slots.loc);
                }
                None => {}
            }
        }
        groups
    }
}

impl Transformation for Partition {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        let groups = self.groups(leaves, slots);
        for (part, group) in self.parts.iter().zip(groups) {
            let members: Vec<Leaf> = group.iter().map(|&i| leaves[i].clone()).collect();
            part.within(slots, |slots| init_all(&part.links, &members, slots));
        }
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let groups = self.groups(leaves, slots);
        for (part, group) in self.parts.iter().zip(groups) {
            let mut members: Vec<Leaf> = group.iter().map(|&i| leaves[i].clone()).collect();
            part.within(slots, |slots| update_all(&part.links, step, &mut members, slots));
            for (i, leaf) in group.into_iter().zip(members) {
                leaves[i] = leaf;
            }
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        for link in self.parts.iter().flat_map(|part| part.links.iter()) {
            link.schedules(visit);
        }
    }
}
