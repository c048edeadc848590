//! Tests that compile for TPUs and GPUs without having them. They need libtpu (feature
//! `libtpu-tests`) or the CUDA plugin (feature `cuda-tests`); `cargo xtask ci` installs both.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

#[cfg(feature = "cuda-tests")]
mod gpus;
#[cfg(feature = "libtpu-tests")]
mod topologies;
