//! A watchdog that reports what a training loop does while its steps do not end.

use super::peers::{Late, Peers, ProcessProgress};
use crate::profile::{ActivityTracker, ThreadActivity, UnfinishedProgram};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The exit status of a process that a watchdog ends.
pub const STALLED: i32 = 124;

/// Time that [`WatchdogOptions::on_exit`] has before the process ends.
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// Longest time between two reports of a process to the others.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Number of steps whose median is the usual time of a step.
const RECENT: usize = 64;

/// Reports a loop whose steps do not end: each thread with the work that it is doing.
///
/// A step is late if the next call of [`Watchdog::step`] does not come within the limit. The report
/// is printed to standard error, once per stall. Dropping the watchdog ends it.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::train::Watchdog;
/// use std::time::Duration;
/// let watchdog = Watchdog::start(Duration::from_secs(60));
/// let step = jit(|w: Array| &w * 0.9);
/// let mut w = ones([3]);
/// for number in 0..10 {
///     watchdog.step(number);
///     w = step.call(w)?;
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// ```text
/// step 412 has not ended for 63.2 s; the steps before took 0.8 s
///   main: call train_step for 63.2 s at src/main.rs:30, in it dispatch train_step for 63.2 s …
///   oxidax prefetch: data map for 63.1 s at src/main.rs:21
/// ```
///
/// While it runs, the work of threads is tracked ([`ActivityTracker`]), which costs a step as much
/// as a running profile. What waits inside a device is seen from the host only: the report names
/// the programs that devices have not finished, and the collectives of each, with their lines. In a
/// program of several processes (`distributed`), their watchdogs tell each other every five seconds
/// what they do, and a report names the processes that are in an earlier step or silent: those that
/// a collective waits for.
#[derive(Debug)]
#[must_use = "dropping the watchdog ends it"]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A function that takes the report of a stall.
pub type OnStall = Box<dyn Fn(&Stall) + Send>;

/// Options of [`Watchdog::start_with`].
#[non_exhaustive]
pub struct WatchdogOptions {
    /// The longest time of a step.
    pub limit: Duration,
    /// Called with the report of a stall on the watchdog's thread, instead of printing it.
    pub on_stall: Option<OnStall>,
    /// After this time beyond the limit, the process ends with status [`STALLED`].
    pub exit_after: Option<Duration>,
    /// Called before the process ends, for example to save a checkpoint of arrays that do not need
    /// the device that hangs. It has 60 seconds.
    pub on_exit: Option<Box<dyn FnOnce() + Send>>,
}

/// A step that has not ended within the limit. Prints as a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The number of the step.
    pub step: u64,
    /// The time since it began.
    pub elapsed: Duration,
    /// The median time of recent steps; `None` for the first one.
    pub usual: Option<Duration>,
    /// The work of all threads.
    pub threads: Vec<ThreadActivity>,
    /// The programs on several devices that have not finished, with their collectives.
    pub programs: Vec<UnfinishedProgram>,
    /// The last reports of the other processes of the program.
    pub processes: Vec<ProcessProgress>,
    /// The time between two reports of a process.
    report_every: Duration,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The step under way, with its beginning.
    step: Option<(u64, Instant)>,
    recent: Vec<Duration>,
    ended: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete before a panic could occur.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchdogOptions {
    /// Returns the options of [`Watchdog::start`].
    ///
    /// ```
    /// use oxidax::train::{Watchdog, WatchdogOptions};
    /// use std::time::Duration;
    /// let mut options = WatchdogOptions::new(Duration::from_secs(60));
    /// options.on_stall = Some(Box::new(|stall| eprintln!("{stall}")));
    /// options.exit_after = Some(Duration::from_secs(600));
    /// let watchdog = Watchdog::start_with(options);
    /// watchdog.step(0);
    /// ```
    pub fn new(limit: Duration) -> WatchdogOptions {
        WatchdogOptions { limit, on_stall: None, exit_after: None, on_exit: None }
    }
}

impl fmt::Debug for WatchdogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchdogOptions")
            .field("limit", &self.limit)
            .field("exit_after", &self.exit_after)
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Starts to watch. The first call of [`step`](Watchdog::step) begins the first step.
    pub fn start(limit: Duration) -> Watchdog {
        Watchdog::start_with(WatchdogOptions::new(limit))
    }

    /// Starts to watch, with options.
    pub fn start_with(options: WatchdogOptions) -> Watchdog {
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), changed: Condvar::new() });
        let watched = shared.clone();
        // Tracked from the start, not from that of the thread.
        let tracker = ActivityTracker::start();
        let thread = std::thread::Builder::new()
            .name("oxidax watchdog".into())
            .spawn(move || watch(&watched, &tracker, options));
        // Without a thread there is no watchdog, which must not stop the training.
        Watchdog { shared, thread: thread.ok() }
    }

    /// Begins the step with this number, and ends the one before.
    pub fn step(&self, number: u64) {
        let now = Instant::now();
        let mut state = self.shared.state();
        if let Some((_, began)) = state.step.replace((number, now)) {
            if state.recent.len() >= RECENT {
                state.recent.remove(0);
            }
            state.recent.push(now.saturating_duration_since(began));
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Ends the step under way, until the next call of [`step`](Watchdog::step): for work that may
    /// take any time, such as an evaluation.
    pub fn pause(&self) {
        self.shared.state().step = None;
        self.shared.changed.notify_all();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of `on_stall` was printed by the thread.
            drop(thread.join());
        }
    }
}

/// Waits for steps that are late, until the watchdog ends.
fn watch(shared: &Shared, tracker: &ActivityTracker, options: WatchdogOptions) {
    let WatchdogOptions { limit, on_stall, exit_after, mut on_exit } = options;
    let mut reports = Reports::of(limit);
    // The beginning of the step that was reported last.
    let mut reported: Option<Instant> = None;
    let mut state = shared.state();
    while !state.ended {
        let next_report = reports.time_left();
        if next_report.is_some_and(|left| left.is_zero()) {
            let step = state.step;
            drop(state);
            reports.send(step, tracker);
            state = shared.state();
            continue;
        }
        let Some((step, began)) = state.step else {
            state = wait(shared, state, next_report);
            continue;
        };
        let elapsed = began.elapsed();
        let deadline = match exit_after {
            _ if reported != Some(began) => Some(limit),
            Some(more) => Some(limit.saturating_add(more)),
            None => None,
        };
        match deadline.map(|deadline| deadline.checked_sub(elapsed)) {
            // Late.
            Some(None) => {
                let usual = median(&state.recent);
                drop(state);
                let stall = Stall {
                    step,
                    elapsed,
                    usual,
                    threads: tracker.threads(),
                    programs: tracker.unfinished_programs(),
                    processes: reports.read(),
                    report_every: reports.every,
                };
                if reported == Some(began) {
                    end_process(&stall, on_exit.take());
                }
                report(&stall, on_stall.as_ref());
                reported = Some(began);
                state = shared.state();
            }
            Some(Some(left)) => {
                let left = next_report.map_or(left, |report| report.min(left));
                state = wait(shared, state, Some(left));
            }
            None => state = wait(shared, state, next_report),
        }
    }
}

/// Waits for a change, up to a time.
fn wait<'s>(
    shared: &'s Shared,
    state: MutexGuard<'s, State>,
    longest: Option<Duration>,
) -> MutexGuard<'s, State> {
    match longest {
        Some(longest) => {
            // Zero would not wait.
            let longest = longest.max(Duration::from_millis(1));
            let waited = shared.changed.wait_timeout(state, longest);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
        None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
    }
}

/// The reports between the processes of a program.
struct Reports {
    peers: Option<Peers>,
    every: Duration,
    last: Option<Instant>,
}

impl Reports {
    /// Reports several times within the limit of a step.
    fn of(limit: Duration) -> Reports {
        let every = (limit / 4).clamp(Duration::from_millis(50), REPORT_EVERY);
        Reports { peers: None, every, last: None }
    }

    /// Returns the time until the next report; `None` if there are no other processes, which may
    /// be joined after the watchdog has started.
    fn time_left(&mut self) -> Option<Duration> {
        if self.peers.is_none() {
            self.peers = Peers::find();
        }
        self.peers.as_ref()?;
        let since = self.last.map_or(self.every, |last| last.elapsed());
        Some(self.every.saturating_sub(since))
    }

    fn send(&mut self, step: Option<(u64, Instant)>, tracker: &ActivityTracker) {
        let work = tracker.threads().iter().map(ToString::to_string).collect();
        if let Some(peers) = &self.peers {
            peers.write(step.map(|(step, began)| (step, began.elapsed())), work);
        }
        self.last = Some(Instant::now());
    }

    fn read(&self) -> Vec<ProcessProgress> {
        self.peers.as_ref().map(Peers::read).unwrap_or_default()
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[allow(clippy::print_stderr, reason = "the program that could print hangs")]
fn report(stall: &Stall, on_stall: Option<&OnStall>) {
    match on_stall {
        Some(on_stall) => on_stall(stall),
        None => eprintln!("{stall}"),
    }
}

#[allow(clippy::print_stderr, reason = "the program that could print hangs")]
fn end_process(stall: &Stall, on_exit: Option<Box<dyn FnOnce() + Send>>) -> ! {
    eprintln!("{stall}\n  the process ends with status {STALLED}, as its watchdog was told");
    if let Some(on_exit) = on_exit {
        let (done, finished) = std::sync::mpsc::channel();
        let started =
            std::thread::Builder::new().name("oxidax watchdog exit".into()).spawn(move || {
                on_exit();
                // Nobody listens after the time limit.
                let _late = done.send(());
            });
        if started.is_ok() && finished.recv_timeout(EXIT_LIMIT).is_err() {
            eprintln!("  what the watchdog runs before the end failed, or takes over 60 s");
        }
    }
    // Without the functions that wait for the plugin at the end, which may hang too.
    signal_hook::low_level::exit(STALLED)
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} has not ended for {:.1} s", self.step, self.elapsed.as_secs_f64())?;
        if let Some(usual) = self.usual {
            write!(f, "; the steps before took {:.3} s", usual.as_secs_f64())?;
        }
        if self.threads.is_empty() {
            write!(
                f,
                "\n  no thread is doing work of oxidax: the program itself is busy or waits"
            )?;
        }
        for thread in &self.threads {
            write!(f, "\n  {thread}")?;
        }
        for program in &self.programs {
            write!(f, "\n  {program}")?;
        }
        if self.processes.is_empty() {
            return Ok(());
        }
        let Late { behind, silent, others } =
            Late::of(self.step, &self.processes, self.report_every);
        for process in &behind {
            write!(f, "\n  behind: {process}")?;
        }
        for process in &silent {
            write!(f, "\n  silent: {process}")?;
        }
        match (others, behind.len() + silent.len()) {
            (0, _) => Ok(()),
            (_, 0) => write!(f, "\n  the {others} other processes are in this step too, or later"),
            _ => write!(f, "\n  the other processes ({others}) are in this step too, or later"),
        }
    }
}
