//! A text writer for StableHLO modules.
//!
//! Writes types, values, regions, functions and locations. It does not depend on primitives or
//! dtypes: each primitive's `lower` rule chooses the operation and its attributes. Operations are
//! written in MLIR's generic form, which needs no syntax per operation.
//!
//! Reference: StableHLO specification, "Programs".

mod types;
mod writer;

pub use types::{TensorType, Value};
pub(crate) use writer::{FrontendAttributes, quote};
pub use writer::{Region, Writer, i64_array, without_locations};
