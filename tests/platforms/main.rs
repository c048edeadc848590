//! Tests that compile for TPUs and GPUs without having them. `cargo test` ignores them:
//! `cargo xtask tpu` installs libtpu and runs the first kind, `cargo xtask gpu` installs the CUDA
//! plugin and runs the second. The tests of [`nvidia`] need a GPU.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod callbacks;
mod gpus;
mod memory_kinds;
mod nvidia;
mod ragged;
mod topologies;
