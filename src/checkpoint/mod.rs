//! Checkpoints: trees of arrays in safetensors files, named by their leaf paths.
//!
//! [`save`] and [`load`] write and read one tree. [`Folder`] keeps the checkpoints of a training
//! run: model, optimizer state, random keys, data position and step. It writes in the background,
//! survives being killed at any instant, and verifies checksums when reading. [`open`] reads files
//! from other libraries, including models in several files, with rules for names, layouts and
//! dtypes. See docs/checkpoints.md.
//!
//! A leaf's name in the file is its path (`blocks[3].attn.qkv.weight`). The single leaf of a bare
//! array is called `array`. Files are written atomically, and any reader of safetensors can read
//! them. Structure and static fields are not stored: load into a tree that has them.
//!
//! With several processes each writes its own shards, and a step appears once all of them are
//! complete (`commit`). A process reads the bytes that its devices need. All operations on files
//! are in `storage`, and on objects of `gs://` and `s3://` in `object_storage` (feature `remote`).
//!
//! Files are read array by array, and lengths are checked before memory is allocated. Errors about
//! damaged files name the array and the difference.

mod claim;
mod commit;
#[cfg(test)]
mod commit_tests;
mod contents;
mod coverage;
mod dtypes;
mod fault;
mod file;
mod folder;
mod group;
mod header;
mod local_shards;
mod manifest;
#[cfg(test)]
mod memory_storage;
mod object_storage;
#[cfg(all(test, feature = "distributed"))]
mod process_tests;
mod reader;
mod rename;
mod save;
mod shards;
mod snapshot;
mod steps;
mod storage;

use crate::core::Loc;
#[cfg(feature = "data")]
use crate::data::Position;
use crate::profile::{EventKind, TraceAnnotation};
pub use folder::Folder;
pub use reader::{Reader, arrays, load, open};
pub use save::save;
pub use snapshot::{Restored, Snapshot};

/// The position of a data pipeline without the feature `data`: any JSON, saved again unchanged.
#[cfg(not(feature = "data"))]
type Position = serde_json::Value;

/// Marks work in profiles.
fn span(name: &'static str, loc: Loc) -> TraceAnnotation {
    TraceAnnotation::of_kind(EventKind::Checkpoint, loc, name)
}

/// The name of a tree's only leaf when the tree is a bare array.
const SINGLE_LEAF: &str = "array";

fn leaf_name(path: &str) -> &str {
    if path.is_empty() { SINGLE_LEAF } else { path }
}
