//! The operations of a [`LineProfile`] as events: a profile of one execution, or a track beside the
//! threads of a recording.

use super::line_profile::{LineProfile, ProfiledOperation};
use super::recorded::{DeviceEvents, Profile, ThreadEvents};
use crate::core::spans::{ArgumentValue, EventArgument, EventKind, EventName, ProfileEvent};
use crate::core::{Loc, SourceLine};
use std::time::Duration;

impl LineProfile {
    /// Returns the operations as a profile of one execution, for [`Profile::save`], one after the
    /// other. Each event has the lines, the scope, the work and the number of runs as arguments.
    /// Saving it also writes these times, for [`report_html`](super::report_html).
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let w = ones([512, 512]);
    /// let square = jit(|w: Array| w.matmul(&w)).lower(&w)?.compile()?;
    /// square.line_profile(&w)?.to_profile().save("profiles")?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn to_profile(&self) -> Profile {
        let step = ProfileEvent {
            kind: EventKind::Step,
            name: EventName::from(format!("train {}", self.name)),
            loc: Loc::UNKNOWN,
            start_nanos: 0,
            duration_nanos: nanos(self.operations.iter().map(|operation| operation.time).sum()),
            arguments: vec![("step_num", ArgumentValue::Count(0))],
        };
        let total = Duration::from_nanos(step.duration_nanos);
        let mut events = vec![step];
        events.extend(self.operation_events(0));
        Profile::of_events(self.title(), total, events).with_lines(self.clone())
    }

    /// Returns the title of the track of the operations.
    fn title(&self) -> String {
        match (&self.predicted_for, &self.recorded_on) {
            (Some(device), _) => format!("{}, predicted for {device}", self.name),
            (None, Some(devices)) => format!("{}, recorded on {devices}", self.name),
            (None, None) => format!("{}, each operation measured alone", self.name),
        }
    }

    /// Returns the operations one after the other, the first of them `start` nanoseconds after the
    /// start of the recording.
    fn operation_events(&self, start: u64) -> Vec<ProfileEvent> {
        let mut end = Duration::from_nanos(start);
        let event = |operation: &ProfiledOperation| {
            let start_nanos = nanos(end);
            end += operation.time;
            ProfileEvent {
                kind: EventKind::Operation,
                name: EventName::from(operation.name.clone()),
                loc: Loc::UNKNOWN,
                start_nanos,
                duration_nanos: nanos(operation.time),
                arguments: operation.arguments(),
            }
        };
        self.operations.iter().map(event).collect()
    }
}

impl Profile {
    /// Returns the track of the operations of [`Profile::with_lines`], which files have after the
    /// threads. It begins where the program was dispatched first, and does not contain operations
    /// of less than a nanosecond. `None` if there are no operations, or if a thread or a device has
    /// them already.
    pub(super) fn operations_track(&self) -> Option<ThreadEvents> {
        let lines = self.lines().filter(|lines| !lines.operations.is_empty())?;
        let has_operations = self.events().any(|event| event.kind == EventKind::Operation);
        if has_operations || self.devices().iter().any(DeviceEvents::has_operations) {
            return None;
        }
        let is_dispatch = |event: &&ProfileEvent| {
            event.kind == EventKind::Dispatch && event.name.as_str() == lines.name
        };
        let starts = self.events().filter(is_dispatch).map(|event| event.start_nanos);
        let last = self.threads().iter().map(|thread| thread.number).max().unwrap_or(0);
        let mut events = lines.operation_events(starts.min().unwrap_or(0));
        // XProf leaves them out too.
        events.retain(|event| event.duration_nanos > 0);
        Some(ThreadEvents { number: last + 1, name: Some(lines.title()), events, system_id: None })
    }
}

impl ProfiledOperation {
    fn arguments(&self) -> Vec<EventArgument> {
        let mut arguments: Vec<EventArgument> = Vec::new();
        if !self.lines.is_empty() {
            let line = |(line, share): &(SourceLine, f64)| match self.lines.len() {
                1 => line.to_string(),
                _ => format!("{line} ({:.0} %)", 100.0 * share),
            };
            let lines: Vec<String> = self.lines.iter().map(line).collect();
            arguments.push(("source", lines.join(", ").into()));
        }
        if !self.scope.is_empty() {
            arguments.push(("scope", self.scope.clone().into()));
        }
        arguments.push(("flops", self.flops.into()));
        arguments.push(("bytes accessed", self.bytes.into()));
        if let Some(runs) = self.runs {
            arguments.push(("runs", runs.into()));
        }
        if let Some(reason) = &self.not_measured {
            arguments.push(("not measured", reason.clone().into()));
        }
        arguments
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Duration;
    use crate::core::spans::EventKind;
    use crate::profile::line_profile_file::tests::example as lines;
    use crate::profile::recorded::example;

    #[test]
    fn operations_are_a_track_after_the_threads() {
        assert!(example().operations_track().is_none());
        let mut lines = lines();
        lines.name = "f".into();
        lines.operations[3].time = Duration::ZERO;
        let track = example().with_lines(lines.clone()).operations_track().expect("operations");
        assert_eq!((track.number, track.title().as_str()), (3, "f, each operation measured alone"));
        // `f` is dispatched first after 1000 ns.
        let starts: Vec<u64> = track.events.iter().map(|event| event.start_nanos).collect();
        assert_eq!(starts, [1000, 6_001_000, 8_001_000]);
        assert!(track.events.iter().all(|event| event.kind == EventKind::Operation));
        // A profile of the operations has them already.
        assert!(lines.to_profile().operations_track().is_none());
        lines.operations.clear();
        assert!(example().with_lines(lines).operations_track().is_none());
    }
}
