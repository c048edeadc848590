//! [`Tracking`]: the work that each thread is doing now.
//!
//! While it is tracked, each span pushes its work onto a list of its thread, and takes it away when
//! it ends. Nothing else is kept, so tracking can run as long as the process.

use super::event::{EventKind, EventName};
use super::recorder::{lock, observe, stop_observing};
use crate::core::error::Loc;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The number of [`Tracking`]s.
static TRACKERS: AtomicUsize = AtomicUsize::new(0);

/// The lists of all threads that have begun work while it was tracked.
static THREADS: Mutex<Vec<Arc<ThreadWork>>> = Mutex::new(Vec::new());

struct ThreadWork {
    name: Option<String>,
    /// The work under way, outermost first.
    open: Mutex<Vec<Open>>,
}

struct Open {
    kind: EventKind,
    name: EventName,
    loc: Loc,
    since: Instant,
}

thread_local! {
    static WORK: OnceCell<Arc<ThreadWork>> = const { OnceCell::new() };
}

fn register() -> Arc<ThreadWork> {
    let name = std::thread::current().name().map(str::to_owned);
    let work = Arc::new(ThreadWork { name, open: Mutex::new(Vec::new()) });
    lock(&THREADS).push(work.clone());
    work
}

/// Work on the list of this thread, by its position.
#[derive(Clone, Copy)]
pub(super) struct Pushed(usize);

/// Adds work to the list of this thread, if it is tracked.
pub(super) fn push(kind: EventKind, name: &EventName, loc: Loc) -> Option<Pushed> {
    if TRACKERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let (name, since) = (name.clone(), Instant::now());
    let push = |work: &OnceCell<Arc<ThreadWork>>| {
        let mut open = lock(&work.get_or_init(register).open);
        open.push(Open { kind, name, loc, since });
        Pushed(open.len() - 1)
    };
    // A thread that is ending has no list.
    WORK.try_with(push).ok()
}

/// Removes work from the list of this thread, with everything inside it.
pub(super) fn pop(Pushed(position): Pushed) {
    let _ended = WORK.try_with(|work| {
        if let Some(work) = work.get() {
            lock(&work.open).truncate(position);
        }
    });
}

/// Returns true while the work of threads is tracked.
pub(crate) fn is_tracked_work() -> bool {
    TRACKERS.load(Ordering::Relaxed) != 0
}

/// Returns the line of the innermost work under way on this thread whose line is known.
pub(crate) fn innermost_loc() -> Loc {
    let found = WORK.try_with(|work| {
        let open = lock(&work.get()?.open);
        open.iter().rev().map(|open| open.loc).find(|loc| *loc != Loc::UNKNOWN)
    });
    found.ok().flatten().unwrap_or(Loc::UNKNOWN)
}

/// Tracks the work of all threads until it is dropped.
#[derive(Debug)]
pub(crate) struct Tracking(());

/// Work that is under way on a thread.
pub(crate) struct WorkUnderWay {
    pub(crate) kind: EventKind,
    pub(crate) name: EventName,
    pub(crate) loc: Loc,
    pub(crate) elapsed: Duration,
}

/// The work under way on one thread, outermost first.
pub(crate) struct ThreadUnderWay {
    pub(crate) name: Option<String>,
    pub(crate) work: Vec<WorkUnderWay>,
}

impl Tracking {
    pub(crate) fn start() -> Tracking {
        TRACKERS.fetch_add(1, Ordering::Relaxed);
        observe();
        Tracking(())
    }

    /// Returns the work under way on all threads that are doing any, in the order in which threads
    /// began to work.
    pub(crate) fn threads(&self) -> Vec<ThreadUnderWay> {
        let now = Instant::now();
        let mut threads = Vec::new();
        lock(&THREADS).retain(|thread| {
            let open = lock(&thread.open);
            let work = open.iter().map(|open| WorkUnderWay {
                kind: open.kind,
                name: open.name.clone(),
                loc: open.loc,
                elapsed: now.saturating_duration_since(open.since),
            });
            let work: Vec<WorkUnderWay> = work.collect();
            drop(open);
            // A thread that has ended does not hold its list.
            let is_alive = Arc::strong_count(thread) > 1;
            if is_alive && !work.is_empty() {
                threads.push(ThreadUnderWay { name: thread.name.clone(), work });
            }
            is_alive
        });
        threads
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        TRACKERS.fetch_sub(1, Ordering::Relaxed);
        stop_observing();
    }
}
