//! Listeners of events: what happened, how long it took, and numbers.
//!
//! The public interface is `oxidax::monitoring`. Listeners run on the thread that records, after
//! all locks have been released: [`defer`] keeps the events of a compilation until it has ended.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// A value of an event's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataValue {
    /// A number.
    Int(i64),
    /// Text.
    Text(String),
}

impl From<i64> for MetadataValue {
    fn from(value: i64) -> MetadataValue {
        MetadataValue::Int(value)
    }
}

impl From<&str> for MetadataValue {
    fn from(text: &str) -> MetadataValue {
        MetadataValue::Text(text.to_string())
    }
}

impl From<String> for MetadataValue {
    fn from(text: String) -> MetadataValue {
        MetadataValue::Text(text)
    }
}

impl fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataValue::Int(value) => value.fmt(f),
            MetadataValue::Text(text) => text.fmt(f),
        }
    }
}

/// Names and values that accompany an event.
pub type EventMetadata<'a> = &'a [(&'a str, MetadataValue)];

/// A registered listener, for its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(u64);

type EventListener = dyn Fn(&str, EventMetadata<'_>) + Send + Sync;
type NumberListener = dyn Fn(&str, f64, EventMetadata<'_>) + Send + Sync;
type SpanListener = dyn Fn(&str, SystemTime, SystemTime, EventMetadata<'_>) + Send + Sync;

#[derive(Clone)]
enum Listener {
    Event(Arc<EventListener>),
    Duration(Arc<NumberListener>),
    Scalar(Arc<NumberListener>),
    TimeSpan(Arc<SpanListener>),
}

/// The kind of an event, with its number.
#[derive(Clone, Copy)]
enum Measured {
    Event,
    Duration(f64),
    Scalar(f64),
    TimeSpan(SystemTime, SystemTime),
}

/// An event that waits for the end of a compilation.
struct Record {
    event: String,
    measured: Measured,
    metadata: Vec<(String, MetadataValue)>,
}

static LISTENERS: RwLock<Vec<(ListenerId, Listener)>> = RwLock::new(Vec::new());
/// The number of listeners. Nothing is recorded while there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static DEFERRED: RefCell<Vec<Record>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the events of this thread until it is dropped. Guards nest.
#[must_use]
pub(crate) struct Deferral(());

/// Keeps the events of this thread until the guard is dropped. Create it before a lock is taken, so
/// that it is dropped after the lock.
pub(crate) fn defer() -> Deferral {
    DEPTH.set(DEPTH.get() + 1);
    Deferral(())
}

impl Drop for Deferral {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() > 0 {
            return;
        }
        for Record { event, measured, metadata } in DEFERRED.take() {
            let metadata: Vec<_> =
                metadata.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            deliver(&event, measured, &metadata);
        }
    }
}

fn record(event: &str, measured: Measured, metadata: EventMetadata<'_>) {
    if DEPTH.get() == 0 {
        return deliver(event, measured, metadata);
    }
    let metadata = metadata.iter().map(|(name, value)| ((*name).to_string(), value.clone()));
    let record = Record { event: event.to_string(), measured, metadata: metadata.collect() };
    DEFERRED.with_borrow_mut(|deferred| deferred.push(record));
}

/// Calls the listeners of this kind, in the order of registration. No lock is held.
fn deliver(event: &str, measured: Measured, metadata: EventMetadata<'_>) {
    let listeners: Vec<Listener> = {
        let registered = LISTENERS.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().map(|(_, listener)| listener.clone()).collect()
    };
    for listener in listeners {
        let call = || match (&listener, measured) {
            (Listener::Event(listener), Measured::Event) => listener(event, metadata),
            (Listener::Duration(listener), Measured::Duration(value))
            | (Listener::Scalar(listener), Measured::Scalar(value)) => {
                listener(event, value, metadata);
            }
            (Listener::TimeSpan(listener), Measured::TimeSpan(start, end)) => {
                listener(event, start, end, metadata);
            }
            _ => {}
        };
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            tracing::error!(target: "oxidax::monitoring", event, "a listener panicked");
        }
    }
}

fn register(listener: Listener) -> ListenerId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = ListenerId(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut listeners = LISTENERS.write().unwrap_or_else(PoisonError::into_inner);
    listeners.push((id, listener));
    COUNT.store(listeners.len(), Ordering::Relaxed);
    id
}

/// Removes the listeners for which `removed` is true. Returns true if there was one.
fn unregister(removed: impl Fn(ListenerId, &Listener) -> bool) -> bool {
    let mut listeners = LISTENERS.write().unwrap_or_else(PoisonError::into_inner);
    let (gone, kept): (Vec<_>, Vec<_>) =
        listeners.drain(..).partition(|(id, listener)| removed(*id, listener));
    *listeners = kept;
    COUNT.store(listeners.len(), Ordering::Relaxed);
    drop(listeners);
    // Closures are dropped without the lock: they may own anything.
    !gone.is_empty()
}

/// Returns true if there is a listener.
#[inline]
pub(crate) fn is_active() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Records a duration of the function `name`, which ends now.
pub(crate) fn record_duration_of(event: &str, name: &str, duration: Duration) {
    if is_active() {
        let metadata = [("fun_name", name.into())];
        let end = SystemTime::now();
        record_event_duration_secs(event, duration.as_secs_f64(), &metadata);
        record_event_time_span(event, end.checked_sub(duration).unwrap_or(end), end, &metadata);
    }
}

/// Records an event of the function `name`.
pub(crate) fn record_event_of(event: &str, name: &str) {
    if is_active() {
        record_event(event, &[("fun_name", name.into())]);
    }
}

/// Calls the listeners of [`register_event_listener`].
///
/// Inside a compilation, for example in a function that is being traced, they are called when it
/// has ended. Costs one load if there is no listener.
///
/// ```
/// use oxidax::monitoring::record_event;
/// record_event("/app/checkpoint_saved", &[("step", 100.into()), ("folder", "runs/1".into())]);
/// ```
pub fn record_event(event: &str, metadata: EventMetadata<'_>) {
    if is_active() {
        record(event, Measured::Event, metadata);
    }
}

/// Calls the listeners of [`register_event_duration_secs_listener`]; see [`record_event`].
///
/// ```
/// use oxidax::monitoring::record_event_duration_secs;
/// let start = std::time::Instant::now();
/// record_event_duration_secs("/app/epoch", start.elapsed().as_secs_f64(), &[]);
/// ```
pub fn record_event_duration_secs(event: &str, seconds: f64, metadata: EventMetadata<'_>) {
    if is_active() {
        record(event, Measured::Duration(seconds), metadata);
    }
}

/// Calls the listeners of [`register_event_time_span_listener`]; see [`record_event`].
///
/// ```
/// use oxidax::monitoring::record_event_time_span;
/// use std::time::SystemTime;
/// let start = SystemTime::now();
/// record_event_time_span("/app/evaluation", start, SystemTime::now(), &[]);
/// ```
pub fn record_event_time_span(
    event: &str,
    start: SystemTime,
    end: SystemTime,
    metadata: EventMetadata<'_>,
) {
    if is_active() {
        record(event, Measured::TimeSpan(start, end), metadata);
    }
}

/// Calls the listeners of [`register_scalar_listener`]; see [`record_event`].
///
/// ```
/// use oxidax::monitoring::record_scalar;
/// record_scalar("/app/tokens_per_second", 15_300.0, &[("phase", "train".into())]);
/// ```
pub fn record_scalar(event: &str, value: f64, metadata: EventMetadata<'_>) {
    if is_active() {
        record(event, Measured::Scalar(value), metadata);
    }
}

/// Calls `listener` with the name and the metadata of each event of [`record_event`].
///
/// Listeners of one kind are called in the order of registration, on the thread that records, with
/// no lock held: a listener may call oxidax, record events and register listeners. One that panics
/// is logged, and has no other effect.
///
/// ```
/// use oxidax::monitoring;
/// use std::sync::{Arc, Mutex};
/// let events = Arc::new(Mutex::new(Vec::new()));
/// let seen = events.clone();
/// let id = monitoring::register_event_listener(move |event, _| {
///     seen.lock().unwrap().push(event.to_string());
/// });
/// monitoring::record_event("/app/started", &[]);
/// assert!(monitoring::unregister_event_listener(id));
/// monitoring::record_event("/app/stopped", &[]);
/// let events = events.lock().unwrap();
/// assert!(events.contains(&"/app/started".into()) && !events.contains(&"/app/stopped".into()));
/// ```
pub fn register_event_listener(
    listener: impl Fn(&str, EventMetadata<'_>) + Send + Sync + 'static,
) -> ListenerId {
    register(Listener::Event(Arc::new(listener)))
}

/// Calls `listener` with the name, the seconds and the metadata of each event of
/// [`record_event_duration_secs`]; see [`register_event_listener`].
///
/// ```
/// use oxidax::monitoring;
/// use oxidax::prelude::*;
/// use std::sync::{Arc, Mutex};
/// let compiled = Arc::new(Mutex::new(0.0));
/// let seconds = compiled.clone();
/// let id = monitoring::register_event_duration_secs_listener(move |event, duration, _| {
///     if event.starts_with("/oxidax/compile/") {
///         *seconds.lock().unwrap() += duration;
///     }
/// });
/// jit(|x: Array| sin(&x)).call(ones([4]))?;
/// monitoring::unregister_event_duration_listener(id);
/// assert!(*compiled.lock().unwrap() > 0.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn register_event_duration_secs_listener(
    listener: impl Fn(&str, f64, EventMetadata<'_>) + Send + Sync + 'static,
) -> ListenerId {
    register(Listener::Duration(Arc::new(listener)))
}

/// Calls `listener` with the name, the start, the end and the metadata of each event of
/// [`record_event_time_span`]; see [`register_event_listener`].
///
/// ```
/// use oxidax::monitoring;
/// let id = monitoring::register_event_time_span_listener(|event, start, end, _| {
///     println!("{event}: {:?}", end.duration_since(start));
/// });
/// assert!(monitoring::unregister_event_time_span_listener(id));
/// ```
pub fn register_event_time_span_listener(
    listener: impl Fn(&str, SystemTime, SystemTime, EventMetadata<'_>) + Send + Sync + 'static,
) -> ListenerId {
    register(Listener::TimeSpan(Arc::new(listener)))
}

/// Calls `listener` with the name, the number and the metadata of each event of [`record_scalar`];
/// see [`register_event_listener`].
///
/// ```
/// use oxidax::monitoring;
/// let id = monitoring::register_scalar_listener(|event, value, metadata| {
///     println!("{event} = {value} {metadata:?}");
/// });
/// monitoring::record_scalar("/app/loss", 0.25, &[]);
/// assert!(monitoring::unregister_scalar_listener(id));
/// ```
pub fn register_scalar_listener(
    listener: impl Fn(&str, f64, EventMetadata<'_>) + Send + Sync + 'static,
) -> ListenerId {
    register(Listener::Scalar(Arc::new(listener)))
}

/// Removes a listener of events. Returns false if there is none with this id.
///
/// A call that has begun on another thread still ends.
pub fn unregister_event_listener(id: ListenerId) -> bool {
    unregister(|other, listener| other == id && matches!(listener, Listener::Event(_)))
}

/// Removes a listener of durations. Returns false if there is none with this id.
pub fn unregister_event_duration_listener(id: ListenerId) -> bool {
    unregister(|other, listener| other == id && matches!(listener, Listener::Duration(_)))
}

/// Removes a listener of time spans. Returns false if there is none with this id.
pub fn unregister_event_time_span_listener(id: ListenerId) -> bool {
    unregister(|other, listener| other == id && matches!(listener, Listener::TimeSpan(_)))
}

/// Removes a listener of numbers. Returns false if there is none with this id.
pub fn unregister_scalar_listener(id: ListenerId) -> bool {
    unregister(|other, listener| other == id && matches!(listener, Listener::Scalar(_)))
}

/// Removes all listeners.
pub fn clear_event_listeners() {
    unregister(|_, _| true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A listener that lists the events below `/test/name/`, and others of its kind.
    fn listed(prefix: &'static str) -> (Arc<Mutex<Vec<String>>>, ListenerId) {
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = events.clone();
        let id = register_event_listener(move |event, metadata| {
            if event.starts_with(prefix) {
                let metadata: Vec<String> =
                    metadata.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(event.to_owned() + &metadata.concat());
            }
        });
        (events, id)
    }

    fn take(events: &Mutex<Vec<String>>) -> Vec<String> {
        std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[test]
    fn each_kind_of_listener_gets_its_own_events() {
        let (events, id) = listed("/test/kinds");
        let numbers: Arc<Mutex<Vec<f64>>> = Arc::default();
        let seen = numbers.clone();
        let scalar = register_scalar_listener(move |event, value, _| {
            if event.starts_with("/test/kinds") {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(value);
            }
        });
        record_event("/test/kinds/a", &[("n", 3.into()), ("file", "x".into())]);
        record_event_duration_secs("/test/kinds/b", 1.0, &[]);
        record_scalar("/test/kinds/c", 2.0, &[]);
        let spans: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let seen = spans.clone();
        let span = register_event_time_span_listener(move |event, start, end, _| {
            if event == "/test/kinds/e" {
                let duration = end.duration_since(start).unwrap_or_default();
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(duration);
            }
        });
        record_duration_of("/test/kinds/e", "f", Duration::from_secs(7));
        assert!(unregister_event_time_span_listener(span));
        let spans = spans.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*spans, [Duration::from_secs(7)]);
        assert!(!unregister_event_listener(scalar), "it is of another kind");
        assert!(unregister_event_listener(id) && unregister_scalar_listener(scalar));
        assert!(!unregister_event_listener(id), "it is gone");
        record_event("/test/kinds/d", &[]);
        assert_eq!(take(&events), ["/test/kinds/a n=3 file=x"]);
        assert_eq!(*numbers.lock().unwrap_or_else(PoisonError::into_inner), [2.0]);
    }

    #[test]
    fn events_wait_for_the_outermost_deferral() {
        let (events, id) = listed("/test/deferred");
        let outer = defer();
        record_event("/test/deferred/first", &[]);
        drop(defer());
        assert_eq!(take(&events), [""; 0]);
        drop(outer);
        assert_eq!(take(&events), ["/test/deferred/first"]);
        // Also when the compilation fails by unwinding.
        let failed = catch_unwind(|| {
            let _deferred = defer();
            record_event("/test/deferred/second", &[]);
            panic!("the compilation fails");
        });
        assert!(failed.is_err());
        assert_eq!(take(&events), ["/test/deferred/second"]);
        unregister_event_listener(id);
    }

    #[test]
    fn listeners_may_panic_record_and_register() {
        let panics = register_event_listener(|event, _| {
            assert!(!event.starts_with("/test/panics/a"), "planted");
        });
        let (events, id) = listed("/test/panics");
        let nested = register_event_listener(|event, _| {
            if event == "/test/panics/a" {
                record_event("/test/panics/nested", &[]);
                unregister_event_listener(register_event_listener(|_, _| {}));
            }
        });
        record_event("/test/panics/a", &[]);
        assert_eq!(take(&events), ["/test/panics/a", "/test/panics/nested"]);
        for id in [panics, id, nested] {
            assert!(unregister_event_listener(id));
        }
    }
}
