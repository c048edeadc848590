//! Recording of what the host does, for the profiler.
//!
//! A [`Span`] is a guard around some work: it records an [`Event`] with a start and a duration while
//! a [`Recording`] runs, and does nothing otherwise. Any folder can create spans; the public
//! interface and the file formats are in `profile`.

mod event;
mod recorder;
mod span;

pub use event::{Argument, ArgumentValue, Event, EventKind, EventName};
pub(crate) use recorder::{AlreadyRecording, Recorded, RecordedThread, Recording, is_recording};
pub(crate) use span::Span;
