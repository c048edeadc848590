//! A text writer for StableHLO modules.
//!
//! Knows types, values, regions, functions and locations; knows no primitive and no dtype table.
//! What an operation means and which attributes it takes is the business of each primitive's
//! `lower` rule. Operations are written in MLIR's generic form, which needs no per-operation
//! syntax.
//!
//! Reference: StableHLO specification, "Programs".

mod types;
mod writer;

pub use types::{TensorType, Value};
pub use writer::{Region, Writer, i64_array, without_locations};
