//! oxidax
#![forbid(unsafe_code)]
pub mod control_flow;
pub mod core;
pub mod passes;
pub mod primitives;
pub mod stablehlo;
pub mod transforms;
pub mod tree;
pub use core::catch;
fn default_backend() -> &'static dyn core::Backend {
    todo!()
}
