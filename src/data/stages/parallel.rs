//! Applying a function to each item on several threads.

use super::autotune::{Parallelism, WorkerMeasurements};
use super::map::{MAP, applied, seek_past};
use crate::core::{Error, RuleError, throw_operands};
use crate::data::instruments::{Gauge, Meter, Work};
use crate::data::origin::{Item, Next};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Target time of a chunk: much longer than its dispatch, much shorter than a training step.
const CHUNK_TIME: Duration = Duration::from_micros(200);
/// Largest number of items in a chunk.
const MAX_CHUNK_ITEMS: usize = 64;
/// Chunks in flight per worker: one running, one waiting.
const CHUNKS_PER_WORKER: usize = 2;
/// Time between two checks that the workers are alive, while waiting for them.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Chunks between two decisions about the number of workers.
const DECISION_CHUNKS: u64 = 16;

impl<T: Send + 'static> Stream<T> {
    /// Applies `f` to each item on `workers` threads. Results are in the order of the items, equal
    /// to those of [`Stream::map`].
    ///
    /// `workers` is a number, or [`Parallelism::Auto`]: as many threads as keep up with the
    /// program, from the times of `f`, of reading and of the program's step.
    ///
    /// At most two chunks per worker are in flight. A chunk is one item, or up to 64 items if `f`
    /// is fast compared with the cost of dispatching. Items are read on the thread that pulls
    /// results.
    ///
    /// Throws `Op` (value) if `workers` is 0.
    ///
    /// ```
    /// use oxidax::data::{Source, Synthetic};
    /// let squares = Synthetic::new(5, Ok).stream().parallel_map(2, |number| Ok(number * number));
    /// assert_eq!(squares.collect::<Result<Vec<_>, _>>()?, [0, 1, 4, 9, 16]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn parallel_map<U: Send + 'static>(
        self,
        workers: impl Into<Parallelism>,
        f: impl Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    ) -> Stream<U> {
        let (workers, most) = workers.into().workers();
        if workers == 0 {
            let error = RuleError::value("needs at least 1 worker, got 0");
            throw_operands("parallel_map", error, &[]);
        }
        self.through(|upstream, instruments| ParallelMap {
            upstream,
            f: Arc::new(f),
            workers,
            tuning: most.map(Tuning::new),
            meter: instruments.parallel_stage("map", Work::Decode, workers, most.is_some()),
            gauge: instruments.queue("map", most.is_some()),
            pool: None,
            chunks: VecDeque::new(),
            first: 0,
            front: VecDeque::new(),
            yielded: 0,
            upstream_position: Position::default(),
            ended: false,
        })
    }
}

type Results<U> = VecDeque<Result<Item<U>, Error>>;

struct ParallelMap<T, U, F> {
    upstream: BoxedStage<T>,
    f: Arc<F>,
    workers: usize,
    /// Set if the number of workers is chosen automatically.
    tuning: Option<Tuning>,
    meter: Arc<Meter>,
    gauge: Arc<Gauge>,
    pool: Option<Workers<T, U>>,
    /// Chunks in flight, in order.
    chunks: VecDeque<Chunk<U>>,
    /// The number of the first chunk in flight.
    first: u64,
    /// Remaining results of the chunk before the first.
    front: Results<U>,
    /// Results already yielded from that chunk.
    yielded: u64,
    /// The upstream position before that chunk.
    upstream_position: Position,
    ended: bool,
}

/// Measurements since the last decision about the number of workers.
struct Tuning {
    most: usize,
    chunks: u64,
    items: u64,
    /// Time in which the thread that pulls items did other work.
    stepping: Duration,
    /// Time of reading upstream.
    reading: Duration,
    /// The items and the time of the function at the last decision.
    mapped: (u64, Duration),
    /// The time at which the last item was yielded.
    yielded: Option<Instant>,
}

impl Tuning {
    fn new(most: usize) -> Tuning {
        let (stepping, reading) = (Duration::ZERO, Duration::ZERO);
        let mapped = (0, Duration::ZERO);
        Tuning { most, chunks: 0, items: 0, stepping, reading, mapped, yielded: None }
    }

    /// Counts a chunk, and decides after enough of them.
    fn finished(&mut self, workers: usize, meter: &Meter) -> usize {
        self.chunks += 1;
        let (items, time) = meter.totals();
        let mapped = items - self.mapped.0;
        if self.chunks < DECISION_CHUNKS || mapped == 0 || self.items == 0 {
            return workers;
        }
        // The lengths of means fit: they are shorter than the sums.
        let mean =
            |time: Duration, items: u64| Duration::from_secs_f64(time.as_secs_f64() / items as f64);
        let measured = WorkerMeasurements {
            workers,
            map: mean(time.saturating_sub(self.mapped.1), mapped),
            interval: mean(self.stepping + self.reading, self.items),
        };
        *self = Tuning { mapped: (items, time), yielded: self.yielded, ..Tuning::new(self.most) };
        measured.decide(self.most)
    }
}

struct Chunk<U> {
    before: Position,
    results: Option<Results<U>>,
}

struct Job<T> {
    number: u64,
    items: Vec<Result<Item<T>, Error>>,
}

/// The worker threads and their channels.
struct Workers<T, U> {
    /// Jobs. `None` ends one worker.
    jobs: Option<Sender<Option<Job<T>>>>,
    waiting: Arc<Mutex<Receiver<Option<Job<T>>>>>,
    finished: Sender<(u64, Results<U>)>,
    results: Receiver<(u64, Results<U>)>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Workers that have not been ended.
    count: usize,
    /// Workers started so far.
    started: usize,
}

impl<T: Send + 'static, U: Send + 'static> Workers<T, U> {
    fn start<F>(workers: usize, f: &Arc<F>, meter: &Arc<Meter>) -> Result<Workers<T, U>, Error>
    where
        F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    {
        let (jobs, waiting) = channel();
        let (finished, results) = channel();
        let mut pool = Workers {
            jobs: Some(jobs),
            waiting: Arc::new(Mutex::new(waiting)),
            finished,
            results,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            count: 0,
            started: 0,
        };
        pool.resize(workers, f, meter)?;
        Ok(pool)
    }

    /// Starts or ends workers. A worker ends after its current chunk.
    fn resize<F>(&mut self, workers: usize, f: &Arc<F>, meter: &Arc<Meter>) -> Result<(), Error>
    where
        F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    {
        while self.count > workers {
            self.count -= 1;
            let jobs = self.jobs.as_ref();
            jobs.and_then(|jobs| jobs.send(None).ok()).ok_or_else(workers_ended)?;
        }
        while self.count < workers {
            self.count += 1;
            self.threads.push(self.spawn(f.clone(), meter.clone())?);
            self.started += 1;
        }
        Ok(())
    }

    fn spawn<F>(&self, f: Arc<F>, meter: Arc<Meter>) -> Result<JoinHandle<()>, Error>
    where
        F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    {
        let (waiting, stop) = (self.waiting.clone(), self.stop.clone());
        let finished = self.finished.clone();
        let work = move || {
            loop {
                // Nothing can panic while the lock is held.
                let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(Some(Job { number, items })) = job else { return };
                let span = meter.span();
                let start = Instant::now();
                let count = items.len() as u64;
                let mut made = VecDeque::with_capacity(items.len());
                for item in items {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    made.push_back(item.and_then(|item| applied(item, &*f)));
                }
                meter.add(count, start.elapsed());
                drop(span.with("items", count));
                if finished.send((number, made)).is_err() {
                    return;
                }
            }
        };
        let worker = self.started;
        let thread = thread::Builder::new().name(format!("oxidax-map-{worker}")).spawn(work);
        thread.map_err(|error| {
            Error::data("parallel_map", format!("worker {worker} could not start: {error}"))
        })
    }

    /// Waits for a finished chunk.
    fn receive(&self) -> Result<(u64, Results<U>), Error> {
        loop {
            match self.results.recv_timeout(CHECK_INTERVAL) {
                Ok(finished) => return Ok(finished),
                Err(_) => {
                    // Those that were ended by a message have finished, no others.
                    let finished = self.threads.iter().filter(|thread| thread.is_finished());
                    if finished.count() > self.started - self.count {
                        return Err(workers_ended());
                    }
                }
            }
        }
    }
}

impl<T, U> Drop for Workers<T, U> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Closing the channel wakes threads that wait for a job.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of the closure was caught at its call.
            drop(thread.join());
        }
    }
}

impl<T, U, F> ParallelMap<T, U, F>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
{
    /// Dispatches chunks until enough are in flight.
    fn dispatch(&mut self) -> Result<(), Error> {
        while !self.ended && self.chunks.len() < self.workers * CHUNKS_PER_WORKER {
            let mut before = Position::default();
            self.upstream.position(&mut before);
            let size = self.chunk_size();
            let start = Instant::now();
            let items: Vec<_> = std::iter::from_fn(|| self.upstream.next()).take(size).collect();
            if let Some(tuning) = &mut self.tuning {
                tuning.reading += start.elapsed();
            }
            self.ended = items.len() < size;
            if items.is_empty() {
                return Ok(());
            }
            if self.pool.is_none() {
                self.gauge.set_capacity(self.workers * CHUNKS_PER_WORKER);
                self.pool = Some(Workers::start(self.workers, &self.f, &self.meter)?);
            }
            let number = self.first + self.chunks.len() as u64;
            let jobs = self.pool.as_ref().and_then(|pool| pool.jobs.as_ref());
            jobs.and_then(|jobs| jobs.send(Some(Job { number, items })).ok())
                .ok_or_else(workers_ended)?;
            self.chunks.push_back(Chunk { before, results: None });
        }
        Ok(())
    }

    /// Returns the number of items whose processing takes about the target time.
    fn chunk_size(&self) -> usize {
        let Some(each) = self.meter.mean() else { return 1 };
        let fitting = CHUNK_TIME.as_nanos() / each.as_nanos().max(1);
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, MAX_CHUNK_ITEMS)
    }

    /// Waits for the first chunk in flight and moves its results to the front. Returns false if
    /// there is none.
    fn fetch(&mut self) -> Result<bool, Error> {
        let Some(pool) = &self.pool else { return Ok(false) };
        if self.chunks.is_empty() {
            return Ok(false);
        }
        for (number, results) in pool.results.try_iter() {
            self.chunks[(number - self.first) as usize].results = Some(results);
        }
        let finished = self.chunks.iter().filter(|chunk| chunk.results.is_some()).count();
        let is_ready = self.chunks[0].results.is_some();
        // Chunks behind an unfinished first one are not ready to be taken.
        self.gauge.pulled(if is_ready { finished } else { 0 });
        self.gauge.pushed(finished == self.chunks.len());
        while self.chunks[0].results.is_none() {
            let (number, results) = pool.receive()?;
            self.chunks[(number - self.first) as usize].results = Some(results);
        }
        let Some(chunk) = self.chunks.pop_front() else { return Ok(false) };
        self.first += 1;
        self.upstream_position = chunk.before;
        self.yielded = 0;
        self.front = chunk.results.unwrap_or_default();
        self.tune()?;
        Ok(true)
    }

    /// Decides on the number of workers, if it is chosen automatically.
    fn tune(&mut self) -> Result<(), Error> {
        let Some(tuning) = &mut self.tuning else { return Ok(()) };
        let workers = tuning.finished(self.workers, &self.meter);
        if workers != self.workers {
            self.workers = workers;
            self.meter.set_workers(workers);
            self.gauge.set_capacity(workers * CHUNKS_PER_WORKER);
            if let Some(pool) = &mut self.pool {
                pool.resize(workers, &self.f, &self.meter)?;
            }
        }
        Ok(())
    }

    /// Stops the workers and drops all chunks.
    fn stop_workers(&mut self) {
        self.pool = None;
        self.chunks.clear();
        self.front.clear();
        (self.first, self.yielded, self.ended) = (0, 0, false);
        self.upstream_position = Position::default();
    }
}

/// Returns the error for workers that ended without being stopped.
fn workers_ended() -> Error {
    Error::data("parallel_map", "this is a bug in oxidax: the workers ended unexpectedly")
}

impl<T, U, F> Stage<U> for ParallelMap<T, U, F>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
{
    fn next(&mut self) -> Next<U> {
        if let Some(tuning) = &mut self.tuning
            && let Some(yielded) = tuning.yielded.take()
        {
            tuning.stepping += yielded.elapsed();
        }
        if self.front.is_empty() {
            let fetched = self.dispatch().and_then(|()| self.fetch());
            match fetched {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.stop_workers();
                    self.ended = true;
                    return Some(Err(error));
                }
            }
            // The workers continue while these results are consumed.
            if let Err(error) = self.dispatch() {
                self.stop_workers();
                self.ended = true;
                return Some(Err(error));
            }
        }
        let item = self.front.pop_front()?;
        self.yielded += 1;
        if let Some(tuning) = &mut self.tuning {
            tuning.items += 1;
            tuning.yielded = Some(Instant::now());
        }
        Some(item)
    }

    fn position(&self, position: &mut Position) {
        position.push(MAP, &[self.yielded]);
        if self.first > 0 {
            return position.extend(&self.upstream_position);
        }
        // Nothing has been yielded. Chunks in flight start at the first one's position.
        match self.chunks.front() {
            Some(chunk) => position.extend(&chunk.before),
            None => self.upstream.position(position),
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        self.stop_workers();
        seek_past(&mut self.upstream, cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.stop_workers();
        self.upstream.restart(epoch)
    }
}
