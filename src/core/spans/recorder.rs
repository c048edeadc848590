//! [`Recording`]: collects the events of all threads between a start and a stop.
//!
//! Each thread appends to its own buffer, behind a lock that only the end of a recording contends
//! for. An event is appended when its work begins. So a thread's events are in order of their
//! starts, outer before inner, and work that is under way at the end is known.

use super::event::{Details, EventArgument, EventKind, ProfileEvent};
use crate::core::error::Loc;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The number of the recording that runs, or 0.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// The number of reasons to look at spans: the recording that runs, and each tracking of current
/// work.
static OBSERVERS: AtomicUsize = AtomicUsize::new(0);

/// Duration of an event whose work has not ended.
const UNFINISHED: u64 = u64::MAX;

/// The line that started the recording, and the number of recordings so far.
struct Recordings {
    running: Option<Loc>,
    count: u64,
}

static RECORDINGS: Mutex<Recordings> = Mutex::new(Recordings { running: None, count: 0 });

/// Returns the number of the calling thread in the operating system. Set by the first recording.
static SYSTEM_ID: OnceLock<fn() -> Option<i64>> = OnceLock::new();

/// The buffers of all threads that have recorded events, in order of their first one.
static THREADS: Mutex<Vec<Arc<ThreadBuffer>>> = Mutex::new(Vec::new());

struct ThreadBuffer {
    /// Counts the threads that have recorded events, from 1.
    number: u64,
    system_id: Option<i64>,
    name: Option<String>,
    events: Mutex<Events>,
}

/// The events of one recording.
struct Events {
    recording: u64,
    events: Vec<ProfileEvent>,
}

thread_local! {
    static BUFFER: OnceCell<Arc<ThreadBuffer>> = const { OnceCell::new() };
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The values are valid at every point at which a thread could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true while a recording runs or current work is tracked.
#[inline]
pub(crate) fn is_observed() -> bool {
    OBSERVERS.load(Ordering::Relaxed) != 0
}

/// Adds a reason to look at spans.
pub(super) fn observe() {
    OBSERVERS.fetch_add(1, Ordering::Relaxed);
}

/// Removes a reason to look at spans.
pub(super) fn stop_observing() {
    OBSERVERS.fetch_sub(1, Ordering::Relaxed);
}

/// Returns the nanoseconds since the first recording of the process started.
fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since: Duration = ORIGIN.get_or_init(Instant::now).elapsed();
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}

/// Returns the nanoseconds from 1970 to a time.
pub(crate) fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs `f` on the buffer of this thread. Does nothing while the thread is ending.
fn with_buffer<R>(f: impl FnOnce(&ThreadBuffer) -> R) -> Option<R> {
    BUFFER.try_with(|buffer| f(buffer.get_or_init(register))).ok()
}

#[cold]
fn register() -> Arc<ThreadBuffer> {
    static THREADS_SO_FAR: AtomicU64 = AtomicU64::new(0);
    let buffer = Arc::new(ThreadBuffer {
        number: THREADS_SO_FAR.fetch_add(1, Ordering::Relaxed) + 1,
        system_id: SYSTEM_ID.get().and_then(|of_this_thread| of_this_thread()),
        name: std::thread::current().name().map(str::to_owned),
        events: Mutex::new(Events { recording: 0, events: Vec::new() }),
    });
    lock(&THREADS).push(buffer.clone());
    buffer
}

/// An event whose work is under way on this thread.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    recording: u64,
    index: usize,
}

/// Appends an event that begins now, if a recording runs.
pub(super) fn begin(kind: EventKind, details: Details, loc: Loc) -> Option<Begun> {
    let Details { name, arguments } = details;
    let recording = Some(RUNNING.load(Ordering::Relaxed)).filter(|&number| number != 0)?;
    with_buffer(|buffer| {
        let mut thread = lock(&buffer.events);
        if thread.recording != recording {
            *thread = Events { recording, events: Vec::new() };
        }
        let index = thread.events.len();
        let duration_nanos = UNFINISHED;
        let start_nanos = now();
        thread.events.push(ProfileEvent {
            kind,
            name,
            loc,
            start_nanos,
            duration_nanos,
            arguments,
        });
        Begun { recording, index }
    })
}

/// Ends an event, if its recording still runs.
pub(super) fn end(begun: Begun) {
    let end = now();
    change(begun, |event| event.duration_nanos = end.saturating_sub(event.start_nanos));
}

/// Adds an argument to an event, if its recording still runs.
pub(super) fn add_argument(begun: Begun, argument: EventArgument) {
    change(begun, |event| event.arguments.push(argument));
}

fn change(begun: Begun, change: impl FnOnce(&mut ProfileEvent)) {
    with_buffer(|buffer| {
        let mut thread = lock(&buffer.events);
        if thread.recording == begun.recording
            && let Some(event) = thread.events.get_mut(begun.index)
        {
            change(event);
        }
    });
}

/// A recording is running already. Holds the line that started it.
pub(crate) struct AlreadyRecording(pub(crate) Loc);

/// A recording that runs. Dropping it discards the events.
#[derive(Debug)]
pub(crate) struct Recording {
    number: u64,
    start_nanos: u64,
    started: SystemTime,
    stopped: bool,
}

/// The events of a finished recording.
pub(crate) struct Recorded {
    pub(crate) started: SystemTime,
    pub(crate) duration_nanos: u64,
    pub(crate) threads: Vec<RecordedThread>,
}

/// The events of one thread, in order of their starts.
pub(crate) struct RecordedThread {
    pub(crate) number: u64,
    /// The thread's number in the operating system.
    pub(crate) system_id: Option<i64>,
    pub(crate) name: Option<String>,
    pub(crate) events: Vec<ProfileEvent>,
}

impl Recording {
    /// Starts to record the events of all threads. Only one recording runs at a time. `system_id`
    /// returns the number of the calling thread in the operating system.
    pub(crate) fn start(
        loc: Loc,
        system_id: fn() -> Option<i64>,
    ) -> Result<Recording, AlreadyRecording> {
        SYSTEM_ID.get_or_init(|| system_id);
        let mut recordings = lock(&RECORDINGS);
        if let Some(loc) = recordings.running {
            return Err(AlreadyRecording(loc));
        }
        recordings.running = Some(loc);
        recordings.count += 1;
        let number = recordings.count;
        let (start_nanos, started) = (now(), SystemTime::now());
        RUNNING.store(number, Ordering::Relaxed);
        observe();
        Ok(Recording { number, start_nanos, started, stopped: false })
    }

    /// Stops the recording. Work that is under way ends now in it, with the argument `unfinished`.
    pub(crate) fn stop(mut self) -> Recorded {
        let threads = self.take();
        let duration_nanos = now().saturating_sub(self.start_nanos);
        let started = self.started;
        Recorded { started, duration_nanos, threads }
    }

    fn take(&mut self) -> Vec<RecordedThread> {
        self.stopped = true;
        RUNNING.store(0, Ordering::Relaxed);
        stop_observing();
        let mut threads = Vec::new();
        lock(&THREADS).retain(|buffer| {
            let mut thread = lock(&buffer.events);
            let events = std::mem::take(&mut thread.events);
            let recording = std::mem::replace(&mut thread.recording, 0);
            if recording == self.number && !events.is_empty() {
                let name = buffer.name.clone();
                let (number, system_id) = (buffer.number, buffer.system_id);
                threads.push(RecordedThread { number, system_id, name, events });
            }
            // A thread that has ended does not hold its buffer.
            Arc::strong_count(buffer) > 1
        });
        let end = now();
        for event in threads.iter_mut().flat_map(|thread| &mut thread.events) {
            if event.duration_nanos == UNFINISHED {
                event.duration_nanos = end.saturating_sub(event.start_nanos);
                event.arguments.push(("unfinished", true.into()));
            }
            event.start_nanos = event.start_nanos.saturating_sub(self.start_nanos);
        }
        lock(&RECORDINGS).running = None;
        threads
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.stopped {
            self.take();
        }
    }
}
