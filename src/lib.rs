//! oxidax
#![forbid(unsafe_code)]
pub mod core;
pub mod primitives;
pub mod stablehlo;
pub mod tree;
pub use core::catch;
fn default_backend() -> &'static dyn core::Backend {
    todo!()
}
