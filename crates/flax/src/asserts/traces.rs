//! Limits of the number of traces.

use super::failure::{fail_value, is_enabled};
use oxidax::core::Loc;
use oxidax::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often a function is traced.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::TraceCounter;
/// let traces = TraceCounter::new(1);
/// let counter = traces.clone();
/// let scale = jit(move |x: Array, factor: Array| {
///     counter.note(&x);
///     x * factor
/// });
/// scale.call(ones([2]), ones([]))?;
/// scale.call(ones([2]), ones([]))?; // compiled already
/// assert_eq!(traces.count(), 1);
/// assert!(scale.call(ones([3]), ones([])).is_err());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TraceCounter {
    limit: usize,
    count: Arc<AtomicUsize>,
}

impl TraceCounter {
    /// Creates a counter that allows this number of traces. Clones share the count.
    pub fn new(limit: usize) -> TraceCounter {
        TraceCounter { limit, count: Arc::new(AtomicUsize::new(0)) }
    }

    /// Counts a trace if `x`, an argument of the function, is traced.
    ///
    /// Throws `Op` (value) if there are more traces than allowed.
    #[track_caller]
    pub fn note(&self, x: &Array) {
        if !x.is_traced() || !is_enabled() {
            return;
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count > self.limit {
            let message = format!("trace {count} of a function that allows {}", self.limit);
            fail_value("assert_max_traces", message, &[x]);
        }
    }

    /// Returns the number of traces so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the number of traces to 0.
    #[doc(alias = "clear_trace_counter")]
    pub fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
    }
}

/// Returns the function, which throws `Op` (value) when it is traced more than `limit` times. The
/// error names the line that calls this function.
///
/// [`TraceCounter`] does the same in a function with several arguments.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::assert_max_traces;
/// let double = jit(assert_max_traces(1, |x: Array| x * 2.0));
/// assert!(double.call(ones([2])).is_ok());
/// assert!(double.call(ones([2])).is_ok());
/// let error = double.call(ones([3])).unwrap_err().to_string();
/// assert!(error.contains("trace 2 of a function that allows 1"));
/// assert!(!error.contains("traces.rs:8"));
/// ```
#[track_caller]
pub fn assert_max_traces<A: Tree, Y>(limit: usize, f: impl Fn(A) -> Y) -> impl Fn(A) -> Y {
    let (traces, loc) = (TraceCounter::new(limit), Loc::caller());
    move |x: A| {
        if let Some(leaf) = tree::leaves(&x).first() {
            loc.scope(|| traces.note(leaf));
        }
        f(x)
    }
}
