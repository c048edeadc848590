//! [`ProfileSession`]: a profile that is being recorded.

use super::recorded::Profile;
use crate::core::spans::{AlreadyRecording, Recording};
use crate::core::{Error, Loc, OpErrorKind, trace};
use crate::runtime::{ProfilerOptions, start_plugin_profilers, stop_plugin_profilers};

/// The detail of what the profilers of plugins record, as those of TPUs and GPUs. The events of
/// this library are always recorded.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile::{ProfileOptions, ProfileSession};
/// let devices_alone = ProfileOptions { host_tracer_level: 0, ..ProfileOptions::default() };
/// let session = ProfileSession::start_with(devices_alone)?;
/// let y = sin(&ones([3]));
/// assert!(session.stop().events().count() > 0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// The plugin's work on the host: 0 for none, 1 for critical work, 2 for important work, 3 for
    /// everything. 2 by default.
    pub host_tracer_level: u32,
    /// The devices: 0 for none, 1 for all operations. 1 by default.
    pub device_tracer_level: u32,
    /// Adds the optimized programs, from which viewers compute rates. True by default.
    pub enable_hlo_proto: bool,
}

impl Default for ProfileOptions {
    fn default() -> ProfileOptions {
        let ProfilerOptions { host_level, device_level, with_programs } =
            ProfilerOptions::default();
        ProfileOptions {
            host_tracer_level: host_level,
            device_tracer_level: device_level,
            enable_hlo_proto: with_programs,
        }
    }
}

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
        ProfileSession::start_for("ProfileSession::start", ProfileOptions::default())
    }

    /// As [`start`](Self::start), with options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn start_with(options: ProfileOptions) -> Result<ProfileSession, Error> {
        ProfileSession::start_for("ProfileSession::start_with", options)
    }

    /// Starts to record for the function `name`. Also starts the profilers of plugins.
    #[track_caller]
    pub(super) fn start_for(name: &str, options: ProfileOptions) -> Result<ProfileSession, Error> {
        let loc = Loc::caller();
        let refused = |AlreadyRecording(running): AlreadyRecording| {
            let message = format!("a profile that {running} started is being recorded");
            error(name, OpErrorKind::Value, message, loc, "stop it first, or drop its session")
        };
        let recording = Recording::start(loc, system_id).map_err(refused)?;
        start_plugin_profilers(ProfilerOptions {
            host_level: options.host_tracer_level,
            device_level: options.device_tracer_level,
            with_programs: options.enable_hlo_proto,
        });
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
