//! Training data: sources, and pipelines that shuffle, decode, batch and prefetch.
//!
//! A [`Stream`] is an iterator of `Result`s with methods for each stage. It starts at a file
//! ([`tfrecord`], [`csv()`], [`jsonl`]), at a [`Source`] with random access ([`Npy`], [`Tokens`],
//! [`ImageFolder`], [`Rows`], [`LabelledImages`], [`Synthetic`]), or at any iterator. Stages run on
//! the host, in ordinary Rust. Device arrays appear in [`Stream::to_device`], or when a batch is
//! assembled. Objects of `gs://` and `s3://` are read like files (feature `remote`); nothing else is
//! downloaded.
//!
//! Every pipeline has three properties:
//! - Its order depends on its seeds only, not on the number of threads.
//! - Its [`Position`] is a few numbers. An equal pipeline resumes there with exactly the remaining
//!   items.
//! - A bad record is an [`Error`](crate::Error) with its file and position, and the line of the
//!   program that added the stage, never a hang.
//!
//! See docs/data.md.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! for batch in data::idx("fashion-mnist")?.shuffle(60_000, 0).batch(128).prefetch(2) {
//!     let data::ImageBatch { images, labels } = batch?;
//!     images.expect_shape([128, 784]);
//!     labels.expect_shape([128]);
//! }
//! # Ok::<(), oxidax::Error>(())
//! ```

mod cacheable;
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
pub use cacheable::Cacheable;
pub use collate::{BatchPadding, Collate, CollatePadded};
#[cfg(feature = "remote")]
pub use files::Bucket;
pub use files::{File, files};
#[cfg(feature = "train")]
pub(crate) use formats::framed;
pub use formats::*;
pub use instruments::{Instruments, PipelineReport, QueueReport, StageReport, Work};
pub use labelled::{ImageBatch, LabelledImage, LabelledImages};
pub use origin::RecordOrigin;
pub use position::Position;
pub use record::Record;
pub use source::{Indexed, Source, Synthetic};
pub use stages::{
    BatchOptions, BucketSizes, InterleaveOptions, MixEnd, MixOptions, OnError, PackOptions,
    PackStrategy, Packed, Parallelism, Remainder, ToDevice, ToDeviceOptions, TooLong, interleave,
    mix,
};
pub use stream::Stream;
