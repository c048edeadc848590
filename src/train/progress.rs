//! A progress bar for training loops.

use super::bar::Bar;
use super::metric::Metric;
use super::utilization::{Clock, Run, StepWork, Utilization};
use crate::core::{Array, Error};
use std::collections::VecDeque;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Interval of lines if standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Number of pending losses from which a call waits for the oldest.
const MAX_PENDING_LOSSES: usize = 1024;

/// A progress bar with the newest available loss and the step time. If standard error is not a
/// terminal, it prints a line every ten seconds.
///
/// The first step, which compiles, does not count toward the mean. With [`ProgressBar::work`], it
/// also shows tokens per second, and the shares of the peaks, of compiling and of waiting for data.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::ProgressBar;
/// let mut progress = ProgressBar::new(2);
/// for loss in [0.5f32, 0.25] {
///     progress.inc(&full([], loss))?;
/// }
/// let pace = progress.finish()?;
/// println!("first step {:?}, then {:?} each", pace.first_step, pace.step);
/// # Ok::<(), Error>(())
/// ```
pub struct ProgressBar {
    bar: Bar,
    waiting: VecDeque<Metric>,
    newest: Option<f64>,
    n_steps: u64,
    began: Instant,
    /// The time at which the first step had been called.
    first: Option<Instant>,
    line_due: Instant,
    /// The work of a step, the times that are not steps, and the wait for data before the second.
    work: Option<(StepWork, Clock, Duration)>,
}

/// Step times of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pace {
    /// The number of steps.
    pub n_steps: u64,
    /// The time until the first step was compiled and called.
    pub first_step: Duration,
    /// The mean time of the other steps. Zero if there were none.
    pub step: Duration,
    /// The last loss. NaN if there was none.
    pub loss: f64,
    /// Rates and shares of peaks, with [`ProgressBar::work`]. Prints as a table with targets.
    pub utilization: Option<Utilization>,
}

impl fmt::Debug for ProgressBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgressBar({} of {} steps)", self.n_steps, self.bar.length())
    }
}

impl ProgressBar {
    /// Creates a bar for `n_steps` steps and starts the clock.
    pub fn new(n_steps: u64) -> ProgressBar {
        let now = Instant::now();
        ProgressBar {
            bar: Bar::new(n_steps),
            waiting: VecDeque::new(),
            newest: None,
            n_steps: 0,
            began: now,
            first: None,
            line_due: now + LINE_EVERY,
            work: None,
        }
    }

    /// Shows what the steps reach: tokens per second, the shares of the peaks of matrix units (MFU)
    /// and memory (HBM), and the shares of the run in which this thread compiles or waits for data.
    /// A share that misses its target, of [`Utilization`], has a `!`.
    ///
    /// Compiling and waiting are counted from this call on, by a listener of
    /// [`monitoring`](crate::monitoring).
    #[must_use]
    pub fn work(mut self, work: StepWork) -> ProgressBar {
        self.work = Some((work, Clock::start(), Duration::ZERO));
        self
    }

    /// Starts at another step than 0, for a resumed run.
    pub fn from_step(mut self, step: u64) -> ProgressBar {
        self.bar.set_position(step);
        self
    }

    /// Counts a step with this loss. Reads losses that are available and waits for none.
    ///
    /// # Errors
    /// `Data` if the loss is not a single real number. `Runtime` if the computation of an earlier
    /// loss failed.
    pub fn inc(&mut self, loss: &Array) -> Result<(), Error> {
        self.waiting.push_back(Metric::from(loss).checked("inc", "loss")?);
        self.n_steps += 1;
        if self.first.is_none() {
            self.first = Some(Instant::now());
            if let Some((_, clock, waited)) = &mut self.work {
                *waited = clock.read().1;
            }
        }
        while let Some(oldest) = self.waiting.front() {
            if self.waiting.len() <= MAX_PENDING_LOSSES && !oldest.is_ready()? {
                break;
            }
            self.newest = Some(oldest.read()?);
            self.waiting.pop_front();
        }
        // Most steps are shorter than the time between two drawings.
        if self.bar.advance() {
            let message = self.message();
            self.bar.show(&message);
        }
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
        let reached = self.utilization().map(|reached| reached.short());
        loss.into_iter().chain(pace).chain(reached).collect::<Vec<_>>().join(", ")
    }

    /// Returns what the steps reached so far; `None` without [`ProgressBar::work`].
    pub fn utilization(&self) -> Option<Utilization> {
        let (work, clock, waited_before) = self.work.as_ref()?;
        let after_first = self.first.map_or(Duration::ZERO, |first| first.elapsed());
        let run = Run { whole: self.began.elapsed(), after_first, waited_before: *waited_before };
        Some(Utilization::of(work, self.step_time(), clock, run))
    }

    fn line(&self) {
        let (at, of) = (self.bar.position(), self.bar.length());
        // A closed standard error is not a failure of the run.
        drop(writeln!(std::io::stderr(), "step {at} of {of}, {}", self.message()));
    }

    fn step_time(&self) -> Duration {
        let others = u32::try_from(self.n_steps.saturating_sub(1)).unwrap_or(u32::MAX);
        match (self.first, others) {
            (Some(first), 1..) => first.elapsed() / others,
            _ => Duration::ZERO,
        }
    }

    /// Waits for the last loss and leaves the bar on the terminal.
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
            utilization: self.utilization(),
        })
    }
}
