//! Launches on several CPU devices, one at a time.
//!
//! A collective on CPU blocks a thread of the client's pool on every device until all devices have
//! arrived. With enough launches in flight the pool runs out of threads before the last device of
//! the oldest launch gets one, and everything hangs. So a launch on more than one CPU device waits
//! until the one before it has finished everywhere.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::event::Event;

/// Lets one launch at a time through.
#[derive(Default)]
pub(crate) struct LaunchGate {
    /// Devices that have not finished the last launch.
    running: Mutex<usize>,
    finished: Condvar,
}

impl LaunchGate {
    /// Waits until the last launch has finished on every device, then starts one that will finish
    /// `count` events.
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
        // An event that has happened already runs its callback at once, which takes the lock.
        drop(running);
        for event in events(&launched) {
            let gate = Arc::clone(self);
            if event.on_ready(move |_| gate.finish_one()).is_err() {
                // A plugin that takes no callbacks can still be waited for; the caller sees the
                // event's own error.
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
