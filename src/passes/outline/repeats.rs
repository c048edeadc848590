//! [`find`]: periodic runs of equations.

use super::units::Units;
use super::{MIN_COPIES, MIN_EQUATIONS};
use crate::core::{Program, Var};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The number of equations whose hashes together vote for a period.
const WINDOW: usize = 8;

/// The number of periods that are tried, those with most votes first.
const PERIODS: usize = 32;

/// A run of equations that repeats with a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// The index of the first equation of the first copy.
    pub(super) start: usize,
    /// The number of equations of a copy.
    pub(super) period: usize,
    /// The number of copies.
    pub(super) count: usize,
}

impl Repeat {
    /// Returns the indices of the first equation of each copy.
    pub(super) fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |copy| self.start + copy * self.period)
    }

    /// Returns the number of equations that need not be compiled.
    fn saved(self, units: &Units) -> usize {
        let first = self.start + self.period;
        units.weight(first..first + (self.count - 1) * self.period)
    }
}

/// Returns the repeats of a program, those that save most first. They may overlap.
pub(super) fn find(program: &Program, units: &Units) -> Vec<Repeat> {
    let mut found = Vec::new();
    let crossings = Crossings::of(program);
    for period in periods(units) {
        for (start, end) in runs(&units.hashes, period) {
            let is_large = units.weight(start..start + period) >= MIN_EQUATIONS;
            if is_large && (end - start) / period >= MIN_COPIES {
                found.push(crossings.divide(start, end, period));
            }
        }
    }
    found.sort_by_key(|repeat| (Reverse(repeat.saved(units)), repeat.period, repeat.start));
    found
}

/// Returns distances at which sequences of equations repeat, the most frequent first.
fn periods(units: &Units) -> Vec<usize> {
    let mut votes: FxHashMap<usize, usize> = FxHashMap::default();
    let mut last: FxHashMap<u64, usize> = FxHashMap::default();
    let mut vote = |key: u64, index: usize, weight: usize| {
        if let Some(previous) = last.insert(key, index) {
            *votes.entry(index - previous).or_default() += weight;
        }
    };
    let hashes = &units.hashes;
    for (index, window) in hashes.windows(WINDOW).enumerate() {
        let fold = |key: u64, hash: &u64| key.rotate_left(7).wrapping_mul(0x9e37_79b9) ^ hash;
        vote(window.iter().fold(WINDOW as u64, fold), index, 1);
    }
    // A layer that is one equation with a program.
    for (index, &hash) in hashes.iter().enumerate() {
        let weight = units.weight(index..index + 1);
        if weight >= MIN_EQUATIONS {
            vote(hash, index, weight);
        }
    }
    let mut periods: Vec<(usize, usize)> = votes.into_iter().collect();
    periods.sort_unstable_by_key(|&(period, votes)| (Reverse(votes), period));
    periods.into_iter().take(PERIODS).map(|(period, _)| period).collect()
}

/// Returns the maximal ranges of equations in which each equals the one a period later.
fn runs(hashes: &[u64], period: usize) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut start = 0;
    for index in 0..hashes.len() {
        let repeats = hashes.get(index + period).is_some_and(|later| *later == hashes[index]);
        if !repeats {
            if index > start {
                runs.push((start, index + period));
            }
            start = index + 1;
        }
    }
    runs
}

/// The uses of each equation's results.
struct Crossings<'a> {
    program: &'a Program,
    /// The equation that defines each variable; `None` for an input.
    definitions: Vec<Option<usize>>,
}

impl<'a> Crossings<'a> {
    fn of(program: &'a Program) -> Crossings<'a> {
        Crossings { program, definitions: definitions(program) }
    }

    /// Divides a run into copies at the phase where the fewest values pass from one copy to the
    /// next. Of those, takes the one with most copies.
    fn divide(&self, start: usize, end: usize, period: usize) -> Repeat {
        // All copies are equal, so one boundary of each phase is looked at, in the middle.
        let middle = start + ((end - start) / period / 2) * period;
        let at = |phase: usize| Repeat {
            start: start + phase,
            period,
            count: (end - start - phase) / period,
        };
        let counts = self.crossing(middle - period, middle, period);
        let phases = (0..period).filter(|&phase| at(phase).count >= MIN_COPIES);
        let best = phases.min_by_key(|&phase| (counts[phase], Reverse(at(phase).count), phase));
        at(best.unwrap_or(0))
    }

    /// Returns for each phase the number of values that are defined in the copy before the boundary
    /// `middle + phase` and used in the copy after it.
    fn crossing(&self, first: usize, middle: usize, period: usize) -> Vec<usize> {
        // A value crosses every boundary between its definition and its last use nearby.
        let mut last_use: FxHashMap<Var, usize> = FxHashMap::default();
        let end = (middle + 2 * period).min(self.program.eqns().len());
        for index in first..end {
            for &var in &self.program.eqns()[index].operands {
                let near = |&at: &usize| at >= first && index - at <= period;
                if self.definitions[var as usize].filter(near).is_some() {
                    last_use.insert(var, index);
                }
            }
        }
        let mut change = vec![0_isize; period + 1];
        for (var, used) in last_use {
            let Some(defined) = self.definitions[var as usize] else { continue };
            let from = (defined + 1).max(middle) - middle;
            let to = (used + 1).max(middle) - middle;
            let (from, to) = (from.min(period), to.min(period));
            change[from] += 1;
            change[to] -= 1;
        }
        let mut open = 0;
        let counts = change[..period].iter().map(|change| {
            open += change;
            usize::try_from(open).unwrap_or(0)
        });
        counts.collect()
    }
}

/// Returns the equation that defines each variable; `None` for an input.
pub(super) fn definitions(program: &Program) -> Vec<Option<usize>> {
    let mut definitions = vec![None; program.avals().len()];
    for (index, eqn) in program.eqns().iter().enumerate() {
        for &var in &eqn.results {
            definitions[var as usize] = Some(index);
        }
    }
    definitions
}
