//! The device side: plugin choice, compiling, executing, copies, donation, eager evaluation.
//!
//! The only room that uses `oxidax-pjrt`.

mod analysis;
mod buffer;
mod callbacks;
mod client;
mod config;
mod evaluator;
mod executable;

pub use analysis::MemoryAnalysis;
pub(crate) use buffer::{any_deleted, is_deleted};
pub(crate) use evaluator::{blame, evaluator, is_watched};
pub(crate) use executable::{Executable, Kept, Scratch};
