//! Checkpoints: trees of arrays in safetensors files, named by their leaf paths.
//!
//! A leaf's name in the file is its path (`blocks[3].attn.qkv.weight`); the one leaf of a bare array
//! is called `array`. Files are written whole or not at all, and read by whatever reads safetensors.
//! Structure and static fields are not stored: a checkpoint is loaded into a tree that has them.

mod dtypes;
mod load;
mod save;

pub use load::{arrays, load};
pub use save::save;

use crate::core::Error;
use std::path::Path;

/// The name of a tree's only leaf when the tree is an array.
const BARE: &str = "array";

fn name_of(path: &str) -> &str {
    if path.is_empty() { BARE } else { path }
}

fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), message: message.into() }
}
