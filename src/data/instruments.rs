//! Measures the time in each stage, and whether the program waits for data or the pipeline for the
//! program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A smaller share of waiting does not count as a bottleneck.
const NEGLIGIBLE: f64 = 0.05;

/// The work of a pipeline stage, or of the program that consumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Work {
    /// Reading records.
    Source,
    /// Running `map` and `filter` closures, usually decoding.
    Decode,
    /// Assembling batches.
    Batch,
    /// Copying batches to the device.
    Transfer,
    /// The program's work between two items: the training step.
    Step,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Source => "source",
            Work::Decode => "decode",
            Work::Batch => "batch",
            Work::Transfer => "transfer",
            Work::Step => "step",
        })
    }
}

/// Counters of one stage.
pub(super) struct Meter {
    name: &'static str,
    work: Work,
    /// Threads that share the work.
    workers: usize,
    items: AtomicU64,
    nanos: AtomicU64,
    skipped: AtomicU64,
}

impl Meter {
    /// Runs `make`, and counts one item and the time it takes.
    pub(super) fn time<T>(&self, make: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let made = make();
        self.add(1, start.elapsed());
        made
    }

    /// Runs `next`, and counts its item, if any, and the time it takes.
    pub(super) fn time_next<T>(&self, next: impl FnOnce() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        let item = next();
        self.add(item.is_some().into(), start.elapsed());
        item
    }

    pub(super) fn add(&self, items: u64, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.items.fetch_add(items, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the mean time per item, once there was one.
    pub(super) fn mean(&self) -> Option<Duration> {
        let items = self.items.load(Ordering::Relaxed);
        Some(Duration::from_nanos(self.nanos.load(Ordering::Relaxed).checked_div(items)?))
    }

    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Consumer {
    items: AtomicU64,
    waiting: AtomicU64,
    stepping: AtomicU64,
}

/// The counters of a pipeline. Obtain them from the stream before a loop consumes it, and read them
/// at any time. Clones share the counters.
///
/// ```
/// use oxidax::data::{Source, Synthetic};
/// let stream = Synthetic::new(1000, |index| Ok(index)).stream().map(|n: usize| Ok(n + 1));
/// let instruments = stream.instruments();
/// for number in stream {
///     number?;
/// }
/// let report = instruments.report();
/// assert_eq!(report.items, 1000);
/// println!("{report}");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Instruments {
    stages: Vec<Arc<Meter>>,
    consumer: Arc<Consumer>,
}

impl Instruments {
    /// Adds counters for another stage.
    pub(super) fn stage(&mut self, name: &'static str, work: Work, workers: usize) -> Arc<Meter> {
        let meter = Arc::new(Meter {
            name,
            work,
            workers: workers.max(1),
            items: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        });
        self.stages.push(meter.clone());
        meter
    }

    /// Adds the counters of a stream that this one reads.
    pub(super) fn join(&mut self, other: Instruments) {
        self.stages.extend(other.stages);
    }

    /// Counts an item taken by the consumer: the time it waited, and the time since the previous
    /// item.
    pub(super) fn consumed(&self, waited: Duration, stepped: Option<Duration>) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.consumer.items.fetch_add(1, Ordering::Relaxed);
        self.consumer.waiting.fetch_add(nanos(waited), Ordering::Relaxed);
        self.consumer.stepping.fetch_add(stepped.map_or(0, nanos), Ordering::Relaxed);
    }

    /// Returns the current values.
    pub fn report(&self) -> PipelineReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut rows: BTreeMap<(Work, &'static str), StageReport> = BTreeMap::new();
        for meter in &self.stages {
            let row = rows.entry((meter.work, meter.name)).or_insert(StageReport {
                name: meter.name,
                work: meter.work,
                workers: meter.workers,
                items: 0,
                busy: Duration::ZERO,
                skipped: 0,
            });
            row.workers = row.workers.max(meter.workers);
            row.items += read(&meter.items);
            row.busy += Duration::from_nanos(read(&meter.nanos));
            row.skipped += read(&meter.skipped);
        }
        PipelineReport {
            items: read(&self.consumer.items),
            waiting: Duration::from_nanos(read(&self.consumer.waiting)),
            stepping: Duration::from_nanos(read(&self.consumer.stepping)),
            stages: rows.into_values().collect(),
        }
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instruments({} stages)", self.stages.len())
    }
}

/// Measurements of one stage. Stages of the same name are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// The stage's name.
    pub name: &'static str,
    /// Its kind of work.
    pub work: Work,
    /// Threads that share the work.
    pub workers: usize,
    /// Items produced.
    pub items: u64,
    /// Time spent producing them, summed over the threads.
    pub busy: Duration,
    /// Errors skipped by `on_error`.
    pub skipped: u64,
}

/// Measurements of a pipeline. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineReport {
    /// Items taken by the program.
    pub items: u64,
    /// Time the program waited for them.
    pub waiting: Duration,
    /// Time the program spent between them.
    pub stepping: Duration,
    /// The stages, from the source to the last.
    pub stages: Vec<StageReport>,
}

impl PipelineReport {
    /// Returns the work to speed up first: the step, if the program hardly waits, otherwise the
    /// work whose threads are busy longest.
    ///
    /// Returns `None` before the first measurement.
    pub fn bottleneck(&self) -> Option<Work> {
        let (waiting, stepping) = (self.waiting.as_secs_f64(), self.stepping.as_secs_f64());
        if waiting + stepping == 0.0 {
            return None;
        }
        if waiting < NEGLIGIBLE * (waiting + stepping) {
            return Some(Work::Step);
        }
        let load = |stage: &&StageReport| stage.busy / stage.workers as u32;
        let busiest = self.stages.iter().max_by_key(load);
        busiest.filter(|stage| !stage.busy.is_zero()).map(|stage| stage.work)
    }

    /// Returns the difference to an earlier report of the same pipeline, for example to leave out
    /// the first steps, which compile.
    ///
    /// ```
    /// use oxidax::data::{Source, Synthetic};
    /// let mut stream = Synthetic::new(10, |index| Ok(index)).stream();
    /// let instruments = stream.instruments();
    /// stream.next();
    /// let first = instruments.report();
    /// assert_eq!(stream.count(), 9);
    /// assert_eq!(instruments.report().since(&first).items, 9);
    /// ```
    pub fn since(&self, earlier: &PipelineReport) -> PipelineReport {
        let stages = self.stages.iter().map(|stage| {
            let same = |other: &&StageReport| (other.work, other.name) == (stage.work, stage.name);
            let (items, busy, skipped) = match earlier.stages.iter().find(same) {
                Some(before) => (before.items, before.busy, before.skipped),
                None => (0, Duration::ZERO, 0),
            };
            StageReport {
                items: stage.items.saturating_sub(items),
                busy: stage.busy.saturating_sub(busy),
                skipped: stage.skipped.saturating_sub(skipped),
                ..stage.clone()
            }
        });
        PipelineReport {
            items: self.items.saturating_sub(earlier.items),
            waiting: self.waiting.saturating_sub(earlier.waiting),
            stepping: self.stepping.saturating_sub(earlier.stepping),
            stages: stages.collect(),
        }
    }

    /// Errors skipped by `on_error`.
    pub fn skipped(&self) -> u64 {
        self.stages.iter().map(|stage| stage.skipped).sum()
    }
}

impl fmt::Display for PipelineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "stage         work      workers      items  busy/s  skipped")?;
        for stage in &self.stages {
            let StageReport { name, work, workers, items, busy, skipped } = stage;
            let work = work.to_string();
            let busy = busy.as_secs_f64();
            writeln!(f, "{name:12}  {work:8}  {workers:7}  {items:9}  {busy:6.2}  {skipped:7}")?;
        }
        let (waiting, stepping) = (self.waiting.as_secs_f64(), self.stepping.as_secs_f64());
        let share = match waiting + stepping {
            0.0 => 0.0,
            total => 100.0 * waiting / total,
        };
        let items = self.items;
        write!(
            f,
            "{items} items: {stepping:.2} s stepping, {waiting:.2} s waiting for data ({share:.0} %)"
        )?;
        match self.bottleneck() {
            Some(work) => write!(f, "; the bottleneck is the {work}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn instruments(waited: u64, stepped: u64) -> Instruments {
        let mut instruments = Instruments::default();
        let ms = Duration::from_millis;
        instruments.stage("tfrecord", Work::Source, 1).add(600, ms(300));
        instruments.stage("tfrecord", Work::Source, 1).add(400, ms(200));
        let map = instruments.stage("map", Work::Decode, 4);
        map.add(998, ms(1600));
        map.skip();
        map.skip();
        instruments.stage("batch", Work::Batch, 1).add(10, ms(50));
        instruments.consumed(ms(waited), None);
        instruments.consumed(ms(waited), Some(ms(2 * stepped)));
        instruments
    }

    #[test]
    fn table_names_the_bottleneck() {
        let report = instruments(500, 250).report();
        expect![[r#"
        stage         work      workers      items  busy/s  skipped
        tfrecord      source          1       1000    0.50        0
        map           decode          4        998    1.60        2
        batch         batch           1         10    0.05        0
        2 items: 0.50 s stepping, 1.00 s waiting for data (67 %); the bottleneck is the source"#]]
        .assert_eq(&report.to_string());
        assert_eq!(report.skipped(), 2);
    }

    #[test]
    fn difference_excludes_the_earlier_report() {
        let ms = Duration::from_millis;
        let clocks = instruments(500, 250);
        let before = clocks.report();
        clocks.stages[2].add(3, ms(40));
        clocks.stages[2].skip();
        clocks.consumed(ms(1), Some(ms(999)));
        let since = clocks.report().since(&before);
        assert_eq!((since.items, since.waiting, since.stepping), (1, ms(1), ms(999)));
        assert_eq!(since.bottleneck(), Some(Work::Step), "{since}");
        let map = since.stages.iter().find(|stage| stage.name == "map").unwrap();
        assert_eq!((map.items, map.busy, map.skipped, map.workers), (3, ms(40), 1, 4));
        let source = since.stages.iter().find(|stage| stage.name == "tfrecord").unwrap();
        assert_eq!((source.items, source.busy), (0, Duration::ZERO));
    }

    #[test]
    fn step_is_the_bottleneck_without_waiting() {
        assert_eq!(instruments(10, 1000).report().bottleneck(), Some(Work::Step));
        let mut slow = instruments(1000, 10);
        slow.stage("to_device", Work::Transfer, 1).add(10, Duration::from_secs(3));
        assert_eq!(slow.report().bottleneck(), Some(Work::Transfer));
        assert_eq!(Instruments::default().report().bottleneck(), None);
    }
}
