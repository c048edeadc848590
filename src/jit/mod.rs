//! `jit`: a function compiled once per signature, called like a function.
//!
//! [`Jit`] compiles when it is called; [`Jit::lower`] and [`Lowered::compile`] do the same steps one
//! by one, ahead of the first call.

mod ahead;
mod artifact;
pub mod cache;
mod calls;
mod compiled;
mod entry;
mod error;
mod lowered;
mod planned;
mod pmap;
mod ship;
mod stats;

pub use crate::core::Collective;
pub use crate::runtime::{Collectives, CompiledCollective, MemoryAnalysis};
pub use ahead::Compiled;
pub use compiled::{Jit, jit};
pub use error::CallError;
pub use lowered::{Argument, Lowered};
pub use planned::Planned;
pub use pmap::{PMap, pmap};
pub use stats::JitStats;
