//! [`Profile`]: the events of a recording.

use super::folder::RunFolder;
use super::line_profile::LineProfile;
use super::plugin_space::PluginSpace;
use crate::core::spans::{EventKind, ProfileEvent, Recorded, RecordedThread, unix_nanos};
use crate::core::{Error, Loc};
use crate::runtime::PluginRecording;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The events that a [`ProfileSession`](super::ProfileSession) recorded.
///
/// Prints as a table of the work that took longest.
#[doc(alias = "ProfileData")]
#[derive(Clone, Debug)]
pub struct Profile {
    started: SystemTime,
    duration: Duration,
    threads: Vec<ThreadEvents>,
    plugins: Vec<PluginSpace>,
    devices: Vec<DeviceEvents>,
    lines: Option<LineProfile>,
}

/// The events of one thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadEvents {
    /// The thread's number, from 1, in the order in which threads of the process recorded their
    /// first events.
    pub number: u64,
    /// The thread's name. Threads of the plugin have none.
    pub name: Option<String>,
    /// The events in order of their starts, outer before inner.
    pub events: Vec<ProfileEvent>,
    /// The thread's number in the operating system.
    pub(super) system_id: Option<i64>,
}

/// The events of one line of a device, such as its operations, as the profiler of the plugin
/// recorded them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceEvents {
    /// The device, such as `TPU:0`.
    pub device: String,
    /// The plugin's name of the line, such as `XLA Ops`.
    pub line: String,
    /// The events in order of their starts, outer before inner. Operations of compiled programs
    /// have arguments: `source` is the line of the program, `hlo_op` or the event's name is the
    /// compiler's name.
    pub events: Vec<ProfileEvent>,
}

impl DeviceEvents {
    /// Returns the names of device and line.
    pub fn title(&self) -> String {
        format!("{} {}", self.device, self.line)
    }

    /// Returns true for a line of operations, and not of whole programs or steps: `XLA Ops` of a
    /// TPU, or a stream of a GPU.
    pub(crate) fn has_operations(&self) -> bool {
        self.line == "XLA Ops" || self.line.starts_with("Stream")
    }
}

impl ThreadEvents {
    /// Returns the thread's name, or its number if it has none.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("thread {}", self.number))
    }
}

impl Profile {
    pub(super) fn new(recorded: Recorded) -> Profile {
        let threads = recorded.threads.into_iter().map(|thread| {
            let RecordedThread { number, system_id, name, mut events } = thread;
            inherit_lines(&mut events);
            ThreadEvents { number, name, events, system_id }
        });
        Profile {
            started: recorded.started,
            duration: Duration::from_nanos(recorded.duration_nanos),
            threads: threads.collect(),
            plugins: Vec::new(),
            devices: Vec::new(),
            lines: None,
        }
    }

    /// Adds what the profilers of plugins recorded at the same time.
    pub(super) fn with_plugins(mut self, recordings: Vec<PluginRecording>) -> Profile {
        let started = self.started_unix_nanos();
        for PluginRecording { plugin, space } in recordings {
            match PluginSpace::decode(&space, started) {
                Ok(space) => {
                    self.devices.extend(space.device_events(started));
                    self.plugins.push(space);
                }
                Err(error) => {
                    let target = "the profile has no events of this plugin's devices";
                    tracing::warn!(target: "oxidax::profile", plugin, %error, "{target}");
                }
            }
        }
        self
    }

    /// Returns a profile with one thread, whose events have been put together.
    pub(super) fn of_events(
        title: String,
        duration: Duration,
        events: Vec<ProfileEvent>,
    ) -> Profile {
        let thread = RecordedThread { number: 1, system_id: None, name: Some(title), events };
        let duration_nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let started = SystemTime::now();
        Profile::new(Recorded { started, duration_nanos, threads: vec![thread] })
    }

    /// Adds the time of a step by line. [`save`](Self::save) writes it beside the events, and
    /// [`report_html`](super::report_html) shows both.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::profile::ProfileSession;
    /// let step = jit(|w: Array, x: Array| &w - &(&x * 0.1)).name("step");
    /// let (w, x) = (zeros([64]), ones([64]));
    /// let session = ProfileSession::start()?;
    /// let w = step.call(w, &x)?;
    /// let profile = session.stop();
    /// let lines = step.lower(&w, &x)?.compile()?.line_profile(&w, &x)?;
    /// let dir = tempfile::tempdir()?;
    /// let run = profile.with_lines(lines).save(dir.path())?;
    /// assert!(run.join("line_profile.json").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_lines(mut self, lines: LineProfile) -> Profile {
        self.lines = Some(lines);
        self
    }

    /// Returns the time by line that was added.
    pub(super) fn lines(&self) -> Option<&LineProfile> {
        self.lines.as_ref()
    }

    /// Returns the events of each thread.
    pub fn threads(&self) -> &[ThreadEvents] {
        &self.threads
    }

    /// Returns what the profilers of plugins recorded of devices. It is empty on a CPU, whose
    /// plugin has none; [`Compiled::line_profile`](crate::jit::Compiled::line_profile) measures
    /// operations there.
    pub fn devices(&self) -> &[DeviceEvents] {
        &self.devices
    }

    /// Returns what the profilers of plugins recorded.
    pub(super) fn plugins(&self) -> &[PluginSpace] {
        &self.plugins
    }

    /// Returns the events of all threads, thread by thread, each in order of their starts.
    pub fn events(&self) -> impl Iterator<Item = &ProfileEvent> {
        self.threads.iter().flat_map(|thread| &thread.events)
    }

    /// Returns the time at which recording started.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns the time from the start to the end of the recording.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Writes the profile to `dir/plugins/profile/TIME`, as JAX does, and returns this folder.
    ///
    /// | file | opened by |
    /// |---|---|
    /// | `HOST.xplane.pb` | XProf, also in TensorBoard: `xprof --logdir DIR` |
    /// | `perfetto_trace.pb` | <https://ui.perfetto.dev>, and `oxidax profile report DIR` |
    /// | `line_profile.json` | the same; written after [`with_lines`](Self::with_lines) |
    ///
    /// ```
    /// use oxidax::profile::{ProfileSession, TraceAnnotation};
    /// let dir = tempfile::tempdir()?;
    /// let session = ProfileSession::start()?;
    /// TraceAnnotation::new("work").scope(|| ());
    /// let run = session.stop().save(dir.path())?;
    /// assert!(run.join("perfetto_trace.pb").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Op` (runtime) if the files cannot be written.
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<PathBuf, Error> {
        RunFolder::create("Profile::save", dir.as_ref())?.write(self)
    }

    /// Returns the nanoseconds from 1970 to the start of the recording.
    pub(super) fn started_unix_nanos(&self) -> u64 {
        unix_nanos(self.started)
    }
}

/// Gives events without a line that of the event around them, and those in a named scope its path
/// as an argument.
fn inherit_lines(events: &mut [ProfileEvent]) {
    // The ends and lines of the events around the current one, outermost first.
    let mut open: Vec<(u64, Loc)> = Vec::new();
    for event in events {
        while open.last().is_some_and(|&(end, _)| end <= event.start_nanos) {
            open.pop();
        }
        let outer = open.last().map_or(Loc::UNKNOWN, |&(_, loc)| loc);
        event.loc = event.loc.or(outer);
        // Work of the library is for the line that called it, but what a program marks as a scope
        // contains other lines.
        let is_marked = matches!(event.kind, EventKind::Scope | EventKind::Step);
        open.push((event.end_nanos(), if is_marked { Loc::UNKNOWN } else { event.loc }));
        let scope = event.loc.scope_path();
        if !scope.is_empty() {
            event.loc = event.loc.without_scope();
            event.arguments.push(("scope", scope.into()));
        }
    }
}

#[cfg(test)]
impl Profile {
    /// Sets the number that a thread has in the operating system.
    pub(super) fn set_system_id(&mut self, thread: usize, id: i64) {
        self.threads[thread].system_id = Some(id);
    }
}

/// Returns a profile of two threads, for the tests of the file formats.
#[cfg(test)]
pub(super) fn example() -> Profile {
    use crate::core::spans::{EventArgument, EventName};
    let event = |kind, name: &'static str, loc, start_nanos, duration_nanos| {
        let (name, arguments) = (EventName::from(name), Vec::new());
        ProfileEvent { kind, name, loc, start_nanos, duration_nanos, arguments }
    };
    let with = |event: ProfileEvent, arguments: &[EventArgument]| ProfileEvent {
        arguments: arguments.to_vec(),
        ..event
    };
    let here = Loc::caller();
    let main = vec![
        with(event(EventKind::Step, "train", Loc::UNKNOWN, 0, 9000), &[("step_num", 7_u64.into())]),
        event(EventKind::Dispatch, "f", here, 1000, 2000),
        with(event(EventKind::ToDevice, "", Loc::UNKNOWN, 3000, 4000), &[("bytes", 64_u64.into())]),
        with(
            event(EventKind::Dispatch, "f", here, 8000, 500),
            &[("cold", true.into()), ("note", "twice".into())],
        ),
    ];
    let other = vec![event(EventKind::DataWait, "", Loc::UNKNOWN, 0, 1)];
    let thread = |number, name: Option<&str>, events| RecordedThread {
        number,
        system_id: None,
        name: name.map(str::to_owned),
        events,
    };
    Profile::new(Recorded {
        started: std::time::UNIX_EPOCH + Duration::from_millis(1500),
        duration_nanos: 10_000,
        threads: vec![thread(1, Some("main"), main), thread(2, None, other)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::spans::EventName;

    #[test]
    fn events_inherit_the_line_of_the_work_around_them() {
        let event = |kind, loc, start_nanos, duration_nanos| {
            let (name, arguments) = (EventName::from(""), Vec::new());
            ProfileEvent { kind, name, loc, start_nanos, duration_nanos, arguments }
        };
        let (here, there, unknown) = (Loc::caller(), Loc::caller(), Loc::UNKNOWN);
        let mut events = [
            event(EventKind::Step, there, 0, 100),
            // A step contains other lines.
            event(EventKind::DataWait, unknown, 1, 1),
            event(EventKind::Call, here, 10, 50),
            event(EventKind::Compile, unknown, 20, 30),
            event(EventKind::ToDevice, unknown, 21, 1),
            event(EventKind::ToHost, unknown, 70, 1),
        ];
        inherit_lines(&mut events);
        let lines = events.map(|event| event.loc);
        assert_eq!(lines, [there, unknown, here, here, here, unknown]);
    }

    #[test]
    fn table_has_the_time_that_is_not_in_inner_work() {
        let table = example().to_string();
        let rows: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().take(6).collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "5 events on 2 threads in",
            "own ms total ms count bytes",
            "0.004 0.004 1 64 to_device",
            "0.003 0.009 1 – step train",
            "0.003 0.003 2 – dispatch f",
            "0.000 0.000 1 – data_wait",
        ];
        assert_eq!(rows, expected, "{table}");
    }
}
