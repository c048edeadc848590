//! The device side: plugin choice, compiling, executing, copies, donation, eager evaluation.
//!
//! The only room that uses `oxidax-pjrt`.

mod buffer;
mod callbacks;
mod client;
mod config;
mod evaluator;
mod executable;

pub(crate) use buffer::{is_deleted, strong_count};
pub(crate) use evaluator::{blame, evaluator, is_watched};
pub(crate) use executable::Executable;
