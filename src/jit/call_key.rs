//! [`CallKey`]: the key under which a `Jit` finds its compiled programs.

use crate::core::trace::TraceScope;
use crate::core::{Array, Error, Placement, RecompilationCause};
use crate::runtime::{CompileScope, committed_placement};
use crate::tree::{Signature, Walk, leaves_of, rooted};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// The scoped settings that the compiled program of a call depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CallScope {
    trace: TraceScope,
    pub(super) compile: CompileScope,
}

impl CallScope {
    /// Returns the settings of this thread.
    pub(super) fn current() -> Result<CallScope, Error> {
        Ok(CallScope { trace: TraceScope::current(), compile: CompileScope::current()? })
    }

    /// Returns the settings that differ from earlier ones.
    fn changes_since(self, earlier: CallScope) -> Vec<RecompilationCause> {
        let settings = |scope: CallScope| {
            let mut settings = scope.trace.settings();
            settings.extend(scope.compile.settings());
            settings
        };
        let pairs = settings(earlier).into_iter().zip(settings(self));
        pairs
            .filter(|((_, old), (_, new))| old != new)
            .map(|((_, old), (name, new))| RecompilationCause::Setting {
                name: name.to_string(),
                old,
                new,
            })
            .collect()
    }
}

/// The cache key of a compiled program.
#[derive(Clone)]
pub(super) struct CallKey {
    pub(super) signature: Signature,
    pub(super) scope: CallScope,
    /// The placement that each leaf is committed to. Empty if none is committed.
    committed: Vec<Option<Placement>>,
    /// The hash of the signature and the scope.
    hash: u64,
}

impl CallKey {
    /// Returns the key of a call with these arguments.
    pub(super) fn of(arguments: &impl Walk, scope: CallScope) -> CallKey {
        let committed = committed_placements(&leaves_of(arguments));
        let (signature, hash) = (Signature::of(arguments), hash_of_call(arguments, scope));
        CallKey { signature, scope, committed, hash }
    }

    /// Returns the hash of the signature and the scope, by which the cache finds it.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the hash of the whole key, with the placements.
    pub(super) fn full_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.hash, &self.committed).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if the key is that of a call with these arguments, whose leaves have these
    /// placements.
    pub(super) fn matches(
        &self,
        arguments: &impl Walk,
        scope: CallScope,
        committed: &[Option<Placement>],
    ) -> bool {
        self.scope == scope && self.committed == committed && self.signature.matches(arguments)
    }

    /// Returns true if the keys are equal.
    pub(super) fn equals(&self, other: &CallKey) -> bool {
        self.hash == other.hash
            && self.scope == other.scope
            && self.committed == other.committed
            && self.signature.changes_since(&other.signature).is_empty()
    }

    /// Returns the differences to an earlier key.
    pub(super) fn changes_since(&self, earlier: &CallKey) -> Vec<RecompilationCause> {
        let mut causes = self.signature.changes_since(&earlier.signature);
        let committed = |key: &CallKey| -> FxHashMap<String, Option<String>> {
            let paths = key.signature.paths().iter().enumerate();
            paths
                .map(|(leaf, path)| {
                    let placement = key.committed.get(leaf).and_then(Option::as_ref);
                    (path.clone(), placement.map(ToString::to_string))
                })
                .collect()
        };
        let before = committed(earlier);
        let now = committed(self);
        for path in self.signature.paths() {
            if let (Some(old), Some(new)) = (before.get(path), now.get(path))
                && old != new
            {
                let (path, old, new) = (rooted(path), old.clone(), new.clone());
                // A changed memory or explicit sharding changes the placement too.
                let is_reported = causes.iter().any(|cause| match cause {
                    RecompilationCause::Placement { leaf, .. }
                    | RecompilationCause::Memory { leaf, .. } => *leaf == path,
                    _ => false,
                });
                if !is_reported {
                    causes.push(RecompilationCause::Placement { leaf: path, old, new });
                }
            }
        }
        causes.extend(self.scope.changes_since(earlier.scope));
        causes
    }
}

/// Returns the placement that each leaf is committed to; empty if none is.
pub(super) fn committed_placements(leaves: &[Array]) -> Vec<Option<Placement>> {
    let placements: Vec<_> = leaves.iter().map(committed_placement).collect();
    if placements.iter().all(Option::is_none) { Vec::new() } else { placements }
}

/// Returns the hash of a key.
pub(super) fn hash_of_call(arguments: &impl Walk, scope: CallScope) -> u64 {
    let mut hasher = FxHasher::default();
    Signature::hash_of(arguments, &mut hasher);
    scope.hash(&mut hasher);
    hasher.finish()
}
