//! Training data: sources, and pipelines that shuffle, decode, batch and read ahead.
//!
//! A [`Stream`] is an iterator of `Result`s that knows how to do so. It begins at a file ([`tfrecord`], [`csv()`],
//! [`jsonl`]), at a [`Source`] whose records can be read in any order ([`Npy`], [`Tokens`], [`ImageFolder`],
//! [`Rows`], [`Labelled`], [`Synthetic`]), or at an iterator of your own. Everything here works on the
//! host with ordinary Rust; arrays appear in [`Stream::to_device`], or when a batch is put together.
//! Nothing is fetched from a network, but through a `Bucket` that you made (feature `remote`).
//!
//! Three promises hold for every pipeline. Its order follows from its seeds alone, however many threads it has.
//! Its [`Position`] is a few numbers, from which an equal pipeline goes on with exactly what was left. And a
//! bad record is an [`Error`](crate::Error) that names file and place, never a hang. docs/data.md says more.
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

mod collate;
mod files;
mod formats;
mod instruments;
mod labelled;
mod origin;
mod permutation;
mod position;
mod record;
mod source;
mod stages;
mod stream;

pub use crate::core::HostArray;
pub use collate::{Collate, Pad, Padding};
#[cfg(feature = "remote")]
pub use files::Bucket;
pub use files::{File, files};
pub use formats::*;
pub use instruments::{Instruments, Report, StageReport, Work};
pub use labelled::{Batch, Example, Labelled};
pub use origin::Origin;
pub use position::Position;
pub use record::Record;
pub use source::{Indexed, Source, Synthetic};
pub use stages::{Interleave, OnError, Remainder, ToDevice, interleave};
pub use stream::Stream;
