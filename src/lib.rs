//! oxidax
#![forbid(unsafe_code)]
// The derive writes `::oxidax` paths, which must lead somewhere in here too.
extern crate self as oxidax;

pub mod control_flow;
pub mod core;
pub mod passes;
pub mod primitives;
pub mod stablehlo;
pub mod transforms;
pub mod tree;
pub use core::catch;
pub use tree::Tree;
fn default_backend() -> &'static dyn core::Backend {
    todo!()
}
