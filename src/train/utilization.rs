//! [`StepWork`] and [`Utilization`]: the share of the peaks that training steps reach.

use crate::monitoring::{
    ListenerId, register_event_duration_secs_listener, unregister_event_duration_listener,
};
#[cfg(feature = "roofline")]
use crate::roofline::Prediction;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The events that are time for compiling.
const COMPILING: [&str; 4] = [
    "/oxidax/compile/trace_duration",
    "/oxidax/compile/lower_duration",
    "/oxidax/compile/backend_compile_duration",
    "/oxidax/cache/load_duration",
];

/// The event that is time for waiting for data.
const WAITING: &str = "/oxidax/data/wait_duration";

/// The work of a training step, from which a [`ProgressBar`](super::ProgressBar) shows rates and
/// shares of the device's peaks.
///
/// [`StepWork::predicted`] counts a traced program; without it, state the numbers:
///
/// ```
/// use oxidax::train::{ProgressBar, StepWork};
/// // 124M parameters, 8 sequences of 1,024 tokens; FLOPs as 6 × parameters × tokens.
/// let tokens = 8.0 * 1024.0;
/// let work = StepWork::new().flops(6.0 * 124e6 * tokens, 197e12).tokens(tokens);
/// let progress = ProgressBar::new(1000).work(work);
/// # drop(progress);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepWork {
    /// Floating-point operations of a device in a step.
    pub flops: f64,
    /// Bytes of a step that a device reads from its memory and writes to it.
    pub bytes: f64,
    /// The number of items in a step, on all devices.
    pub items: f64,
    /// The kind of the items: `tokens` or `examples`.
    pub item: &'static str,
    /// Seconds that the products of a step take at the peak of the matrix units; 0 if unknown.
    pub product_seconds: f64,
    /// Seconds that the bytes of a step take at the peak bandwidth; 0 if unknown.
    pub memory_seconds: f64,
}

impl StepWork {
    /// Returns work without any number.
    pub fn new() -> StepWork {
        StepWork::default()
    }

    /// Counts the work from the prediction of a step. The products of `f32` count at the peak of
    /// `f32`, those of `bf16` at the one of `bf16`, and work that `remat` repeats counts again.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::{DeviceSpec, Roofline};
    /// use oxidax::train::StepWork;
    /// let step = jit(|w: Array, x: Array| x.matmul(&w));
    /// let bf16 = |shape: [usize; 2]| Aval::new(DType::BF16, shape);
    /// let lowered = step.lower(bf16([1024, 1024]), bf16([512, 1024]))?;
    /// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
    /// let work = StepWork::predicted(&Roofline::of(lowered.program()).on(&v5e)).tokens(512.0);
    /// assert_eq!(work.flops, 2.0 * 512.0 * 1024.0 * 1024.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[cfg(feature = "roofline")]
    pub fn predicted(step: &Prediction) -> StepWork {
        StepWork {
            flops: step.flops,
            bytes: step.bytes,
            product_seconds: step.times.products,
            memory_seconds: step.times.memory,
            ..StepWork::default()
        }
    }

    /// Sets the floating-point operations of a device in a step, and its peak per second. `6 ×
    /// parameters × tokens` are those of a transformer's training step.
    #[must_use]
    pub fn flops(self, flops: f64, peak: f64) -> StepWork {
        StepWork { flops, product_seconds: quotient(flops, peak), ..self }
    }

    /// Sets the bytes that a device reads and writes in a step, and its peak per second.
    #[must_use]
    pub fn bytes(self, bytes: f64, peak: f64) -> StepWork {
        StepWork { bytes, memory_seconds: quotient(bytes, peak), ..self }
    }

    /// Sets the number of tokens in a step, on all devices.
    #[must_use]
    pub fn tokens(self, tokens: f64) -> StepWork {
        StepWork { items: tokens, item: "tokens", ..self }
    }

    /// Sets the number of images or other examples in a step, on all devices.
    #[must_use]
    pub fn examples(self, examples: f64) -> StepWork {
        StepWork { items: examples, item: "examples", ..self }
    }
}

/// Divides, and returns 0 where the quotient would not be a finite number.
fn quotient(number: f64, by: f64) -> f64 {
    let quotient = number / by;
    if quotient.is_finite() { quotient } else { 0.0 }
}

/// The rates and shares of peaks of a training loop. Prints as a table with targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Utilization {
    /// Tokens or examples per second, on all devices.
    pub items_per_second: Option<f64>,
    /// The kind of the items: `tokens` or `examples`.
    pub item: &'static str,
    /// The share of the peak of the matrix units (MFU), from 0 to 1.
    pub mfu: Option<f64>,
    /// Bytes per second of a device's memory.
    pub bandwidth: Option<f64>,
    /// The share of the peak bandwidth of a device's memory, from 0 to 1.
    pub bandwidth_share: Option<f64>,
    /// The share of the run that its thread was tracing, compiling or loading programs.
    pub compiling: f64,
    /// The share of the run, without the first step, that it waited for an item of a
    /// [`Stream`](crate::data::Stream).
    pub waiting: f64,
}

impl Utilization {
    /// The smallest share of the peak of the matrix units that a step bound by them should reach.
    pub const MFU: f64 = 0.8;
    /// The smallest share of the bandwidth that a step bound by memory should reach.
    pub const BANDWIDTH: f64 = 0.7;
    /// The largest share of a run that compiling should take.
    pub const COMPILING: f64 = 0.05;
    /// The largest share of a run that waiting for data should take.
    pub const WAITING: f64 = 0.1;

    pub(super) fn of(work: &StepWork, step: Duration, clock: &Clock, run: Run) -> Utilization {
        let step = step.as_secs_f64();
        let rate = |amount: f64| (amount > 0.0 && step > 0.0).then(|| amount / step);
        let share = |part: Duration, whole: Duration| {
            quotient(part.as_secs_f64(), whole.as_secs_f64()).min(1.0)
        };
        let (compiling, waiting) = clock.read();
        Utilization {
            items_per_second: rate(work.items),
            item: work.item,
            mfu: rate(work.product_seconds),
            bandwidth: rate(work.bytes),
            bandwidth_share: rate(work.memory_seconds),
            compiling: share(compiling, run.whole),
            waiting: share(waiting.saturating_sub(run.waited_before), run.after_first),
        }
    }

    /// Returns the shares, each with its target and whether it is met. Of the matrix units and the
    /// memory, one is enough: a step is bound by the other.
    fn shares(&self) -> impl Iterator<Item = Share> {
        let mfu = self.mfu.unwrap_or(0.0);
        let memory = self.bandwidth_share.unwrap_or(0.0);
        let busy = mfu >= Utilization::MFU || memory >= Utilization::BANDWIDTH;
        let least = |name, share: Option<f64>, target| {
            share.map(|share| Share { name, share, target, is_least: true, is_met: busy })
        };
        let most = |name, share: f64, target| {
            Some(Share { name, share, target, is_least: false, is_met: share <= target })
        };
        let shares = [
            least("MFU", self.mfu, Utilization::MFU),
            least("HBM", self.bandwidth_share, Utilization::BANDWIDTH),
            most("compiling", self.compiling, Utilization::COMPILING),
            most("data", self.waiting, Utilization::WAITING),
        ];
        shares.into_iter().flatten()
    }

    /// Returns the text beside a bar, such as `12.3k tokens/s, MFU 41 %!, compiling 2 %`: targets
    /// that are missed have a `!`.
    pub(super) fn short(&self) -> String {
        let items = self.items_per_second.map(|rate| format!("{} {}/s", rounded(rate), self.item));
        let shares = self.shares().map(|share| {
            let mark = if share.is_met { "" } else { "!" };
            format!("{} {:.0} %{mark}", share.name, 100.0 * share.share)
        });
        items.into_iter().chain(shares).collect::<Vec<_>>().join(", ")
    }
}

struct Share {
    name: &'static str,
    share: f64,
    target: f64,
    is_least: bool,
    is_met: bool,
}

impl fmt::Display for Utilization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12} {:>10}  target", "", "reached")?;
        for Share { name, share, target, is_least, .. } in self.shares() {
            let sign = if is_least { '>' } else { '<' };
            let (share, target) = (100.0 * share, 100.0 * target);
            write!(f, "\n{name:<12} {share:8.1} %  {sign} {target:.0} %")?;
        }
        if let Some(bandwidth) = self.bandwidth {
            write!(f, "\n{:<12} {:>10}", "bytes/s", rounded(bandwidth))?;
        }
        if let Some(items) = self.items_per_second {
            write!(f, "\n{:<12} {:>10}", format!("{}/s", self.item), rounded(items))?;
        }
        Ok(())
    }
}

/// Formats a number with three digits and a unit prefix: `12.3k`.
fn rounded(number: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let found = PREFIXES.into_iter().find(|(unit, _)| number >= *unit);
    let (unit, prefix) = found.unwrap_or((1.0, ""));
    let number = number / unit;
    let digits = match number {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{number:.digits$}{prefix}")
}

/// The times that the shares of a run are of.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) whole: Duration,
    /// The time since the first step was called.
    pub(super) after_first: Duration,
    /// The time that was waited for data until then.
    pub(super) waited_before: Duration,
}

/// Counts the time that the thread which made it compiles and waits for data.
pub(super) struct Clock {
    counts: Arc<Counts>,
    listener: ListenerId,
}

#[derive(Default)]
struct Counts {
    compiling: AtomicU64,
    waiting: AtomicU64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let counts = Arc::new(Counts::default());
        let (shared, thread) = (counts.clone(), std::thread::current().id());
        // Programs that other threads compile don't stop the loop.
        let listener = register_event_duration_secs_listener(move |event, seconds, _| {
            let count = match event {
                WAITING => &shared.waiting,
                _ if COMPILING.contains(&event) => &shared.compiling,
                _ => return,
            };
            if std::thread::current().id() == thread {
                count.fetch_add((seconds * 1e9) as u64, Ordering::Relaxed);
            }
        });
        Clock { counts, listener }
    }

    /// Returns the time for compiling and for waiting.
    pub(super) fn read(&self) -> (Duration, Duration) {
        let read = |count: &AtomicU64| Duration::from_nanos(count.load(Ordering::Relaxed));
        (read(&self.counts.compiling), read(&self.counts.waiting))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        unregister_event_duration_listener(self.listener);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::record_event_duration_secs;

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn shares_are_of_the_step_and_of_the_run() {
        let clock = Clock::start();
        record_event_duration_secs(COMPILING[2], 2.0, &[]);
        record_event_duration_secs(WAITING, 5.0, &[]);
        record_event_duration_secs("/app/other", 7.0, &[]);
        std::thread::spawn(|| record_event_duration_secs(WAITING, 100.0, &[])).join().unwrap();
        let work = StepWork::new().flops(3e12, 4e12).bytes(1e9, 8e9).tokens(12_345.0);
        let run = Run { whole: seconds(100), after_first: seconds(8), waited_before: seconds(3) };
        let reached = Utilization::of(&work, seconds(1), &clock, run);
        assert_eq!((reached.mfu, reached.bandwidth_share), (Some(0.75), Some(0.125)));
        assert_eq!((reached.compiling, reached.waiting), (0.02, 0.25));
        assert_eq!(
            reached.short(),
            "12.3k tokens/s, MFU 75 %!, HBM 12 %!, compiling 2 %, data 25 %!"
        );
        let table = [
            "                reached  target",
            "MFU              75.0 %  > 80 %",
            "HBM              12.5 %  > 70 %",
            "compiling         2.0 %  < 5 %",
            "data             25.0 %  < 10 %",
            "bytes/s           1.00G",
            "tokens/s          12.3k",
        ];
        assert_eq!(reached.to_string(), table.join("\n"));
    }

    #[test]
    fn numbers_that_are_not_known_are_left_out() {
        let run = Run { whole: seconds(0), after_first: seconds(0), waited_before: seconds(0) };
        let clock = Clock::start();
        let work = StepWork::new().flops(1.0, 0.0);
        let nothing = Utilization::of(&work, Duration::ZERO, &clock, run);
        assert_eq!(nothing.short(), "compiling 0 %, data 0 %");
        let busy = StepWork::new().flops(1.0, 10.0).bytes(9.0, 10.0);
        let busy = Utilization::of(&busy, seconds(1), &clock, run);
        // Bound by memory, so the matrix units are not expected to be busy.
        assert_eq!(busy.short(), "MFU 10 %, HBM 90 %, compiling 0 %, data 0 %");
    }
}
