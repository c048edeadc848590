//! Checkpoints: single files, the folder of a run, models in several files, and runs that are killed.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod files;
mod folder;
mod killed;
mod rules;
mod sharded;
mod support;
