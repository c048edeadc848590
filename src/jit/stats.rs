//! What a compiled function has done so far.

use crate::core::Cache;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts and times of one [`Jit`](super::Jit), from its making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitStats {
    /// Calls at the top level.
    pub calls: u64,
    /// Times the function was traced.
    pub traces: u64,
    /// Executables made: compiled, or compiled before and loaded from disk.
    pub compiles: u64,
    /// Those of them that were loaded from disk ([`cache`](crate::jit::cache)).
    pub loaded: u64,
    /// Calls that found their signature in the cache.
    pub hits: u64,
    /// Calls that did not.
    pub misses: u64,
    /// Signatures in the cache now.
    pub signatures: usize,
    /// How many signatures there may be: [`Jit::cache_size`](super::Jit::cache_size).
    pub limit: usize,
    /// Signatures dropped because the cache was full.
    pub evictions: u64,
    /// Leaves passed by value that could not be donated, because something else held them.
    pub not_donated: u64,
    /// Leaves that had to be moved to another device or mesh, or spread otherwise, before a call.
    pub moved: u64,
    /// Time spent tracing and lowering.
    pub trace_time: Duration,
    /// Time spent in the compiler, or loading what it had made before.
    pub compile_time: Duration,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) traces: AtomicU64,
    pub(super) compiles: AtomicU64,
    pub(super) loaded: AtomicU64,
    /// Calls under `disable_jit`, which look for no signature.
    pub(super) interpreted: AtomicU64,
    pub(super) not_donated: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) trace_nanos: AtomicU64,
    pub(super) compile_nanos: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// What was counted, beside what the cache has counted itself.
    pub(super) fn snapshot<K, V>(&self, cache: &Cache<K, V>) -> JitStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (calls, misses) = (read(&self.calls), cache.misses());
        JitStats {
            calls,
            traces: read(&self.traces),
            compiles: read(&self.compiles),
            loaded: read(&self.loaded),
            hits: calls.saturating_sub(misses + read(&self.interpreted)),
            misses,
            signatures: cache.len(),
            limit: cache.capacity(),
            evictions: cache.evictions(),
            not_donated: read(&self.not_donated),
            moved: read(&self.moved),
            trace_time: Duration::from_nanos(read(&self.trace_nanos)),
            compile_time: Duration::from_nanos(read(&self.compile_nanos)),
        }
    }
}
