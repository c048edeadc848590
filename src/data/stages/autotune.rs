//! Automatic choice of workers and depths from measurements.
//!
//! The decisions are pure functions ([`WorkerMeasurements::decide`],
//! [`DepthMeasurements::decide`]). Stages call them every few items with what they have measured
//! since.

use std::time::Duration;

/// The number of threads of [`Stream::parallel_map`](crate::data::Stream::parallel_map), or of
/// items that [`Stream::prefetch`](crate::data::Stream::prefetch) and
/// [`Stream::to_device`](crate::data::Stream::to_device) keep ready. A number converts into it.
///
/// Automatic choices start low and follow measurements. Items and their order do not depend on
/// them. [`Instruments::report`](crate::data::Instruments::report) shows the current choice as
/// `auto 3`.
///
/// ```
/// use oxidax::data::{Parallelism, Source, Synthetic};
/// let squares = Synthetic::new(1000, Ok).stream().parallel_map(Parallelism::Auto, |n| Ok(n * n));
/// let squares = squares.prefetch(Parallelism::Auto);
/// let instruments = squares.instruments();
/// assert_eq!(squares.collect::<Result<Vec<_>, _>>()?[999], 999 * 999);
/// println!("{}", instruments.report());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "AUTOTUNE")]
pub enum Parallelism {
    /// This number.
    Fixed(usize),
    /// Chosen while the pipeline runs. There are at most as many workers as cores that the process
    /// may use, and a depth is at most 64. A depth shrinks while the process uses more memory than
    /// the budget: what it used at the start and half of what was available then.
    Auto,
    /// As `Auto`, with at most this number.
    AutoUpTo(usize),
}

impl From<usize> for Parallelism {
    fn from(number: usize) -> Parallelism {
        Parallelism::Fixed(number)
    }
}

/// The largest depth that is chosen automatically.
const MAX_DEPTH: usize = 64;
/// Workers and depth before the first measurement.
const START: usize = 2;

impl Parallelism {
    /// Returns the number at the start, and the largest number if it may change.
    fn bounds(self, limit: impl FnOnce() -> usize) -> (usize, Option<usize>) {
        match self {
            Parallelism::Fixed(number) => (number, None),
            Parallelism::Auto => {
                let limit = limit();
                (START.min(limit), Some(limit))
            }
            Parallelism::AutoUpTo(most) => {
                let most = most.max(1);
                (START.min(most), Some(most))
            }
        }
    }

    /// Returns the workers at the start, and the most if they may change.
    pub(super) fn workers(self) -> (usize, Option<usize>) {
        self.bounds(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the depth at the start, and the largest if it may change.
    pub(super) fn depth(self) -> (usize, Option<usize>) {
        self.bounds(|| MAX_DEPTH)
    }
}

/// Measurements of a parallel map since the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkerMeasurements {
    /// Workers at present.
    pub(super) workers: usize,
    /// Mean time of the function for one item, on one worker.
    pub(super) map: Duration,
    /// Mean time between two items in which the thread that pulls them reads upstream and does
    /// other work.
    pub(super) interval: Duration,
}

impl WorkerMeasurements {
    /// Returns the number of workers that supplies an item per interval, and at most `most`. A
    /// number that is too large shrinks by one.
    pub(super) fn decide(self, most: usize) -> usize {
        let WorkerMeasurements { workers, map, interval } = self;
        let needed = match interval.as_nanos() {
            0 => most,
            interval => {
                usize::try_from(map.as_nanos().div_ceil(interval)).unwrap_or(usize::MAX).min(most)
            }
        };
        needed.max(workers.saturating_sub(1)).clamp(1, most.max(1))
    }
}

/// Measurements of a queue since the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DepthMeasurements {
    /// Depth at present.
    pub(super) depth: usize,
    /// Smallest and largest number of items that a pull found.
    pub(super) fill: (usize, usize),
    /// True if the sender had to wait for space.
    pub(super) blocked: bool,
    /// True if the process uses more memory than the budget.
    pub(super) over_budget: bool,
}

impl DepthMeasurements {
    /// Returns the next depth, at most `most`.
    ///
    /// A queue that was both full and empty smooths uneven work: its depth doubles. If it was never
    /// full the sender is too slow, and a deeper queue stays empty as well. If it was never less
    /// than half full its depth halves, and so it does if memory is short.
    pub(super) fn decide(self, most: usize) -> usize {
        let DepthMeasurements { depth, fill: (least, largest), blocked, over_budget } = self;
        let full = blocked || largest >= depth;
        let next = match (over_budget, least) {
            (true, _) => depth / 2,
            (false, 0) if full => depth.saturating_mul(2),
            (false, least) if depth > START && 2 * least > depth => depth.div_ceil(2).max(START),
            _ => depth,
        };
        next.clamp(1, most.max(1))
    }
}

/// The memory that the process may use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryBudget(Option<u64>);

impl MemoryBudget {
    /// Reads the current use and the available memory. Without `/proc` there is no limit.
    pub(super) fn now() -> MemoryBudget {
        let available = || {
            let text = std::fs::read_to_string("/proc/meminfo").ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        let group = || {
            let number = |name| -> Option<u64> {
                std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
            };
            Some(number("memory.max")?.saturating_sub(number("memory.current")?))
        };
        let free = match (available(), group()) {
            (Some(host), Some(group)) => Some(host.min(group)),
            (host, group) => host.or(group),
        };
        MemoryBudget(resident().zip(free).map(|(used, free)| used + free / 2))
    }

    /// Returns true if the process uses more than the budget.
    pub(super) fn exceeded(self) -> bool {
        self.0.zip(resident()).is_some_and(|(budget, used)| used > budget)
    }
}

/// Returns the resident memory of the process in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_follow_the_ratio_of_times() {
        let decide = |workers, map, interval| {
            let [map, interval] = [map, interval].map(Duration::from_micros);
            WorkerMeasurements { workers, map, interval }.decide(16)
        };
        // Eight times as long as the step between two items: eight workers.
        assert_eq!(decide(2, 800, 100), 8);
        assert_eq!(decide(2, 801, 100), 9);
        assert_eq!(decide(2, 1_000_000, 100), 16);
        assert_eq!(decide(2, 5, 0), 16);
        // Fewer workers, one by one.
        assert_eq!(decide(8, 100, 100), 7);
        assert_eq!(decide(1, 0, 100), 1);
        assert_eq!(decide(8, 800, 100), 8);
    }

    #[test]
    fn workers_settle() {
        let mut workers = START;
        for _ in 0..40 {
            let map = Duration::from_micros(450);
            let interval = Duration::from_micros(100);
            workers = WorkerMeasurements { workers, map, interval }.decide(16);
        }
        assert_eq!(workers, 5);
    }

    #[test]
    fn depth_grows_only_if_the_queue_was_full_and_empty() {
        let decide = |depth, fill, blocked, over_budget| {
            DepthMeasurements { depth, fill, blocked, over_budget }.decide(64)
        };
        assert_eq!(decide(2, (0, 2), false, false), 4);
        assert_eq!(decide(2, (0, 1), true, false), 4);
        assert_eq!(decide(2, (0, 1), false, false), 2);
        assert_eq!(decide(48, (0, 48), true, false), 64);
        assert_eq!(decide(8, (2, 8), true, false), 8);
        assert_eq!(decide(8, (5, 8), true, false), 4);
        assert_eq!(decide(2, (2, 2), true, false), 2);
        assert_eq!(decide(8, (0, 8), true, true), 4);
        assert_eq!(decide(1, (0, 1), true, true), 1);
    }

    #[test]
    fn choices_stay_within_their_bounds() {
        assert_eq!(Parallelism::from(5).workers(), (5, None));
        assert_eq!(Parallelism::AutoUpTo(1).workers(), (1, Some(1)));
        assert_eq!(Parallelism::Auto.depth(), (START, Some(MAX_DEPTH)));
        let (start, most) = Parallelism::Auto.workers();
        assert!(start <= START && most.is_some_and(|most| most >= start));
    }
}
