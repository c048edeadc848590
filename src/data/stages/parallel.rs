//! Making something of each item, on several threads.

use super::map::{MAP, applied, seek_past};
use crate::core::{Error, RuleError, throw_operands};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a piece of work should take: much longer than handing it over, much shorter than a step.
const PIECE: Duration = Duration::from_micros(200);
/// Most items in a piece.
const LARGEST_PIECE: usize = 64;
/// Pieces under way for each worker: one being made, one waiting.
const PIECES_PER_WORKER: usize = 2;

impl<T: Send + 'static> Stream<T> {
    /// What `f` makes of each item, on `workers` threads of their own. The results come in the order of the
    /// items, the same as [`Stream::map`] gives them.
    ///
    /// At most two pieces of work a thread are under way or waiting to be taken; a piece is one item, or
    /// up to 64 if `f` is so quick that handing them over one by one would cost more than making them. The
    /// items are read on the thread that asks for results.
    ///
    /// Throws `Op` (value) if there are no workers.
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
        workers: usize,
        f: impl Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    ) -> Stream<U> {
        if workers == 0 {
            let error = RuleError::value("needs at least 1 worker, got 0");
            throw_operands("parallel_map", error, &[]);
        }
        self.through(|above, instruments| ParallelMap {
            above,
            f: Arc::new(f),
            workers,
            meter: instruments.stage("map", Work::Decode, workers),
            crew: None,
            pieces: VecDeque::new(),
            first: 0,
            front: VecDeque::new(),
            given: 0,
            at: Position::default(),
            ended: false,
        })
    }
}

type Results<U> = VecDeque<Result<Item<U>, Error>>;

struct ParallelMap<T, U, F> {
    above: BoxedStage<T>,
    f: Arc<F>,
    workers: usize,
    meter: Arc<Meter>,
    crew: Option<Crew<T, U>>,
    /// Pieces under way, in order.
    pieces: VecDeque<Piece<U>>,
    /// The number of the first of them.
    first: u64,
    /// What is left of the piece before them.
    front: Results<U>,
    /// How many items of that piece have been given.
    given: u64,
    /// Where the stage above stood before that piece.
    at: Position,
    ended: bool,
}

struct Piece<U> {
    before: Position,
    results: Option<Results<U>>,
}

struct Job<T> {
    number: u64,
    items: Vec<Result<Item<T>, Error>>,
}

/// The threads, and the ways to and from them.
struct Crew<T, U> {
    jobs: Option<Sender<Job<T>>>,
    results: Receiver<(u64, Results<U>)>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static, U: Send + 'static> Crew<T, U> {
    fn hire<F>(workers: usize, f: &Arc<F>, meter: &Arc<Meter>) -> Result<Crew<T, U>, Error>
    where
        F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
    {
        let (jobs, waiting) = channel::<Job<T>>();
        let (finished, results) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let stop = Arc::new(AtomicBool::new(false));
        let mut crew = Crew { jobs: Some(jobs), results, stop: stop.clone(), threads: Vec::new() };
        for worker in 0..workers {
            let (waiting, finished, stop) = (waiting.clone(), finished.clone(), stop.clone());
            let (f, meter) = (f.clone(), meter.clone());
            let work = move || {
                loop {
                    // Nothing can panic while the lock is held.
                    let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { number, items }) = job else { return };
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
                    if finished.send((number, made)).is_err() {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("oxidax-map-{worker}")).spawn(work);
            crew.threads.push(thread.map_err(|error| {
                Error::data("parallel_map", format!("worker {worker} could not start: {error}"))
            })?);
        }
        Ok(crew)
    }
}

impl<T, U> Drop for Crew<T, U> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Without a sender the threads that wait for a job stop waiting.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of the closure was caught where it happened.
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
    /// Hands out work until enough is under way.
    fn hand_out(&mut self) -> Result<(), Error> {
        while !self.ended && self.pieces.len() < self.workers * PIECES_PER_WORKER {
            let mut before = Position::default();
            self.above.position(&mut before);
            let size = self.piece_size();
            let items: Vec<_> = std::iter::from_fn(|| self.above.next()).take(size).collect();
            self.ended = items.len() < size;
            if items.is_empty() {
                return Ok(());
            }
            if self.crew.is_none() {
                self.crew = Some(Crew::hire(self.workers, &self.f, &self.meter)?);
            }
            let number = self.first + self.pieces.len() as u64;
            let jobs = self.crew.as_ref().and_then(|crew| crew.jobs.as_ref());
            jobs.and_then(|jobs| jobs.send(Job { number, items }).ok()).ok_or_else(lost)?;
            self.pieces.push_back(Piece { before, results: None });
        }
        Ok(())
    }

    /// As many items as take long enough to make.
    fn piece_size(&self) -> usize {
        let Some(each) = self.meter.mean() else { return 1 };
        let fitting = PIECE.as_nanos() / each.as_nanos().max(1);
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, LARGEST_PIECE)
    }

    /// Waits for the first piece under way, and puts it to the front. `false` if there is none.
    fn fetch(&mut self) -> Result<bool, Error> {
        while self.pieces.front().is_some_and(|piece| piece.results.is_none()) {
            let crew = self.crew.as_ref().ok_or_else(lost)?;
            let (number, results) = crew.results.recv().map_err(|_| lost())?;
            let place = (number - self.first) as usize;
            self.pieces[place].results = Some(results);
        }
        let Some(piece) = self.pieces.pop_front() else { return Ok(false) };
        self.first += 1;
        self.at = piece.before;
        self.given = 0;
        self.front = piece.results.unwrap_or_default();
        Ok(true)
    }

    /// Forgets all work, and lets the threads go.
    fn dismiss(&mut self) {
        self.crew = None;
        self.pieces.clear();
        self.front.clear();
        (self.first, self.given, self.ended) = (0, 0, false);
        self.at = Position::default();
    }
}

/// The threads are gone though they were not sent away.
fn lost() -> Error {
    Error::data("parallel_map", "this is a bug in oxidax: the workers ended early")
}

impl<T, U, F> Stage<U> for ParallelMap<T, U, F>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> Result<U, Error> + Send + Sync + 'static,
{
    fn next(&mut self) -> Next<U> {
        if self.front.is_empty() {
            let fetched = self.hand_out().and_then(|()| self.fetch());
            match fetched {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.dismiss();
                    self.ended = true;
                    return Some(Err(error));
                }
            }
            // The threads work on while these results are taken.
            if let Err(error) = self.hand_out() {
                self.dismiss();
                self.ended = true;
                return Some(Err(error));
            }
        }
        let item = self.front.pop_front()?;
        self.given += 1;
        Some(item)
    }

    fn position(&self, at: &mut Position) {
        at.push(MAP, &[self.given]);
        match self.first == 0 {
            // Nothing has been given. What is under way, if anything, began where the first piece did.
            true => match self.pieces.front() {
                Some(piece) => at.extend(&piece.before),
                None => self.above.position(at),
            },
            false => at.extend(&self.at),
        }
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        self.dismiss();
        seek_past(&mut self.above, at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.dismiss();
        self.above.restart(epoch)
    }
}
