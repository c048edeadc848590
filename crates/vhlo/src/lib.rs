//! Reads and writes [portable artifacts](https://openxla.org/stablehlo/compatibility) of StableHLO:
//! modules in MLIR's bytecode, of the versioned dialect VHLO.
//!
//! ```
//! # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dots.bc");
//! let artifact = oxidax_vhlo::PortableArtifact::read(&std::fs::read(file)?)?;
//! assert_eq!(artifact.producer(), "StableHLO_v1.15.0");
//! assert!(artifact.to_text()?.contains("stablehlo.dot_general"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It reads all operations, types and attributes of VHLO 0.9 to 1.20, and those of Shardy that
//! `jax.export` writes. Positions in source files and the sharding rules of custom calls are left
//! out.
//!
//! [`PortableArtifact::parse`] makes an artifact of StableHLO text in MLIR's generic form, for the
//! oldest version that has its operations, and [`PortableArtifact::to_bytes`] writes it.
//!
//! Any bytes can be read: damaged ones are an [`Error`] with the position. Any text can be parsed:
//! a wrong one is a [`TextError`] with the line.

#![forbid(unsafe_code)]

mod attribute_names;
mod cases;
mod cursor;
mod custom_calls;
mod entries;
mod error;
mod module;
mod parse;
mod sharding;
mod shardy;
mod text;
mod version;
mod view;
mod write;

pub use error::{Error, Result};
pub use module::PortableArtifact;
pub use parse::TextError;
pub use sharding::{ArraySharding, ShardingAxis};
pub use version::VhloVersion;
pub use view::{AttributeValue, ValueType, VhloBlock, VhloFunction, VhloOperation};
