//! [`ProfileSession`]: a profile that is being recorded.

use super::recorded::Profile;
use crate::core::spans::{AlreadyRecording, Recording};
use crate::core::{Error, Loc, OpErrorKind, trace};
use crate::runtime::{start_plugin_profilers, stop_plugin_profilers};

/// A profile that is being recorded in memory, until [`stop`](ProfileSession::stop).
///
/// Events of all threads are recorded, also of threads that end before. Plugins with a profiler, as
/// those of TPUs and GPUs, record their devices at the same time. One profile is recorded at a
/// time. Dropping the session discards it.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile::{EventKind, ProfileSession};
/// let f = jit(|x: Array| sin(&x));
/// let session = ProfileSession::start()?;
/// f.call(ones([3]))?;
/// let profile = session.stop();
/// assert!(profile.events().any(|event| event.kind == EventKind::Compile));
/// println!("{profile}");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a session discards the profile"]
pub struct ProfileSession(Option<Recording>);

impl ProfileSession {
    /// Starts to record.
    ///
    /// # Errors
    /// `Op` (value) if a profile is being recorded already, with the line that started it.
    #[track_caller]
    pub fn start() -> Result<ProfileSession, Error> {
        ProfileSession::start_for("ProfileSession::start")
    }

    /// Starts to record for the function `name`. Also starts the profilers of plugins.
    #[track_caller]
    pub(super) fn start_for(name: &str) -> Result<ProfileSession, Error> {
        let loc = Loc::caller();
        let refused = |AlreadyRecording(running): AlreadyRecording| {
            let message = format!("a profile that {running} started is being recorded");
            error(name, OpErrorKind::Value, message, loc, "stop it first, or drop its session")
        };
        let recording = Recording::start(loc, system_id).map_err(refused)?;
        start_plugin_profilers();
        Ok(ProfileSession(Some(recording)))
    }

    /// Stops recording and returns the profile. Work that is under way, such as a batch that a
    /// thread prefetches, ends in it now and has the argument `unfinished`.
    pub fn stop(mut self) -> Profile {
        let recording = self.0.take().expect("it is taken here only");
        let profile = Profile::new(recording.stop());
        profile.with_plugins(stop_plugin_profilers())
    }
}

impl Drop for ProfileSession {
    fn drop(&mut self) {
        if self.0.is_some() {
            drop(stop_plugin_profilers());
        }
    }
}

/// Returns the number of this thread in the operating system, where Linux tells it.
fn system_id() -> Option<i64> {
    // The link is to `PROCESS/task/THREAD`.
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

/// Returns an error of a function of this module.
pub(super) fn error(name: &str, kind: OpErrorKind, message: String, loc: Loc, help: &str) -> Error {
    trace::op_error(kind, name, message, loc).with_help(help)
}
