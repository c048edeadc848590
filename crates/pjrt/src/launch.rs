//! Serialization of launches on several CPU devices.
//!
//! A collective on CPU blocks a thread of the client's pool on every device until all devices have
//! arrived. With many launches in flight, the pool runs out of threads before the last device of
//! the oldest launch gets one, and the process deadlocks. For this reason a launch on more than one
//! CPU device waits until the previous launch has finished on all devices.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::event::Event;

/// Admits one launch at a time.
#[derive(Default)]
pub(crate) struct LaunchGate {
    /// Number of devices that have not finished the last launch.
    running: Mutex<usize>,
    finished: Condvar,
}

impl LaunchGate {
    /// Waits until the last launch has finished on every device, then starts a launch that
    /// completes `count` events.
    pub(crate) fn launch<T>(
        self: &Arc<Self>,
        count: usize,
        start: impl FnOnce() -> Result<T>,
        events: impl FnOnce(&T) -> &[Event],
    ) -> Result<T> {
        let mut running = self.lock();
        while *running > 0 {
            running = self.finished.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        let launched = start()?;
        *running = count;
        // An event that has already completed runs its callback immediately, and the callback takes
        // the lock.
        drop(running);
        for event in events(&launched) {
            let gate = Arc::clone(self);
            if event.on_ready(move |_| gate.finish_one()).is_err() {
                // If a plugin does not support callbacks, wait for the event; the caller receives
                // the event's error.
                let waited = event.wait();
                self.finish_one();
                waited?;
            }
        }
        Ok(launched)
    }

    fn finish_one(&self) {
        *self.lock() -= 1;
        self.finished.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
