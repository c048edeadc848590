//! Training data: files of labelled images, and streams of examples, shuffled, batched and read ahead.
//!
//! A [`Stream`] is an iterator of `Result`s that knows how to shuffle, batch and prefetch itself;
//! [`Labelled`] is a set of labelled images in memory, read by [`idx`] or [`digits`]. Everything here
//! works on the host with ordinary Rust; arrays appear when a batch is put together. Nothing is ever
//! fetched from a network.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! for batch in data::idx("fashion-mnist")?.shuffle(60_000, 0).batch(128).prefetch(2) {
//!     let data::Batch { images, labels } = batch?;
//!     images.expect_shape([128, 784]);
//!     labels.expect_shape([128]);
//! }
//! # Ok::<(), oxidax::Error>(())
//! ```

mod digits;
mod file;
mod idx;
mod labelled;
mod prefetch;
mod stream;

pub use digits::digits;
pub use idx::{Part, idx, idx_part};
pub use labelled::{Batch, Example, Labelled};
pub use prefetch::Prefetch;
pub use stream::{Collate, Stream};
