//! [`LineProfile`]: the time of a compiled program by source line.

use super::step_memory::StepMemory;
use crate::core::SourceLine;
use crate::passes::Peak;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Number of lines that a [`LineProfile`] prints.
const ROWS: usize = 30;

/// The time of one execution of a compiled program, by the lines of the program that it was written
/// on. Prints as a table.
///
/// [`Compiled::line_profile`](crate::jit::Compiled::line_profile) measures one on a CPU, and
/// [`Roofline::line_profile`](crate::roofline::Roofline::line_profile) predicts one for a device
/// that is not here. docs/profiling.md describes both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LineProfile {
    /// The name of the function.
    pub name: String,
    /// The device that the times are predicted for; `None` if they were measured.
    pub predicted_for: Option<String>,
    /// The devices whose profiler recorded the times of operations; `None` if they were measured
    /// one by one, or predicted.
    pub recorded_on: Option<String>,
    /// The time of one execution: the median of several, or the sum of the predicted times.
    #[serde(with = "seconds")]
    pub step: Duration,
    /// The sum of the times of the operations, each measured alone or recorded. Their times in
    /// `operations` are scaled so that they add up to `step`.
    #[serde(with = "seconds")]
    pub apart: Duration,
    /// The operations of the compiled program, in its order.
    pub operations: Vec<ProfiledOperation>,
    /// The fastest that the device computes, in floating-point operations per second; 0 if it is
    /// not known.
    pub peak_flops: f64,
    /// The fastest that the device reads and writes memory, in bytes per second; 0 if it is not
    /// known.
    pub peak_bandwidth: f64,
    /// The collectives of the program, which are also among `operations`. Predictions have them,
    /// and measured programs on several devices.
    pub collectives: Vec<ProfiledCollective>,
    /// The memory over the step.
    pub memory: Option<StepMemory>,
}

/// An operation of a compiled program, such as a fusion, with its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProfiledOperation {
    /// The compiler's name.
    pub name: String,
    /// The names of the [scopes](crate::core::named_scope) around it, joined by `/`.
    pub scope: String,
    /// The lines, each with its share of the work. Empty if no line is known.
    pub lines: Vec<(SourceLine, f64)>,
    /// The time in one execution of the program.
    #[serde(with = "seconds")]
    pub time: Duration,
    /// The number of runs in one execution; `None` in a loop whose number of steps is not known.
    pub runs: Option<f64>,
    /// Floating-point operations in one execution.
    pub flops: f64,
    /// Bytes that it reads and writes in one execution, if no cache holds them.
    pub bytes: f64,
    /// The reason why it was not measured. `time` is then what the others leave of the step.
    pub not_measured: Option<String>,
}

/// A collective of a compiled program, with its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProfiledCollective {
    /// The kind, such as `all-reduce`.
    pub kind: String,
    /// The mesh axes that it runs over. Empty if it does not follow mesh axes.
    pub axes: Vec<String>,
    /// The number of devices in a group.
    pub size: usize,
    /// The bytes of one run on one device, to which the time is proportional.
    pub bytes: u64,
    /// The number of runs in one execution.
    pub runs: u64,
    /// The time of all runs.
    #[serde(with = "seconds")]
    pub time: Duration,
    /// The line.
    pub line: Option<SourceLine>,
    /// The names of the [scopes](crate::core::named_scope) around it, joined by `/`.
    pub scope: String,
    /// The reason why it is there, such as the sharding that an operation needs.
    pub cause: Option<String>,
}

/// The part of a [`LineProfile`] that one line has.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LineTime {
    /// The line; `None` for operations whose line is not known.
    pub line: Option<SourceLine>,
    /// The time in one execution of the program.
    pub time: Duration,
    /// The share of the time of all lines.
    pub share: f64,
    /// Floating-point operations in one execution.
    pub flops: f64,
    /// Bytes that its operations read and write in one execution.
    pub bytes: f64,
}

impl LineTime {
    /// Returns the floating-point operations per second.
    pub fn flops_per_second(&self) -> f64 {
        per_second(self.flops, self.time)
    }

    /// Returns the bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.time)
    }
}

fn per_second(amount: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { amount / time.as_secs_f64() }
}

impl LineProfile {
    /// Adds the peak rates of the device, so that the table shows how far each line is from them.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::{DeviceSpec, Effort};
    /// let w = ones([512, 512]);
    /// let square = jit(|w: Array| w.matmul(&w)).lower(&w)?.compile()?;
    /// let here = DeviceSpec::measured(Effort::default())?;
    /// println!("{}", square.line_profile(&w)?.with_peaks(here.peak.f32, here.hbm_bandwidth));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn with_peaks(mut self, flops: f64, bandwidth: f64) -> LineProfile {
        (self.peak_flops, self.peak_bandwidth) = (flops, bandwidth);
        self
    }

    /// Adds the memory over the step, as estimated by
    /// [`Lowered::peak_memory`](crate::jit::Lowered::peak_memory), for [`report_html`].
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::{DeviceSpec, Roofline};
    /// let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::BF16, [2048, 2048]))?;
    /// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
    /// let profile = Roofline::of(square.program()).line_profile("square", &v5e);
    /// let profile = profile.with_memory(&square.peak_memory());
    /// assert_eq!(profile.memory.expect("it was added").peak(), 2 * 2048 * 2048 * 2);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    ///
    /// [`report_html`]: super::report_html
    #[must_use]
    pub fn with_memory(mut self, peak: &Peak) -> LineProfile {
        self.memory = Some(StepMemory::of(peak));
        self
    }

    /// Returns the time of each line, most time first.
    pub fn lines(&self) -> Vec<LineTime> {
        let mut by_line: HashMap<Option<&SourceLine>, LineTime> = HashMap::new();
        let mut total = 0.0;
        for operation in &self.operations {
            let unknown = [(None, 1.0)];
            let known: Vec<(Option<&SourceLine>, f64)> =
                operation.lines.iter().map(|(line, share)| (Some(line), *share)).collect();
            for &(line, share) in if known.is_empty() { &unknown[..] } else { &known[..] } {
                let sum = by_line.entry(line).or_default();
                sum.line = line.cloned();
                sum.time += operation.time.mul_f64(share);
                sum.flops += share * operation.flops;
                sum.bytes += share * operation.bytes;
                total += share * operation.time.as_secs_f64();
            }
        }
        let mut lines: Vec<LineTime> = by_line.into_values().collect();
        for line in &mut lines {
            line.share = if total > 0.0 { line.time.as_secs_f64() / total } else { 0.0 };
        }
        lines.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.line.cmp(&b.line)));
        lines
    }

    /// Returns the share of the step's time that belongs to known lines.
    pub fn attributed(&self) -> f64 {
        let known = self.lines().into_iter().filter(|line| line.line.is_some());
        let known: Duration = known.map(|line| line.time).sum();
        if self.step.is_zero() { 0.0 } else { known.as_secs_f64() / self.step.as_secs_f64() }
    }

    /// Returns the share of the fastest possible rate at which a line runs: the time that its work
    /// needs at the peak rates, over its time. `None` without peak rates.
    pub fn of_roofline(&self, line: &LineTime) -> Option<f64> {
        if self.peak_flops <= 0.0 || self.peak_bandwidth <= 0.0 || line.time.is_zero() {
            return None;
        }
        let least = (line.flops / self.peak_flops).max(line.bytes / self.peak_bandwidth);
        Some(least / line.time.as_secs_f64())
    }
}

/// Durations as seconds, so that files are readable.
pub(super) mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    /// The longest time in a file: 30 years. Sums of times stay in range.
    const LONGEST: f64 = 1e9;

    pub(in crate::profile) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(in crate::profile) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(D::Error::custom(format!("{seconds} is not a time in seconds")));
        }
        Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
    }
}

/// Writes a rate in billions per second.
fn billions(rate: f64) -> String {
    if rate <= 0.0 { "–".to_owned() } else { format!("{:.1}", rate / 1e9) }
}

impl fmt::Display for LineProfile {
    /// Writes the lines with the most time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let ratio = per_second(self.apart.as_secs_f64(), self.step);
        let origin = match (&self.predicted_for, &self.recorded_on) {
            (Some(device), _) => format!("predicted for {device}, from counted work"),
            (None, Some(devices)) => format!("operations on {devices} take {ratio:.2} of it"),
            (None, None) => format!("operations measured apart take {ratio:.2} of it"),
        };
        writeln!(
            f,
            "{}: {:.3} ms, {:.1} % of it by line; {origin}",
            self.name,
            milliseconds(self.step),
            100.0 * self.attributed(),
        )?;
        let with_peaks = self.peak_flops > 0.0 && self.peak_bandwidth > 0.0;
        let heading = if with_peaks { " % peak" } else { "" };
        write!(f, "{:>10} {:>7} {:>9} {:>8}{heading}  line", "ms", "share", "GFLOP/s", "GB/s")?;
        let lines = self.lines();
        for line in lines.iter().take(ROWS) {
            write!(
                f,
                "\n{:10.3} {:5.1} % {:>9} {:>8}",
                milliseconds(line.time),
                100.0 * line.share,
                billions(line.flops_per_second()),
                billions(line.bytes_per_second()),
            )?;
            if let Some(share) = self.of_roofline(line) {
                write!(f, " {:6.0}", 100.0 * share)?;
            }
            match &line.line {
                Some(line) => write!(f, "  {line}")?,
                None => write!(f, "  without a line")?,
            }
        }
        if lines.len() > ROWS {
            write!(f, "\n… and {} more lines", lines.len() - ROWS)?;
        }
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for reason in self.operations.iter().filter_map(|other| other.not_measured.as_deref()) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        for (reason, count) in reasons {
            write!(f, "\n{count} operations share the rest of the step, because each: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::spans::ProfileEvent;
    use expect_test::expect;

    fn operation(lines: &[(u32, f64)], milliseconds: f64, flops: f64) -> ProfiledOperation {
        let line =
            |&(line, share): &(u32, f64)| (SourceLine { file: "src/m.rs".into(), line }, share);
        ProfiledOperation {
            name: "fusion".into(),
            scope: String::new(),
            lines: lines.iter().map(line).collect(),
            time: Duration::from_secs_f64(milliseconds / 1e3),
            runs: Some(1.0),
            flops,
            bytes: 1e6,
            not_measured: None,
        }
    }

    #[test]
    fn lines_share_the_time_of_an_operation() {
        let profile = LineProfile {
            name: "step".into(),
            step: Duration::from_millis(10),
            apart: Duration::from_millis(9),
            operations: vec![
                operation(&[(3, 0.75), (7, 0.25)], 4.0, 4e6),
                operation(&[(7, 1.0)], 5.5, 11e6),
                operation(&[], 0.5, 0.0),
            ],
            ..LineProfile::default()
        };
        let profile = profile.with_peaks(4e9, 1e9);
        assert!((profile.attributed() - 0.95).abs() < 1e-9);
        expect![[r#"
            step: 10.000 ms, 95.0 % of it by line; operations measured apart take 0.90 of it
                    ms   share   GFLOP/s     GB/s % peak  line
                 6.500  65.0 %       1.8      0.2     46  src/m.rs:7
                 3.000  30.0 %       1.0      0.2     25  src/m.rs:3
                 0.500   5.0 %         –      2.0    200  without a line"#]]
        .assert_eq(&profile.to_string());
    }

    #[test]
    fn profile_for_viewers_has_each_operation_with_its_lines() {
        let operations = vec![
            operation(&[(3, 0.75), (7, 0.25)], 4.0, 4e6),
            ProfiledOperation {
                scope: "encoder".into(),
                not_measured: Some("it calls the host".into()),
                ..operation(&[], 1.0, 0.0)
            },
        ];
        let (name, step) = ("step".into(), Duration::from_millis(5));
        let predicted_for = Some("v5e".into());
        let profile =
            LineProfile { name, step, operations, predicted_for, ..LineProfile::default() };
        let saved = profile.to_profile();
        assert_eq!(saved.threads()[0].title(), "step, predicted for v5e");
        let events: Vec<&ProfileEvent> = saved.events().collect();
        let source = events[1].argument("source").map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("src/m.rs:3 (75 %), src/m.rs:7 (25 %)"));
        assert_eq!((events[1].start_nanos, events[1].duration_nanos), (0, 4_000_000));
        assert_eq!((events[2].start_nanos, events[2].duration_nanos), (4_000_000, 1_000_000));
        assert_eq!(
            events[2].argument("scope").map(ToString::to_string).as_deref(),
            Some("encoder")
        );
        assert!(events[2].argument("not measured").is_some());
        assert_eq!(events[0].end_nanos(), 5_000_000);
        assert!(profile.to_string().contains("predicted for v5e"));
    }
}
