//! The stages of a pipeline, as methods of [`Stream`](super::Stream).

mod autotune;
mod batch;
mod bucket;
mod cache;
mod device;
mod disk_cache;
mod interleave;
mod map;
mod mix;
mod on_error;
mod pack;
mod parallel;
mod prefetch;
mod queue;
mod repeat;
mod select;
mod shuffle;

pub use autotune::Parallelism;
pub use batch::{BatchOptions, Remainder};
pub use bucket::BucketSizes;
pub use device::{ToDevice, ToDeviceOptions};
pub use interleave::{InterleaveOptions, interleave};
pub use mix::{MixEnd, MixOptions, mix};
pub use on_error::OnError;
pub use pack::{PackOptions, PackStrategy, Packed, TooLong};
