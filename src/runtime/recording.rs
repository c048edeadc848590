//! The setting that failing calls are recorded: a folder and a limit.

use super::config::RuntimeConfig;
use super::evaluator::is_nan_checked;
use crate::core::scoped::scoped;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Settings of [`record_failures_with`](crate::replay::record_failures_with).
///
/// ```
/// use oxidax::replay::RecordOptions;
/// let options = RecordOptions::new("failures").limit(3);
/// assert_eq!(options.limit, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordOptions {
    /// The folder of the recordings. It is created when the first one is written.
    pub folder: PathBuf,
    /// The largest number of recordings in the folder; later failures are not recorded.
    pub limit: usize,
}

impl RecordOptions {
    /// The limit of [`RecordOptions::new`].
    const LIMIT: usize = 16;

    /// Records at most 16 failures in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> RecordOptions {
        RecordOptions { folder: folder.into(), limit: RecordOptions::LIMIT }
    }

    /// Sets the largest number of recordings in the folder.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> RecordOptions {
        self.limit = limit;
        self
    }
}

scoped!(
    /// The setting of a scope.
    static SCOPE: Option<Arc<RecordOptions>> = None
);

/// The setting of the process.
static PROCESS: Mutex<Option<Arc<RecordOptions>>> = Mutex::new(None);

/// The state of [`PROCESS`]: the environment has not been read, nothing is recorded, or failures
/// are.
static STATE: AtomicU8 = AtomicU8::new(UNREAD);
const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Runs `f` with failures on this thread recorded.
pub(crate) fn with_recording<R>(options: RecordOptions, f: impl FnOnce() -> R) -> R {
    SCOPE.scope(Some(Arc::new(options)), f)
}

/// Sets whether failures on all threads are recorded.
pub(crate) fn set_recording(options: Option<RecordOptions>) {
    let state = if options.is_some() { ON } else { OFF };
    *PROCESS.lock().unwrap_or_else(PoisonError::into_inner) = options.map(Arc::new);
    STATE.store(state, Ordering::Release);
}

/// Returns the setting on this thread, if failures are recorded.
pub(crate) fn recording() -> Option<Arc<RecordOptions>> {
    if let Some(options) = SCOPE.get() {
        return Some(options);
    }
    is_process_recording()
        .then(|| PROCESS.lock().unwrap_or_else(PoisonError::into_inner).clone())
        .flatten()
}

/// Returns the setting of the process.
pub(crate) fn process_recording() -> Option<RecordOptions> {
    if !is_process_recording() {
        return None;
    }
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner).as_deref().cloned()
}

/// Returns true if failures on this thread are recorded.
#[inline]
pub(crate) fn is_recording() -> bool {
    SCOPE.with(Option::is_some) || is_process_recording()
}

#[inline]
fn is_process_recording() -> bool {
    match STATE.load(Ordering::Acquire) {
        UNREAD => read_environment(),
        state => state == ON,
    }
}

#[cold]
fn read_environment() -> bool {
    // An invalid variable is reported when the client is created.
    let config = RuntimeConfig::from_env().ok();
    let folder = config.and_then(|config| config.record_failures);
    let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    // The program may have set it in the meantime.
    if STATE.load(Ordering::Acquire) == UNREAD {
        let state = if folder.is_some() { ON } else { OFF };
        *process = folder.map(|folder| Arc::new(RecordOptions::new(folder)));
        STATE.store(state, Ordering::Release);
    }
    STATE.load(Ordering::Acquire) == ON
}

/// Returns true if calls keep their arguments, because the program may be evaluated again or
/// recorded.
#[inline]
pub(crate) fn keeps_arguments() -> bool {
    is_nan_checked() || is_recording()
}
