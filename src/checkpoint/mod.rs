//! Checkpoints: trees of arrays in safetensors files, named by their leaf paths.
//!
//! [`save`] and [`load`] write and read one tree. [`Folder`] keeps the checkpoints of a training run: model, optimizer,
//! keys, position of the data and step together, written beside the training, safe against being killed at
//! any instant, and checked when they are read. [`open`] reads what others saved, models in several files among it,
//! with rules for names, layouts and dtypes. docs/checkpoints.md says more.
//!
//! A leaf's name in the file is its path (`blocks[3].attn.qkv.weight`); the one leaf of a bare array
//! is called `array`. Files are written whole or not at all, and read by whatever reads safetensors.
//! Structure and static fields are not stored: a checkpoint is loaded into a tree that has them.
//!
//! Files are read array by array, and nothing is allocated for bytes that are not there: a damaged file is an
//! error that says what is wrong with which array.

mod contents;
mod coverage;
mod dtypes;
mod fault;
mod file;
mod folder;
mod header;
mod manifest;
mod pieces;
mod reader;
mod rename;
mod save;
mod snapshot;
mod steps;

#[cfg(feature = "data")]
use crate::data::Position;
pub use folder::Folder;
pub use reader::{Reader, arrays, load, open};
pub use save::save;
pub use snapshot::{Restored, Snapshot};

/// Stands for the position of a data pipeline without the feature `data`: it is copied as it is.
#[cfg(not(feature = "data"))]
type Position = serde_json::Value;

/// The name of a tree's only leaf when the tree is an array.
const BARE: &str = "array";

fn leaf_name(path: &str) -> &str {
    if path.is_empty() { BARE } else { path }
}
