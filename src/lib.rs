//! oxidax
#![forbid(unsafe_code)]

// The derive writes `::oxidax` paths, which must lead somewhere in here too.
extern crate self as oxidax;

pub mod checkpoint;
pub mod control_flow;
pub mod core;
pub mod data;
pub mod jit;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod passes;
pub mod prelude;
pub mod primitives;
pub mod random;
mod runtime;
pub mod stablehlo;
pub mod testing;
pub mod transforms;
pub mod tree;

pub use core::catch;
pub use ops::linalg;
pub use tree::Tree;

/// The one place where `core` and `runtime` meet: the backend that evaluates concrete arrays.
fn default_backend() -> &'static dyn core::Backend {
    runtime::evaluator()
}
