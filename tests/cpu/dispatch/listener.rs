//! [`listen`]: collects the library's log events.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// The events of this thread, while it listens.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Returns the events logged on this thread while `f` runs: one line each, with level, message and
/// fields.
///
/// The subscriber is that of the whole process. With a subscriber of one thread, an event stays
/// disabled if another thread logs it first: tracing-core 0.1 asks the current thread's subscriber,
/// when there is only one, whether anyone wants the event, and keeps the answer.
pub(crate) fn listen(f: impl FnOnce()) -> Vec<String> {
    static SUBSCRIBE: Once = Once::new();
    SUBSCRIBE.call_once(|| {
        tracing::subscriber::set_global_default(Listener).unwrap();
        // Other threads may have logged in between.
        tracing::callsite::rebuild_interest_cache();
    });
    LINES.set(Some(Vec::new()));
    f();
    LINES.take().unwrap()
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("oxidax")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        LINES
            .with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.push(line.0.clone())));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}
