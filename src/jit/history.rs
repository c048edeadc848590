//! [`History`]: what a `Jit` has compiled, to explain why it compiles again.

use super::call_key::CallKey;
use crate::core::{CompileLimit, Loc, Recompilation, RecompilationCause};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// Number of compiled signatures that are compared with a new one.
const KEYS: usize = 32;
/// Number of compiled signatures that are recognized when they are compiled again.
const HASHES: usize = 4096;
/// Number of recompilations that are remembered.
const RECOMPILATIONS: usize = 64;
/// The recompilation of a `Jit` that is logged as a warning for the first time. Few are normal.
const STORM: u64 = 4;

/// A signature that was compiled.
struct CompiledKey {
    key: CallKey,
    /// The line that compiled it.
    loc: Loc,
}

/// The compilations of one `Jit`. Remembers a bounded number of them.
#[derive(Default)]
pub(super) struct History {
    /// The latest signatures.
    keys: VecDeque<CompiledKey>,
    /// Hashes of all signatures, until they are too many.
    hashes: FxHashSet<u64>,
    /// Number of programs that were compiled.
    compilations: u64,
    /// Number of different signatures.
    signatures: usize,
    /// Number of recompilations by calls.
    by_calls: u64,
    recompilations: VecDeque<Recompilation>,
}

/// The differences of a signature to the most similar earlier one.
pub(super) struct Differences {
    pub(super) causes: Vec<RecompilationCause>,
    /// The line that compiled the earlier signature.
    pub(super) earlier: Loc,
}

impl History {
    /// Returns the number of programs that were compiled.
    pub(super) fn compilations(&self) -> u64 {
        self.compilations
    }

    /// Returns the latest recompilations, oldest first.
    pub(super) fn recompilations(&self) -> Vec<Recompilation> {
        self.recompilations.iter().cloned().collect()
    }

    /// Returns the differences of a signature to the most similar one that was compiled before;
    /// `None` if there is none. `limit` is the number of signatures that are kept compiled.
    pub(super) fn differences(&self, key: &CallKey, limit: usize) -> Option<Differences> {
        let evicted =
            |earlier| Differences { causes: vec![RecompilationCause::Evicted { limit }], earlier };
        if let Some(same) = self.keys.iter().find(|other| other.key.equals(key)) {
            return Some(evicted(same.loc));
        }
        if self.hashes.contains(&key.full_hash()) {
            return Some(evicted(Loc::UNKNOWN));
        }
        let compared = self.keys.iter().rev().map(|other| {
            let causes = key.changes_since(&other.key);
            Differences { causes, earlier: other.loc }
        });
        compared.min_by_key(|differences| distance(&differences.causes))
    }

    /// Returns true if a call with this signature must not compile.
    pub(super) fn is_refused(&self, limit: CompileLimit, key: &CallKey) -> bool {
        match limit {
            CompileLimit::Sealed => self.compilations > 0,
            CompileLimit::MaxSpecializations(max) => {
                self.signatures >= max && !self.hashes.contains(&key.full_hash())
            }
        }
    }

    /// Remembers that a signature was compiled.
    pub(super) fn push(&mut self, key: &CallKey, loc: Loc) {
        self.compilations += 1;
        if self.hashes.len() >= HASHES {
            self.hashes.clear();
        }
        self.signatures += usize::from(self.hashes.insert(key.full_hash()));
        self.keys.retain(|other| !other.key.equals(key));
        if self.keys.len() >= KEYS {
            self.keys.pop_front();
        }
        self.keys.push_back(CompiledKey { key: key.clone(), loc });
    }

    /// Remembers a recompilation. Returns true if it is to be logged as a warning.
    pub(super) fn push_recompilation(&mut self, recompilation: &Recompilation) -> bool {
        if self.recompilations.len() >= RECOMPILATIONS {
            self.recompilations.pop_front();
        }
        self.recompilations.push_back(recompilation.clone());
        if recompilation.is_ahead {
            return false;
        }
        self.by_calls += 1;
        is_storm(self.by_calls)
    }
}

/// Returns true for the counts that are logged as warnings: 4, 8, 16, …. A loop that compiles at
/// each step is not logged at each.
pub(super) fn is_storm(count: u64) -> bool {
    count >= STORM && count.is_power_of_two()
}

/// The number of differences; a changed structure counts most.
fn distance(causes: &[RecompilationCause]) -> usize {
    let weight = |cause: &RecompilationCause| match cause {
        RecompilationCause::Structure { added, removed, .. } => 1000 + added.len() + removed.len(),
        _ => 1,
    };
    causes.iter().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_become_rarer() {
        let warned: Vec<u64> = (0..70).filter(|&count| is_storm(count)).collect();
        assert_eq!(warned, [4, 8, 16, 32, 64]);
    }
}
