//! oxidax
#![forbid(unsafe_code)]

pub mod control_flow;
pub mod core;
pub mod jit;
pub mod passes;
pub mod prelude;
pub mod primitives;
mod runtime;
pub mod stablehlo;
pub mod testing;
pub mod transforms;
pub mod tree;

pub use core::catch;

/// The one place where `core` and `runtime` meet: the backend that evaluates concrete arrays.
fn default_backend() -> &'static dyn core::Backend {
    runtime::evaluator()
}
