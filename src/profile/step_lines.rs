//! [`StepLines`]: the time of recorded steps by source line.

use super::line_profile::LineProfile;
use super::recorded::{Profile, ThreadEvents};
use crate::core::spans::EventKind;
use crate::core::{Loc, SourceLine};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Number of lines that a [`StepLines`] prints.
const ROWS: usize = 30;

/// The wall time of the steps of a [`Profile`] by source line: the work of the host, and that of
/// the program that the steps run. Returned by [`Profile::step_lines`]. Prints as a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepLines {
    /// The name of the program; empty without one.
    pub program_name: String,
    /// The number of steps.
    pub steps: u64,
    /// The time of the steps together, from the start to the end of their marks.
    #[serde(with = "super::line_profile::seconds")]
    pub wall: Duration,
    /// The time of the steps in which the host ran the program or waited for it.
    #[serde(with = "super::line_profile::seconds")]
    pub program: Duration,
    /// The time of each line, most time first.
    pub lines: Vec<StepLineTime>,
}

/// The part of a [`StepLines`] that one line has, in all steps together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepLineTime {
    /// The line; `None` for the time between marked work, and for operations and work without a
    /// line.
    pub line: Option<SourceLine>,
    /// The time of the program's operations.
    #[serde(with = "super::line_profile::seconds")]
    pub program: Duration,
    /// The time of the host's work.
    #[serde(with = "super::line_profile::seconds")]
    pub host: Duration,
}

impl StepLineTime {
    /// Returns the time of the host and of the program.
    pub fn time(&self) -> Duration {
        self.host + self.program
    }
}

impl StepLines {
    /// Returns the share of the wall time that belongs to known lines.
    pub fn attributed(&self) -> f64 {
        let known = self.lines.iter().filter(|line| line.line.is_some());
        let known: Duration = known.map(StepLineTime::time).sum();
        if self.wall.is_zero() { 0.0 } else { known.as_secs_f64() / self.wall.as_secs_f64() }
    }

    /// Divides the time of the steps of a profile among lines.
    fn of(profile: &Profile, lines: Option<&LineProfile>) -> StepLines {
        let program_name = lines.map_or("", |lines| &lines.name);
        let mut all = StepLines { program_name: program_name.into(), ..StepLines::default() };
        let mut host: BTreeMap<Option<SourceLine>, u64> = BTreeMap::new();
        let (mut wall, mut program) = (0, 0);
        for thread in profile.threads() {
            for work in own_work(thread, program_name) {
                if let WorkOf::Step { whole } = work.of {
                    all.steps += 1;
                    wall += whole;
                }
                match work.of {
                    WorkOf::Program if lines.is_some() => program += work.own_nanos,
                    WorkOf::Step { .. } => *host.entry(None).or_default() += work.own_nanos,
                    WorkOf::Program | WorkOf::Host => {
                        *host.entry(SourceLine::of(work.loc)).or_default() += work.own_nanos;
                    }
                }
            }
        }
        (all.wall, all.program) = (Duration::from_nanos(wall), Duration::from_nanos(program));
        let mut by_line: BTreeMap<Option<SourceLine>, StepLineTime> = BTreeMap::new();
        for (line, nanos) in host {
            let row = by_line.entry(line.clone()).or_default();
            (row.line, row.host) = (line, Duration::from_nanos(nanos));
        }
        for line in lines.map(LineProfile::lines).unwrap_or_default() {
            let row = by_line.entry(line.line.clone()).or_default();
            (row.line, row.program) = (line.line, all.program.mul_f64(line.share));
        }
        all.lines = by_line.into_values().filter(|line| !line.time().is_zero()).collect();
        all.lines.sort_by(|a, b| b.time().cmp(&a.time()).then_with(|| a.line.cmp(&b.line)));
        all
    }
}

impl Profile {
    /// Returns the wall time of the recorded steps by line.
    ///
    /// The steps are those marked with [`StepTraceAnnotation`](super::StepTraceAnnotation). Work of
    /// the host counts for its line, or that of the mark around it, without the work inside it.
    /// While the host dispatches the program of [`with_lines`](Self::with_lines) or waits for it,
    /// the time is that of the program: its operations share it as they share the time of a call
    /// that [`Compiled::line_profile`](crate::jit::Compiled::line_profile) measured. The time of a
    /// step outside of all marked work has no line.
    ///
    /// End a step with a wait for its results. Otherwise a device computes a step while the host
    /// is in a later one, or in none.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::profile::{ProfileSession, StepTraceAnnotation};
    /// let step = jit(|w: Array, x: Array| &w - &(tanh(&x.matmul(&w)) * 0.1)).name("step");
    /// let (mut w, x) = (ones([64, 64]), ones([64, 64]));
    /// let compiled = step.lower(&w, &x)?.compile()?;
    /// let session = ProfileSession::start()?;
    /// for number in 0..3 {
    ///     let _step = StepTraceAnnotation::new("train", number);
    ///     w = compiled.call(&w, &x)?;
    ///     w.block_until_ready()?;
    /// }
    /// let profile = session.stop().with_lines(compiled.line_profile(&w, &x)?);
    /// let lines = profile.step_lines();
    /// println!("{lines}");
    /// assert_eq!((lines.steps, lines.program_name.as_str()), (3, "step"));
    /// assert!(lines.program <= lines.wall && lines.attributed() <= 1.001);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn step_lines(&self) -> StepLines {
        // Predicted times are those of another device.
        StepLines::of(self, self.lines().filter(|lines| lines.predicted_for.is_none()))
    }
}

/// Work within a step.
struct OwnWork {
    /// Its line, or that of the work around it within the step.
    loc: Loc,
    /// The time that it spends outside of the work inside it.
    own_nanos: u64,
    of: WorkOf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkOf {
    /// A step that is not in another one, with its time.
    Step {
        whole: u64,
    },
    /// Running the program, or waiting for it.
    Program,
    Host,
}

/// Returns the work of a thread within steps. `program` is the name of the program.
fn own_work(thread: &ThreadEvents, program: &str) -> Vec<OwnWork> {
    let mut found: Vec<OwnWork> = Vec::new();
    // The events around the current one: end, position in `found` and kind, outermost first.
    let mut open: Vec<(u64, Option<usize>, EventKind)> = Vec::new();
    let mut program_was_last = false;
    for event in &thread.events {
        while open.pop_if(|(end, ..)| *end <= event.start_nanos).is_some() {}
        let outer = open.last().copied();
        let is_in_step = outer.is_some_and(|(_, position, _)| position.is_some());
        let is_eager = || open.iter().any(|(.., kind)| *kind == EventKind::Eager);
        let of = match event.kind {
            EventKind::Step if !is_in_step => WorkOf::Step { whole: event.duration_nanos },
            EventKind::Dispatch if event.name.as_str() == program => {
                program_was_last = true;
                WorkOf::Program
            }
            // What an operation outside of programs computes takes little time.
            EventKind::Dispatch if !is_eager() => {
                program_was_last = false;
                WorkOf::Host
            }
            EventKind::Operation => WorkOf::Program,
            EventKind::Wait | EventKind::ToHost if program_was_last => WorkOf::Program,
            _ => WorkOf::Host,
        };
        let is_counted = is_in_step || matches!(of, WorkOf::Step { .. });
        // The line of a step's mark is not that of the work in it.
        let mut loc = if event.kind == EventKind::Step { Loc::UNKNOWN } else { event.loc };
        if let Some((end, Some(outer), _)) = outer {
            let inside = event.end_nanos().min(end).saturating_sub(event.start_nanos);
            found[outer].own_nanos = found[outer].own_nanos.saturating_sub(inside);
            loc = loc.or(found[outer].loc);
        }
        open.push((event.end_nanos(), is_counted.then_some(found.len()), event.kind));
        if is_counted {
            found.push(OwnWork { loc, own_nanos: event.duration_nanos, of });
        }
    }
    found
}

impl fmt::Display for StepLines {
    /// Writes the lines with the most time, in milliseconds of one step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |time: Duration| time.as_secs_f64() * 1e3 / self.steps.max(1) as f64;
        let share =
            |time: Duration| 100.0 * time.as_secs_f64() / self.wall.as_secs_f64().max(1e-12);
        write!(
            f,
            "{} steps of {:.3} ms, {:.1} % of their time by line",
            self.steps,
            each(self.wall),
            100.0 * self.attributed(),
        )?;
        if !self.program_name.is_empty() {
            write!(f, "; {} takes {:.1} % of it", self.program_name, share(self.program))?;
        }
        write!(f, "\n{:>10} {:>7} {:>10} {:>8}  line", "ms a step", "share", "program", "host")?;
        for line in self.lines.iter().take(ROWS) {
            write!(
                f,
                "\n{:10.3} {:5.1} % {:10.3} {:8.3}  ",
                each(line.time()),
                share(line.time()),
                each(line.program),
                each(line.host),
            )?;
            match &line.line {
                Some(line) => write!(f, "{line}")?,
                None => write!(f, "without a line")?,
            }
        }
        if self.lines.len() > ROWS {
            write!(f, "\n… and {} more lines", self.lines.len() - ROWS)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::spans::{EventName, ProfileEvent, Recorded, RecordedThread};
    use crate::profile::line_profile_file::tests::example as line_profile;
    use std::time::UNIX_EPOCH;

    fn profile(events: Vec<ProfileEvent>) -> Profile {
        let thread = RecordedThread { number: 1, system_id: None, name: None, events };
        let (started, duration_nanos) = (UNIX_EPOCH, 100_000);
        Profile::new(Recorded { started, duration_nanos, threads: vec![thread] })
    }

    fn event(
        kind: EventKind,
        name: &'static str,
        loc: Loc,
        start: u64,
        nanos: u64,
    ) -> ProfileEvent {
        let (name, arguments) = (EventName::from(name), Vec::new());
        ProfileEvent { kind, name, loc, start_nanos: start, duration_nanos: nanos, arguments }
    }

    #[test]
    fn time_of_a_step_is_that_of_host_and_program() {
        let call = Loc::caller();
        let read = Loc::caller();
        let unknown = Loc::UNKNOWN;
        let profile = profile(vec![
            // Before the steps.
            event(EventKind::Dispatch, "other", call, 0, 500),
            event(EventKind::Step, "train", call, 1_000, 10_000),
            // No program was dispatched that it could wait for.
            event(EventKind::ToHost, "", read, 1_000, 300),
            event(EventKind::Call, "train_step", call, 2_000, 3_000),
            event(EventKind::Dispatch, "train_step", unknown, 3_000, 1_000),
            event(EventKind::Eager, "add", call, 5_000, 500),
            event(EventKind::Dispatch, "add", unknown, 5_100, 200),
            event(EventKind::ToHost, "", read, 6_000, 4_000),
            event(EventKind::Step, "train", call, 20_000, 1_000),
            event(EventKind::Dispatch, "held_out", call, 20_100, 100),
            event(EventKind::Wait, "", read, 20_300, 100),
            event(EventKind::Wait, "", unknown, 20_500, 100),
        ]);
        let alone = profile.step_lines();
        assert_eq!((alone.steps, alone.wall), (2, Duration::from_nanos(11_000)));
        assert_eq!((alone.program, alone.program_name.as_str()), (Duration::ZERO, ""));
        let time = |lines: &StepLines, line: Option<Loc>| {
            let line = line.and_then(SourceLine::of);
            let row = lines.lines.iter().find(|row| row.line == line).expect("a row");
            (row.host.as_nanos(), row.program.as_nanos())
        };
        assert_eq!(time(&alone, Some(call)), (3_600, 0));
        assert_eq!(time(&alone, Some(read)), (4_400, 0));
        let lines = profile.with_lines(line_profile()).step_lines();
        assert_eq!((lines.wall, lines.program), (alone.wall, Duration::from_nanos(5_000)));
        assert_eq!(time(&lines, Some(call)), (2_600, 0));
        assert_eq!(time(&lines, Some(read)), (400, 0));
        // 5 % of the operations have no line, 3000 ns are not in marked work or have no line.
        assert_eq!(time(&lines, None), (3_000, 250));
        assert!((lines.attributed() - 7_750.0 / 11_000.0).abs() < 1e-6, "{lines}");
        let sum: Duration = lines.lines.iter().map(StepLineTime::time).sum();
        assert!(sum.abs_diff(lines.wall) < Duration::from_nanos(10), "{lines}");
        let first = lines.to_string();
        let first = first.lines().next().expect("a line");
        let expected =
            "2 steps of 0.005 ms, 70.5 % of their time by line; train_step takes 45.5 % of it";
        assert_eq!(first, expected);
    }

    #[test]
    fn steps_within_steps_count_once() {
        let here = Loc::caller();
        let profile = profile(vec![
            event(EventKind::Step, "train", here, 0, 1_000),
            event(EventKind::Step, "test", here, 100, 500),
            event(EventKind::Scope, "work", here, 200, 300),
            event(EventKind::DataWait, "", Loc::UNKNOWN, 200, 100),
        ]);
        let lines = profile.step_lines();
        // The wait has no line, and is in work that has one.
        let known = lines.lines.iter().find(|row| row.line.is_some()).expect("a line");
        assert_eq!(known.host, Duration::from_nanos(300));
        assert_eq!((lines.steps, lines.wall), (1, Duration::from_nanos(1_000)));
        assert_eq!(StepLines::default().attributed(), 0.0);
    }
}
