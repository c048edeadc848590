//! Recording of what the host does, for the profiler.
//!
//! A [`Span`] is a guard around some work: it records a [`ProfileEvent`] with a start and a
//! duration while a [`Recording`] runs, and does nothing otherwise. Any folder can create spans.
//! The public interface and the file formats are in `profile`.

mod activity;
mod event;
mod recorder;
mod span;

pub(crate) use activity::{Tracking, innermost_loc, is_tracked_work};
pub(crate) use event::Details;
pub use event::{ArgumentValue, EventArgument, EventKind, EventName, ProfileEvent};
pub(crate) use recorder::{AlreadyRecording, Recorded, RecordedThread, Recording, unix_nanos};
pub(crate) use span::Span;
