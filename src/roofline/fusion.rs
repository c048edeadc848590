//! A simple model of fusion, which decides the values that are written to main memory.
//!
//! 1. Elementwise operations and data movement fuse with their producers and consumers, unless
//!    another operation is between the two.
//! 2. A reduction fuses with its producers. One matrix product fuses with its consumers.
//! 3. Constants and broadcasts are computed again wherever they are used.
//! 4. Each group reads each outside value once, and writes once each value that is used outside.

use super::device_costs::DeviceParts;
use crate::core::Access;
use crate::passes::{Region, Step};
use std::collections::HashMap;

/// The fusion groups of a region.
pub(super) struct Groups {
    /// The parent of each step in its group (union-find).
    parents: Vec<usize>,
    /// True for the root of a group that has a matrix product.
    has_product: Vec<bool>,
    /// The steps that read each value, directly or through constants and broadcasts.
    readers: Vec<Vec<usize>>,
}

impl Groups {
    pub(super) fn of(region: &Region) -> Groups {
        let n = region.steps.len();
        let mut groups = Groups {
            parents: (0..n).collect(),
            has_product: region.steps.iter().map(|step| step.contraction.is_some()).collect(),
            readers: vec![Vec::new(); region.avals.len()],
        };
        // The largest number of steps that do not fuse on a path to each step.
        let mut levels = vec![0_usize; n];
        for (at, step) in region.steps.iter().enumerate() {
            for source in sources(region, step) {
                groups.readers[source].push(at);
                if let Some(maker) = region.makers[source] {
                    let own = usize::from(!region.steps[maker].fuses());
                    levels[at] = levels[at].max(levels[maker] + own);
                }
            }
        }
        for (at, step) in region.steps.iter().enumerate() {
            let joins = step.fuses() || step.cost.access == Access::Reduction;
            if !joins || step.is_recomputed || !step.inner.is_empty() {
                continue;
            }
            for source in sources(region, step) {
                let Some(maker) = region.makers[source] else { continue };
                let (fuses, level) = (region.steps[maker].fuses(), levels[maker]);
                let product = region.steps[maker].contraction.is_some() && step.fuses();
                if fuses && level == levels[at] || product && level + 1 == levels[at] {
                    groups.join(maker, at);
                }
            }
        }
        // Recomputed steps do not belong to a group.
        for readers in &mut groups.readers {
            readers.retain(|&at| !region.steps[at].is_recomputed);
        }
        groups
    }

    /// Returns the bytes that each step reads and writes on one device, without held programs.
    pub(super) fn bytes(&self, region: &Region, shares: &DeviceParts) -> Vec<u64> {
        let mut bytes = vec![0; region.steps.len()];
        self.read(region, shares, &mut bytes);
        self.write(region, shares, &mut bytes);
        bytes
    }

    fn root(&self, mut at: usize) -> usize {
        while self.parents[at] != at {
            at = self.parents[at];
        }
        at
    }

    /// Joins two groups, unless both have a product.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b && !(self.has_product[a] && self.has_product[b]) {
            let (first, second) = (a.min(b), a.max(b));
            self.parents[second] = first;
            self.has_product[first] |= self.has_product[second];
        }
    }

    /// Adds the bytes that each group reads from outside to the first step that reads them.
    fn read(&self, region: &Region, shares: &DeviceParts, bytes: &mut [u64]) {
        let mut charged: HashMap<(usize, usize), u64> = HashMap::new();
        for (value, readers) in self.readers.iter().enumerate() {
            for &at in readers {
                let group = self.root(at);
                let from_within = region.makers[value].is_some_and(|m| self.root(m) == group);
                let is_operand = region.steps[at].operands.contains(&value);
                if from_within || !region.steps[at].inner.is_empty() {
                    continue;
                }
                // A slice reads at most the bytes of its result.
                let most = shares.read(region, at, value, region.bytes(value));
                let made = |&v: &usize| shares.held(v, region.bytes(v));
                let wanted = match region.steps[at].cost.access {
                    Access::Movement if is_operand => {
                        region.steps[at].results.iter().map(made).sum()
                    }
                    _ => most,
                };
                let so_far = charged.entry((group, value)).or_default();
                let more = wanted.min(most.saturating_sub(*so_far));
                *so_far += more;
                bytes[at] += more;
            }
        }
    }

    /// Adds the bytes of values that are used outside of their group to the step that computes
    /// them.
    fn write(&self, region: &Region, shares: &DeviceParts, bytes: &mut [u64]) {
        for (at, step) in region.steps.iter().enumerate() {
            if !step.inner.is_empty() {
                continue;
            }
            for &value in &step.results {
                let outside = |&reader: &usize| self.root(reader) != self.root(at);
                if region.outputs.contains(&value) || self.readers[value].iter().any(outside) {
                    // An update in place writes at most its own bytes.
                    bytes[at] += shares.held(value, region.bytes(value).min(step.cost.bytes));
                }
            }
        }
    }
}

/// Returns the values that a step reads, looking through constants and broadcasts.
fn sources(region: &Region, step: &Step) -> Vec<usize> {
    let mut found = Vec::new();
    let mut open = step.operands.clone();
    while let Some(value) = open.pop() {
        match region.makers[value] {
            Some(maker) if region.steps[maker].is_recomputed => {
                open.extend(&region.steps[maker].operands)
            }
            _ if found.contains(&value) => {}
            _ => found.push(value),
        }
    }
    found
}
