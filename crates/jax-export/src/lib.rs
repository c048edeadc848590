//! Reads and writes functions as [`jax.export`](https://docs.jax.dev/en/latest/export/export.html)
//! serializes them: their signature, shardings, platforms, effects and derivatives, and the module
//! to compile.
//!
//! ```no_run
//! let bytes = std::fs::read("predict.jax_export")?;
//! let exported = oxidax_jax_export::Exported::read(&bytes)?;
//! for (path, input) in exported.input_tree.paths().iter().zip(&exported.inputs) {
//!     println!("{path}: {input}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Any bytes can be read: damaged ones are an [`Error`] with the position.
//!
//! Source of the format: `jax/_src/export/serialization.py` and `serialization_generated.py` of JAX
//! 0.10.2, versions 2 to 11 of it.

#![forbid(unsafe_code)]

mod abstract_value;
mod constructors;
mod dimension;
mod error;
mod exported;
mod flatbuffer;
mod flatbuffer_writer;
mod serialize;
mod sharding;
mod tree;

pub use abstract_value::{AbstractValue, JaxDType, KeyAlgorithm, MemorySpace};
pub use dimension::{Dimension, Expression};
pub use error::{Error, Result};
pub use exported::{DisabledCheck, Exported};
pub use sharding::{AbstractDevice, MeshAxis, MeshAxisType, MeshShape, Sharding};
pub use tree::PyTreeDef;
