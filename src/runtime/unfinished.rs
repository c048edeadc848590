//! Programs on several devices that have not finished, for reports of steps that do not end.

use super::compiler_report::CompilerReport;
use super::sharded_buffer::Launch;
use crate::core::spans::{innermost_loc, is_tracked_work};
use crate::core::{Loc, Mesh};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of launches that are remembered. More are rarely under way: a device runs one after the
/// other.
const LAUNCHES: usize = 16;

/// A launch of a program on several devices.
pub(crate) struct UnfinishedLaunch {
    /// The compiled program.
    pub(crate) report: CompilerReport,
    /// The mesh that it runs on.
    pub(crate) mesh: Mesh,
    /// The line that called it.
    pub(crate) loc: Loc,
    since: Instant,
    launch: Arc<Launch>,
}

static LAUNCHED: Mutex<VecDeque<Arc<UnfinishedLaunch>>> = Mutex::new(VecDeque::new());

fn launched() -> MutexGuard<'static, VecDeque<Arc<UnfinishedLaunch>>> {
    // The list is valid at every point at which a thread could panic.
    LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a launch, if work is tracked.
pub(super) fn note(launch: &Arc<Launch>, mesh: &Mesh, report: impl FnOnce() -> CompilerReport) {
    if !is_tracked_work() {
        return;
    }
    let (loc, since) = (innermost_loc(), Instant::now());
    let launch = launch.clone();
    let noted = UnfinishedLaunch { report: report(), mesh: mesh.clone(), loc, since, launch };
    let mut launched = launched();
    while launched.len() >= LAUNCHES || launched.front().is_some_and(|first| first.is_finished()) {
        launched.pop_front();
    }
    launched.push_back(Arc::new(noted));
}

/// Returns the launches that have not finished, the first one first.
pub(crate) fn unfinished_launches() -> Vec<Arc<UnfinishedLaunch>> {
    let mut launched = launched();
    launched.retain(|launch| !launch.is_finished());
    launched.iter().cloned().collect()
}

impl UnfinishedLaunch {
    fn is_finished(&self) -> bool {
        self.launch.unfinished_devices() == 0
    }

    /// Returns the number of devices of this process that have not finished, and of all its devices
    /// that run it.
    pub(crate) fn devices(&self) -> (usize, usize) {
        (self.launch.unfinished_devices(), self.launch.events().len())
    }

    /// Returns the time since it was launched.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}
