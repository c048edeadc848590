//! `jit`: a function compiled once per signature, called like a function.

mod compiled;
mod error;
mod lowered;
mod stats;

pub use compiled::{Jit, jit};
pub use error::CallError;
pub use lowered::Lowered;
pub use stats::JitStats;
