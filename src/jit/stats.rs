//! [`JitStats`]: counts and times of a compiled function.

use crate::core::Cache;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts and times of one [`Jit`](super::Jit) since it was created.
///
/// The time of calls themselves is not measured, because two readings of a clock per call would
/// cost more than some calls: profiles have it ([`profile::trace`](crate::profile::trace)).
///
/// ```
/// use oxidax::prelude::*;
/// let sum = jit(|x: Array| x.sum());
/// sum.call(ones([4]))?;
/// let stats = sum.stats();
/// println!("{:?} {:?} {:?}", stats.trace_time, stats.lower_time, stats.compile_time);
/// assert!(stats.compile_seconds() > 0.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "metrics_report")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitStats {
    /// Calls outside of a trace.
    pub calls: u64,
    /// Times the function was traced.
    pub traces: u64,
    /// Executables created: compiled, or loaded from disk.
    pub compiles: u64,
    /// Executables loaded from disk ([`cache`](crate::jit::cache)).
    pub loaded: u64,
    /// Calls that found their signature in the cache.
    pub hits: u64,
    /// Calls that did not find it.
    pub misses: u64,
    /// Signatures in the cache now.
    pub signatures: usize,
    /// The largest number of signatures: [`Jit::cache_size`](super::Jit::cache_size).
    pub limit: usize,
    /// Signatures dropped because the cache was full.
    pub evictions: u64,
    /// Leaves passed by value that could not be donated, because something else held them.
    pub not_donated: u64,
    /// Leaves that were transferred to another placement before a call.
    pub transferred: u64,
    /// Bytes of those leaves, and of captured arrays that were transferred when the function was
    /// compiled. Of an array on several devices, the bytes of the whole array.
    pub bytes_transferred: u64,
    /// Time spent tracing: running the function to record it, and deciding placements.
    pub trace_time: Duration,
    /// Time spent lowering: writing StableHLO.
    pub lower_time: Duration,
    /// Time spent in the plugin's compiler.
    pub compile_time: Duration,
    /// Time spent loading executables from disk, instead of compiling them.
    pub load_time: Duration,
}

impl JitStats {
    /// Returns the seconds from functions to executables: tracing, lowering, compiling, loading.
    pub fn compile_seconds(&self) -> f64 {
        let time = self.trace_time + self.lower_time + self.compile_time + self.load_time;
        time.as_secs_f64()
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    /// Signatures that `compile_ahead` did not find.
    pub(super) ahead: AtomicU64,
    pub(super) traces: AtomicU64,
    pub(super) compiles: AtomicU64,
    pub(super) loaded: AtomicU64,
    /// Calls under `disable_jit`, which look up no signature.
    pub(super) interpreted: AtomicU64,
    pub(super) not_donated: AtomicU64,
    pub(super) transferred: AtomicU64,
    pub(super) bytes_transferred: AtomicU64,
    pub(super) trace_nanos: AtomicU64,
    pub(super) lower_nanos: AtomicU64,
    pub(super) compile_nanos: AtomicU64,
    pub(super) load_nanos: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn add_time(counter: &AtomicU64, time: Duration) {
        Counters::add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Combines these counters with the cache's.
    pub(super) fn snapshot<K, V>(&self, cache: &Cache<K, V>) -> JitStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let calls = read(&self.calls);
        let misses = cache.misses().saturating_sub(read(&self.ahead));
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
            transferred: read(&self.transferred),
            bytes_transferred: read(&self.bytes_transferred),
            trace_time: Duration::from_nanos(read(&self.trace_nanos)),
            lower_time: Duration::from_nanos(read(&self.lower_nanos)),
            compile_time: Duration::from_nanos(read(&self.compile_nanos)),
            load_time: Duration::from_nanos(read(&self.load_nanos)),
        }
    }
}
