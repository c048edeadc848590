//! Host functions that the first device of a mesh calls for all of them.
//!
//! The other devices make the same calls without a function, and soon wait for the first one in a
//! collective. XLA's CPU runtime (C API 0.115) ends the process when devices wait there for more
//! than a minute, and takes the limit only from variables of the whole process. So they wait here,
//! as long as the function runs.
//!
//! Calls of different devices are matched by counting. If the first device does not begin a call
//! that another one has reached, because its launch failed, the other continues after
//! [`BEGIN_LIMIT`].

use rustc_hash::FxHashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limit of the time for which a device waits until the first device begins its call.
pub(super) const BEGIN_LIMIT: Duration = Duration::from_secs(10);

/// The calls of one function on one number of devices.
type Key = (u64, usize);

/// Numbers of calls since all devices were last equal.
#[derive(Debug, Default)]
struct Counts {
    begun: u64,
    finished: u64,
    /// For each device that has called, by ordinal.
    others: FxHashMap<u32, u64>,
    /// Number of devices that wait. They compare their number with these.
    waiting: usize,
}

impl Counts {
    fn are_equal(&self, devices: usize) -> bool {
        self.waiting == 0
            && self.begun == self.finished
            && self.others.len() + 1 == devices
            && self.others.values().all(|&count| count == self.begun)
    }
}

/// The calls that some device has made, and others may still make.
#[derive(Debug, Default)]
pub(super) struct FirstDevice {
    calls: Mutex<FxHashMap<Key, Counts>>,
    changed: Condvar,
}

/// The calls of this process.
pub(super) static FIRST_DEVICE: FirstDevice = FirstDevice {
    calls: Mutex::new(FxHashMap::with_hasher(rustc_hash::FxBuildHasher)),
    changed: Condvar::new(),
};

/// A running function. Ends when it is dropped.
#[must_use]
pub(super) struct Running<'a> {
    first: &'a FirstDevice,
    key: Key,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut calls = self.first.lock();
        if let Some(counts) = calls.get_mut(&self.key) {
            counts.finished += 1;
            forget_equal(&mut calls, self.key);
        }
        drop(calls);
        self.first.changed.notify_all();
    }
}

/// Removes the counts of a function whose calls all devices have made.
fn forget_equal(calls: &mut FxHashMap<Key, Counts>, key: Key) {
    if calls.get(&key).is_some_and(|counts| counts.are_equal(key.1)) {
        calls.remove(&key);
    }
}

impl FirstDevice {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Key, Counts>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the first of `devices` devices begins a call.
    pub(super) fn begin(&self, function: u64, devices: usize) -> Running<'_> {
        let key = (function, devices);
        self.lock().entry(key).or_default().begun += 1;
        self.changed.notify_all();
        Running { first: self, key }
    }

    /// Waits on another device until the first one has finished the same call.
    pub(super) fn wait(&self, function: u64, devices: usize, ordinal: u32, limit: Duration) {
        let key = (function, devices);
        let mut calls = self.lock();
        let counts = calls.entry(key).or_default();
        counts.waiting += 1;
        let count = counts.others.entry(ordinal).or_default();
        *count += 1;
        let call = *count;
        let is_before = |calls: &FxHashMap<Key, Counts>, which: fn(&Counts) -> u64| {
            calls.get(&key).is_some_and(|counts| which(counts) < call)
        };
        let (guard, outcome) = self
            .changed
            .wait_timeout_while(calls, limit, |calls| is_before(calls, |counts| counts.begun))
            .unwrap_or_else(PoisonError::into_inner);
        calls = guard;
        if !outcome.timed_out() {
            calls = self
                .changed
                .wait_while(calls, |calls| is_before(calls, |counts| counts.finished))
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(counts) = calls.get_mut(&key) {
            counts.waiting -= 1;
            if outcome.timed_out() {
                counts.others.insert(ordinal, counts.begun);
            }
            forget_equal(&mut calls, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Runs `calls` calls on eight devices. Returns the number of calls that the other devices
    /// finished before the first one did.
    fn early(first: &FirstDevice, calls: u64) -> u64 {
        let (finished, early) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for ordinal in 1..8 {
                let (finished, early) = (&finished, &early);
                scope.spawn(move || {
                    for call in 1..=calls {
                        first.wait(7, 8, ordinal, Duration::MAX);
                        let is_early = finished.load(Ordering::SeqCst) < call;
                        early.fetch_add(u64::from(is_early), Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..calls {
                let running = first.begin(7, 8);
                std::thread::yield_now();
                finished.fetch_add(1, Ordering::SeqCst);
                drop(running);
            }
        });
        early.into_inner()
    }

    #[test]
    fn devices_wait_until_the_first_has_finished() {
        let first = FirstDevice::default();
        for _ in 0..20 {
            assert_eq!(early(&first, 50), 0);
            assert!(first.lock().is_empty());
        }
    }

    #[test]
    fn a_call_that_never_begins_is_not_waited_for() {
        let first = FirstDevice::default();
        first.wait(7, 2, 1, Duration::ZERO);
        // The next calls are matched again.
        drop(first.begin(7, 2));
        first.wait(7, 2, 1, Duration::MAX);
        assert!(first.lock().is_empty());
    }
}
