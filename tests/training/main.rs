//! What stands on the public API: random keys, layers, losses, optimizers, data.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod layers;
mod loop_of_design;
mod optimizers;
mod precision;
mod quantized;
mod randomness;
mod transformations;
mod watching;
