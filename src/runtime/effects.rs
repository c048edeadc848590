//! Executions whose unordered prints and callbacks may still run.

use super::client::runtime_error;
use crate::core::host_function::{refuse_inside, take_contained_failure};
use crate::core::spans::{EventKind, Span};
use crate::core::{Error, Loc, Program};
use oxidax_pjrt::Event;
use std::sync::{Arc, Mutex, PoisonError};

/// A launch that has not been waited for.
struct Running {
    name: String,
    events: Vec<Event>,
    host_functions: Vec<u64>,
}

/// The launches since the last [`effects_barrier`].
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// Number of launches that are kept before those that have succeeded are dropped.
const LAUNCHES: usize = 32;

/// Number of launches that are kept at all. Beyond it the oldest is waited for.
const MAX_LAUNCHES: usize = 4096;

impl Running {
    fn has_succeeded(&self) -> bool {
        self.events.iter().all(|event| {
            event.is_ready().is_ok_and(|ready| ready) && event.error().is_ok_and(|e| e.is_none())
        })
    }

    fn wait(self) -> Result<(), Error> {
        let outcomes: Vec<_> = self.events.iter().map(Event::wait).collect();
        if let Some(error) = take_contained_failure(&self.host_functions) {
            return Err(error);
        }
        let failed = |error| runtime_error(format!("executing {}", self.name), &error);
        outcomes.into_iter().collect::<oxidax_pjrt::Result<()>>().map_err(failed)
    }
}

/// Launches that may call closures of this process, and the programs that hold those.
static HELD: Mutex<Vec<(Arc<Program>, Vec<Event>)>> = Mutex::new(Vec::new());

/// Keeps the closures of a program alive until a launch has finished: the executable may be
/// dropped earlier, as that of a `jit` whose results are read later.
pub(super) fn hold(closures: Arc<Program>, events: Vec<Event>) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.push((closures, events));
    let is_due = held.len().is_multiple_of(LAUNCHES);
    drop(held);
    if is_due {
        release_finished();
    }
}

/// Drops the closures of launches that have finished.
pub(super) fn release_finished() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let is_running = |event: &Event| !event.is_ready().unwrap_or(true);
    let (running, finished): (Vec<_>, Vec<_>) = std::mem::take(&mut *held)
        .into_iter()
        .partition(|(_, events)| events.iter().any(is_running));
    *held = running;
    drop(held);
    // Closures run arbitrary code when they are dropped, so the list is not locked any more.
    drop(finished);
}

/// Records a launch of a program with unordered effects.
pub(super) fn record(name: &str, events: Vec<Event>, host_functions: &[u64]) {
    let launch = Running { name: name.into(), events, host_functions: host_functions.to_vec() };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.push(launch);
    if running.len().is_multiple_of(LAUNCHES) {
        running.retain(|launch| !launch.has_succeeded());
    }
    if running.len() > MAX_LAUNCHES {
        let oldest = running.remove(0);
        drop(running);
        // Its error is also that of its results.
        drop(oldest.wait());
    }
}

/// Waits until all unordered prints and callbacks of the calls so far have run.
///
/// # Errors
/// The first error of a program with unordered effects since the last barrier, which a callback or
/// the program itself may have caused. Reading the program's results returns it too.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| {
///     debug::print("x = {}", [&x]);
///     x
/// });
/// f.call(ones([2]))?;
/// effects_barrier()?;
/// println!("printed after the line above");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.effects_barrier")]
#[track_caller]
pub fn effects_barrier() -> Result<(), Error> {
    let loc = Loc::caller();
    let _span = Span::at(EventKind::Wait, loc, || "effects_barrier");
    refuse_inside("waiting for callbacks").map_err(|error| error.at(loc))?;
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    // Waits for all of them, also after an error.
    let outcomes: Vec<Result<(), Error>> = running.into_iter().map(Running::wait).collect();
    release_finished();
    outcomes.into_iter().collect::<Result<(), Error>>().map_err(|error| error.at(loc))
}
