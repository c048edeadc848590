//! Warnings about loops that fetch a result of each step and so leave the device idle.
//!
//! A fetch *stalls* if it reads a result of the last launch of its program before the result is
//! computed: the host waits for the device, and then the device waits for the next launch. A line
//! whose fetches stall for [`STALLS`] consecutive launches of one program is logged once.

use crate::core::Loc;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of consecutive launches whose results a line fetches before it is logged.
const STALLS: u64 = 10;

/// Number of lines that are remembered.
const LINES: usize = 1024;

/// Number of counters of launches, which programs share if there are more of them. Sharing only
/// misses stalls.
const COUNTERS: usize = 256;

static LAUNCHES: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];

/// The launch that computes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Produced {
    program: usize,
    launch: u64,
}

/// Returns a number for a new program.
pub(super) fn next_program() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) as usize
}

impl Produced {
    /// Counts a launch of a program.
    #[inline]
    pub(super) fn by_launch_of(program: usize) -> Produced {
        let launch = LAUNCHES[program % COUNTERS].fetch_add(1, Ordering::Relaxed) + 1;
        Produced { program, launch }
    }

    fn is_last(self) -> bool {
        LAUNCHES[self.program % COUNTERS].load(Ordering::Relaxed) == self.launch
    }
}

/// The stalls of one line.
#[derive(Debug)]
struct Line {
    last: Produced,
    /// Number of consecutive launches.
    count: u64,
    warned: bool,
}

/// The stalls of all lines.
#[derive(Debug, Default)]
struct Stalls(FxHashMap<Loc, Line>);

static STALLED: Mutex<Option<Stalls>> = Mutex::new(None);

impl Stalls {
    /// Notes a fetch at `loc`. Returns true if the line is to be logged.
    fn note(&mut self, loc: Loc, produced: Produced, is_ready: impl FnOnce() -> bool) -> bool {
        if self.0.get(&loc).is_some_and(|line| line.warned) {
            return false;
        }
        if is_ready() {
            self.0.remove(&loc);
            return false;
        }
        if self.0.len() >= LINES {
            self.0.retain(|_, line| line.warned);
        }
        let first = Line { last: produced, count: 0, warned: false };
        let line = self.0.entry(loc).or_insert(first);
        let Produced { program, launch } = line.last;
        line.count = match (program == produced.program, produced.launch.checked_sub(launch)) {
            // The first fetch, or several results of one launch.
            (true, Some(0)) => line.count.max(1),
            (true, Some(1)) => line.count + 1,
            _ => 1,
        };
        line.last = produced;
        line.warned = line.count >= STALLS;
        line.warned
    }
}

/// Notes that the line `loc` fetches a buffer.
pub(super) fn note(loc: Loc, produced: Option<Produced>, is_ready: impl FnOnce() -> bool) {
    let Some(produced) = produced.filter(|produced| produced.is_last()) else { return };
    let mut stalled = STALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if stalled.get_or_insert_default().note(loc, produced, is_ready) {
        drop(stalled);
        let at =
            loc.get().map_or_else(|| "a line that prints an array".into(), |at| at.to_string());
        tracing::warn!(
            target: "oxidax::jit",
            at,
            steps = STALLS,
            "waits for each step's result before the next step is launched, so that the device is \
             idle in between; read the result of the previous step, or of every n-th one"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(stalls: &mut Stalls, loc: Loc, program: usize, launch: u64) -> bool {
        stalls.note(loc, Produced { program, launch }, || false)
    }

    #[test]
    fn ten_stalls_in_a_row_are_logged_once() {
        let (mut stalls, loc) = (Stalls::default(), Loc::caller());
        for launch in 1..10 {
            // Two results of each launch.
            assert!(!fetch(&mut stalls, loc, 1, launch));
            assert!(!fetch(&mut stalls, loc, 1, launch));
        }
        assert!(fetch(&mut stalls, loc, 1, 10));
        for launch in 11..40 {
            assert!(!fetch(&mut stalls, loc, 1, launch));
        }
    }

    #[test]
    fn other_lines_programs_and_ready_results_interrupt_the_count() {
        let (mut stalls, loc, other) = (Stalls::default(), Loc::caller(), Loc::UNKNOWN);
        for launch in 1..100 {
            // Every second launch.
            assert!(!fetch(&mut stalls, loc, 1, 2 * launch));
            // Every fifth one is ready.
            let produced = Produced { program: 2, launch };
            assert!(!stalls.note(other, produced, || launch % 5 == 0));
        }
        let line: Loc = Loc::caller();
        for launch in 1..100 {
            assert!(!fetch(&mut stalls, line, launch as usize % 2, launch));
        }
    }

    mod on_cpu {
        use super::*;
        use crate::core::HostArray;
        use crate::prelude::*;
        use crate::runtime::device_buffer::concrete;
        use std::sync::Arc;
        use std::sync::mpsc::channel;

        #[test]
        fn reading_a_result_that_the_device_still_computes_is_a_stall() -> Result<(), Error> {
            let (release, released) = channel::<()>();
            let released = Arc::new(Mutex::new(released));
            let step = jit(move |x: Array| {
                let released = released.clone();
                // Large enough to run on the plugin's threads, which the callback blocks.
                let y = sin(cos(&x)).sum();
                let wait = move |_: &[HostArray]| {
                    released.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                };
                debug::callback(wait, [&y]);
                x + 1.0
            });
            let (x, loc) = (ones([1 << 20]), Loc::caller());
            let warned = || {
                let stalled = STALLED.lock().unwrap_or_else(PoisonError::into_inner);
                let line = stalled.as_ref().and_then(|stalled| stalled.0.get(&loc));
                line.is_some_and(|line| line.warned)
            };
            for launch in 1..=STALLS {
                let y = step.call(&x)?;
                // What `item` does before it waits.
                concrete(&y).note_read(loc);
                assert_eq!(warned(), launch == STALLS, "launch {launch}");
                assert!(release.send(()).is_ok());
                y.block_until_ready()?;
            }
            Ok(())
        }
    }
}
