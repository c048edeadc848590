//! The stages of a pipeline, as methods of [`Stream`](super::Stream).

mod batch;
mod bucket;
mod device;
mod interleave;
mod map;
mod on_error;
mod parallel;
mod prefetch;
mod repeat;
mod select;
mod shuffle;

pub use batch::{BatchOptions, Remainder};
pub use device::{ToDevice, ToDeviceOptions};
pub use interleave::{InterleaveOptions, interleave};
pub use on_error::OnError;
