//! The device side: plugin choice, compiling, executing, copies, donation, eager evaluation.
//!
//! The only room that uses `oxidax-pjrt`.

mod analysis;
mod buffer;
mod cache;
mod client;
mod config;
mod evaluator;
mod executable;

pub use analysis::MemoryAnalysis;
pub(crate) use buffer::{any_deleted, is_deleted};
pub(crate) use cache::Cache;
pub(crate) use evaluator::evaluator;
pub(crate) use executable::{Executable, Scratch};
