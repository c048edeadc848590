//! Measures the time in each stage, and whether the program waits for data or the pipeline for the
//! program.

use crate::core::Loc;
use crate::monitoring;
use crate::profile::{EventKind, TraceAnnotation};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// The line that added the stage.
    loc: Loc,
    work: Work,
    /// Threads that share the work.
    workers: AtomicUsize,
    automatic: bool,
    items: AtomicU64,
    nanos: AtomicU64,
    skipped: AtomicU64,
}

impl Meter {
    /// Runs `make`, and counts one item and the time it takes.
    pub(super) fn time<T>(&self, make: impl FnOnce() -> T) -> T {
        let _span = self.span();
        let start = Instant::now();
        let made = make();
        self.add(1, start.elapsed());
        made
    }

    /// Runs `next`, and counts its item, if any, and the time it takes.
    pub(super) fn time_next<T>(&self, next: impl FnOnce() -> Option<T>) -> Option<T> {
        let _span = self.span();
        let start = Instant::now();
        let item = next();
        self.add(item.is_some().into(), start.elapsed());
        item
    }

    /// Marks work of the stage in profiles.
    pub(super) fn span(&self) -> TraceAnnotation {
        TraceAnnotation::of_kind(EventKind::Data, self.loc, self.name)
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

    /// Returns the items so far, and the time that they took.
    pub(super) fn totals(&self) -> (u64, Duration) {
        let nanos = self.nanos.load(Ordering::Relaxed);
        (self.items.load(Ordering::Relaxed), Duration::from_nanos(nanos))
    }

    /// Sets the number of threads that share the work.
    pub(super) fn set_workers(&self, workers: usize) {
        self.workers.store(workers.max(1), Ordering::Relaxed);
    }

    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of a queue between two threads.
pub(super) struct Gauge {
    name: &'static str,
    automatic: bool,
    capacity: AtomicUsize,
    pulls: AtomicU64,
    total_fill: AtomicU64,
    least: AtomicUsize,
    most: AtomicUsize,
    starved: AtomicU64,
    pushes: AtomicU64,
    blocked: AtomicU64,
}

impl Gauge {
    /// Counts a pull that found `fill` items ready.
    pub(super) fn pulled(&self, fill: usize) {
        self.pulls.fetch_add(1, Ordering::Relaxed);
        self.total_fill.fetch_add(fill as u64, Ordering::Relaxed);
        self.least.fetch_min(fill, Ordering::Relaxed);
        self.most.fetch_max(fill, Ordering::Relaxed);
        self.starved.fetch_add(u64::from(fill == 0), Ordering::Relaxed);
    }

    /// Counts an item that was added, after waiting for space or not.
    pub(super) fn pushed(&self, blocked: bool) {
        self.pushes.fetch_add(1, Ordering::Relaxed);
        self.blocked.fetch_add(blocked.into(), Ordering::Relaxed);
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Returns the number of items that had to wait for space.
    pub(super) fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    fn report(&self) -> QueueReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let pulls = read(&self.pulls);
        QueueReport {
            name: self.name,
            automatic: self.automatic,
            capacity: self.capacity.load(Ordering::Relaxed),
            pulls,
            total_fill: read(&self.total_fill),
            min_fill: if pulls == 0 { 0 } else { self.least.load(Ordering::Relaxed) },
            max_fill: self.most.load(Ordering::Relaxed),
            starved: read(&self.starved),
            pushes: read(&self.pushes),
            blocked: read(&self.blocked),
        }
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
    queues: Vec<Arc<Gauge>>,
    consumer: Arc<Consumer>,
}

impl Instruments {
    /// Adds counters for another stage.
    pub(super) fn stage(&mut self, name: &'static str, work: Work, workers: usize) -> Arc<Meter> {
        self.parallel_stage(name, work, workers, false)
    }

    /// Adds counters for another stage, whose workers are chosen automatically or not.
    pub(super) fn parallel_stage(
        &mut self,
        name: &'static str,
        work: Work,
        workers: usize,
        automatic: bool,
    ) -> Arc<Meter> {
        let meter = Arc::new(Meter {
            name,
            // Set by the function that adds the stage.
            loc: Loc::caller(),
            work,
            workers: AtomicUsize::new(workers.max(1)),
            automatic,
            items: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        });
        self.stages.push(meter.clone());
        meter
    }

    /// Adds counters for a queue, whose capacity is chosen automatically or not.
    pub(super) fn queue(&mut self, name: &'static str, automatic: bool) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge {
            name,
            automatic,
            capacity: AtomicUsize::new(0),
            pulls: AtomicU64::new(0),
            total_fill: AtomicU64::new(0),
            least: AtomicUsize::new(usize::MAX),
            most: AtomicUsize::new(0),
            starved: AtomicU64::new(0),
            pushes: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
        });
        self.queues.push(gauge.clone());
        gauge
    }

    /// Adds the counters of a stream that this one reads.
    pub(super) fn join(&mut self, other: Instruments) {
        self.stages.extend(other.stages);
        self.queues.extend(other.queues);
    }

    /// Counts an item taken by the consumer: the time it waited, and the time since the previous
    /// item.
    pub(super) fn consumed(&self, waited: Duration, stepped: Option<Duration>) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.consumer.items.fetch_add(1, Ordering::Relaxed);
        self.consumer.waiting.fetch_add(nanos(waited), Ordering::Relaxed);
        self.consumer.stepping.fetch_add(stepped.map_or(0, nanos), Ordering::Relaxed);
        let seconds = waited.as_secs_f64();
        monitoring::record_event_duration_secs("/oxidax/data/wait_duration", seconds, &[]);
    }

    /// Returns the current values.
    pub fn report(&self) -> PipelineReport {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut rows: BTreeMap<(Work, &'static str), StageReport> = BTreeMap::new();
        for meter in &self.stages {
            let workers = meter.workers.load(Ordering::Relaxed);
            let row = rows.entry((meter.work, meter.name)).or_insert(StageReport {
                name: meter.name,
                work: meter.work,
                workers,
                automatic: meter.automatic,
                items: 0,
                busy: Duration::ZERO,
                skipped: 0,
            });
            row.workers = row.workers.max(workers);
            row.automatic |= meter.automatic;
            row.items += read(&meter.items);
            row.busy += Duration::from_nanos(read(&meter.nanos));
            row.skipped += read(&meter.skipped);
        }
        let mut queues: Vec<QueueReport> = Vec::new();
        for report in self.queues.iter().map(|gauge| gauge.report()) {
            match queues.iter_mut().find(|queue| queue.name == report.name) {
                Some(queue) => queue.add(&report),
                None => queues.push(report),
            }
        }
        PipelineReport {
            items: read(&self.consumer.items),
            waiting: Duration::from_nanos(read(&self.consumer.waiting)),
            stepping: Duration::from_nanos(read(&self.consumer.stepping)),
            stages: rows.into_values().collect(),
            queues,
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
    /// True if the number of threads is chosen automatically.
    pub automatic: bool,
    /// Items produced.
    pub items: u64,
    /// Time spent producing them, summed over the threads.
    pub busy: Duration,
    /// Errors skipped by `on_error`.
    pub skipped: u64,
}

/// Measurements of a queue: the items that [`Stream::prefetch`](super::Stream::prefetch) or
/// [`Stream::to_device`](super::Stream::to_device) has ready, or the chunks that the workers of
/// [`Stream::parallel_map`](super::Stream::parallel_map) have finished. Queues of the same name are
/// summed.
///
/// A queue that is mostly empty waits for the stages before it, one that is mostly full for those
/// after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReport {
    /// The stage's name.
    pub name: &'static str,
    /// True if the capacity is chosen automatically.
    pub automatic: bool,
    /// The number of items that fit into the queue.
    pub capacity: usize,
    /// Items taken from the queue.
    pub pulls: u64,
    /// The sum of the items that each pull found ready.
    pub total_fill: u64,
    /// The fewest items that a pull found ready.
    pub min_fill: usize,
    /// The most items that a pull found ready.
    pub max_fill: usize,
    /// Pulls that found the queue empty and had to wait.
    pub starved: u64,
    /// Items added to the queue.
    pub pushes: u64,
    /// Items that had to wait because the queue was full.
    pub blocked: u64,
}

impl QueueReport {
    /// Returns the mean number of items that a pull found ready.
    pub fn mean_fill(&self) -> f64 {
        share(self.total_fill, self.pulls)
    }

    /// Returns the share of pulls that had to wait for an item, from 0 to 1.
    pub fn starved_share(&self) -> f64 {
        share(self.starved, self.pulls)
    }

    /// Returns the share of items that had to wait for space, from 0 to 1.
    pub fn blocked_share(&self) -> f64 {
        share(self.blocked, self.pushes)
    }

    /// Adds the counts of a queue of the same name.
    fn add(&mut self, other: &QueueReport) {
        self.min_fill = match (self.pulls, other.pulls) {
            (0, _) => other.min_fill,
            (_, 0) => self.min_fill,
            _ => self.min_fill.min(other.min_fill),
        };
        self.max_fill = self.max_fill.max(other.max_fill);
        self.automatic |= other.automatic;
        self.capacity = self.capacity.max(other.capacity);
        self.pulls += other.pulls;
        self.total_fill += other.total_fill;
        self.starved += other.starved;
        self.pushes += other.pushes;
        self.blocked += other.blocked;
    }

    /// Returns the difference to an earlier report. The extremes are those since the start.
    fn since(&self, earlier: &QueueReport) -> QueueReport {
        QueueReport {
            pulls: self.pulls.saturating_sub(earlier.pulls),
            total_fill: self.total_fill.saturating_sub(earlier.total_fill),
            starved: self.starved.saturating_sub(earlier.starved),
            pushes: self.pushes.saturating_sub(earlier.pushes),
            blocked: self.blocked.saturating_sub(earlier.blocked),
            ..self.clone()
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
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
    /// The queues between threads.
    pub queues: Vec<QueueReport>,
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
        let queues = self.queues.iter().map(|queue| {
            match earlier.queues.iter().find(|other| other.name == queue.name) {
                Some(before) => queue.since(before),
                None => queue.clone(),
            }
        });
        PipelineReport {
            items: self.items.saturating_sub(earlier.items),
            waiting: self.waiting.saturating_sub(earlier.waiting),
            stepping: self.stepping.saturating_sub(earlier.stepping),
            stages: stages.collect(),
            queues: queues.collect(),
        }
    }

    /// Errors skipped by `on_error`.
    pub fn skipped(&self) -> u64 {
        self.stages.iter().map(|stage| stage.skipped).sum()
    }
}

/// Returns a number of workers or a capacity as text.
fn choice(number: usize, automatic: bool) -> String {
    if automatic { format!("auto {number}") } else { number.to_string() }
}

impl fmt::Display for PipelineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "stage         work      workers      items  busy/s  skipped")?;
        for stage in &self.stages {
            let StageReport { name, work, workers, automatic, items, busy, skipped } = stage;
            let work = work.to_string();
            let workers = choice(*workers, *automatic);
            let busy = busy.as_secs_f64();
            writeln!(f, "{name:12}  {work:8}  {workers:>7}  {items:9}  {busy:6.2}  {skipped:7}")?;
        }
        if !self.queues.is_empty() {
            writeln!(f, "queue         capacity  mean fill  min  max  starved  blocked")?;
        }
        for queue in &self.queues {
            let QueueReport { name, min_fill, max_fill, .. } = queue;
            let capacity = choice(queue.capacity, queue.automatic);
            let mean = queue.mean_fill();
            let starved = 100.0 * queue.starved_share();
            let blocked = 100.0 * queue.blocked_share();
            writeln!(
                f,
                "{name:12}  {capacity:>8}  {mean:9.1}  {min_fill:3}  {max_fill:3}  {starved:5.0} %  \
                 {blocked:5.0} %"
            )?;
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
    fn table_shows_queues_and_automatic_choices() {
        let mut instruments = instruments(500, 250);
        instruments.parallel_stage("map", Work::Decode, 4, true).set_workers(6);
        for (name, fills) in [("map", [1, 0, 3]), ("to_device", [2, 2, 2]), ("map", [8, 4, 2])] {
            let gauge = instruments.queue(name, name == "to_device");
            gauge.set_capacity(8);
            for fill in fills {
                gauge.pulled(fill);
                gauge.pushed(fill == 2);
            }
        }
        expect![[r#"
            stage         work      workers      items  busy/s  skipped
            tfrecord      source          1       1000    0.50        0
            map           decode     auto 6        998    1.60        2
            batch         batch           1         10    0.05        0
            queue         capacity  mean fill  min  max  starved  blocked
            map                  8        3.0    0    8     17 %     17 %
            to_device       auto 8        2.0    2    2      0 %    100 %
            2 items: 0.50 s stepping, 1.00 s waiting for data (67 %); the bottleneck is the source"#]]
        .assert_eq(&instruments.report().to_string());
        let before = instruments.report();
        instruments.queues[1].pulled(0);
        let since = instruments.report().since(&before);
        assert_eq!((since.queues[1].pulls, since.queues[1].starved_share()), (1, 1.0));
        assert_eq!(since.queues[0].pulls, 0);
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
