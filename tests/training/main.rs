//! What stands on the public API: random keys, layers, losses, optimizers, data, checkpoints.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod checkpoints;
mod layers;
mod loop_of_design;
mod optimizers;
mod precision;
mod quantized;
mod randomness;
mod transformations;
mod watching;
