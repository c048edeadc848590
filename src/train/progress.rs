//! How far a run is.

use super::bar::Bar;
use super::number::Metric;
use crate::core::{Array, Error};
use std::collections::VecDeque;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How often a line is written where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How many losses may be on their way before the oldest is waited for.
const MOST_WAITING: usize = 1024;

/// A bar on the terminal, with the newest loss that has arrived and the pace of the steps. Where standard error is
/// no terminal, a line every ten seconds.
///
/// The first step, which compiles, does not count for the pace.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::Progress;
/// let mut progress = Progress::new(2);
/// for loss in [0.5f32, 0.25] {
///     progress.inc(&full([], loss))?;
/// }
/// let pace = progress.finish()?;
/// println!("first step {:?}, then {:?} each", pace.first_step, pace.step);
/// # Ok::<(), Error>(())
/// ```
pub struct Progress {
    bar: Bar,
    waiting: VecDeque<Metric>,
    newest: Option<f64>,
    n_steps: u64,
    began: Instant,
    /// When the first step was over.
    first: Option<Instant>,
    line_due: Instant,
}

/// How long steps took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// How many there were.
    pub n_steps: u64,
    /// The time until the first was called and had been compiled.
    pub first_step: Duration,
    /// The mean time of the others; zero if there were none.
    pub step: Duration,
    /// The last loss; NaN if there was none.
    pub loss: f64,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress({} of {} steps)", self.n_steps, self.bar.length())
    }
}

impl Progress {
    /// A bar of so many steps. The clock starts.
    pub fn new(n_steps: u64) -> Progress {
        let now = Instant::now();
        Progress {
            bar: Bar::new(n_steps),
            waiting: VecDeque::new(),
            newest: None,
            n_steps: 0,
            began: now,
            first: None,
            line_due: now + LINE_EVERY,
        }
    }

    /// Begins at a step other than 0: a run that is resumed.
    pub fn from_step(mut self, step: u64) -> Progress {
        self.bar.set_position(step);
        self
    }

    /// A step has been called, with this loss. Reads the losses that have arrived and waits for none.
    ///
    /// # Errors
    /// `Data` if the loss is no array of one real number; `Runtime` if the computation of an earlier one failed.
    pub fn inc(&mut self, loss: &Array) -> Result<(), Error> {
        self.waiting.push_back(Metric::from(loss).checked("inc", "loss")?);
        self.n_steps += 1;
        self.first.get_or_insert_with(Instant::now);
        while let Some(oldest) = self.waiting.front() {
            if self.waiting.len() <= MOST_WAITING && !oldest.is_ready()? {
                break;
            }
            self.newest = Some(oldest.read()?);
            self.waiting.pop_front();
        }
        self.bar.advance(&self.message());
        if self.bar.is_hidden() && Instant::now() >= self.line_due {
            self.line_due = Instant::now() + LINE_EVERY;
            self.line();
        }
        Ok(())
    }

    fn message(&self) -> String {
        let loss = self.newest.map(|loss| format!("loss {loss:.4}"));
        let step = self.step_time();
        let pace = (!step.is_zero()).then(|| format!("{:.2} ms a step", step.as_secs_f64() * 1e3));
        loss.into_iter().chain(pace).collect::<Vec<_>>().join(", ")
    }

    fn line(&self) {
        let (at, of) = (self.bar.position(), self.bar.length());
        // Nobody is told if standard error is closed.
        drop(writeln!(std::io::stderr(), "step {at} of {of}, {}", self.message()));
    }

    fn step_time(&self) -> Duration {
        let others = u32::try_from(self.n_steps.saturating_sub(1)).unwrap_or(u32::MAX);
        match (self.first, others) {
            (Some(first), 1..) => first.elapsed() / others,
            _ => Duration::ZERO,
        }
    }

    /// Waits for the last loss and leaves the bar as it stands.
    ///
    /// # Errors
    /// `Runtime` if the computation of a loss failed.
    pub fn finish(mut self) -> Result<Pace, Error> {
        while let Some(loss) = self.waiting.pop_front() {
            self.newest = Some(loss.read()?);
        }
        if self.bar.is_hidden() {
            self.line();
        }
        self.bar.finish(&self.message());
        Ok(Pace {
            n_steps: self.n_steps,
            first_step: self.first.map_or(Duration::ZERO, |first| first - self.began),
            step: self.step_time(),
            loss: self.newest.unwrap_or(f64::NAN),
        })
    }
}
