//! `jit`: functions compiled once per signature, and their stages one by one.
//!
//! | stage | type | made by |
//! |---|---|---|
//! | a function | [`Jit`] | [`jit`] |
//! | traced, ready to compile | [`Lowered`] | [`Jit::lower`] |
//! | compiled for one signature | [`Compiled`] | [`Lowered::compile`], [`Lowered::compile_for`], [`Compiled::deserialize`] |
//!
//! Calling a [`Jit`] goes through all stages at the first call of a signature. [`pmap`] maps a
//! function over devices; [`cache`] configures the caches of compiled programs.

mod buckets;
pub mod cache;
mod call_key;
mod call_macros;
mod call_refs;
mod common_cause;
mod compile_set;
mod compiled;
mod creation;
mod error;
mod explained;
mod file_format;
mod history;
mod inspection;
#[allow(clippy::module_inception, reason = "the type `Jit` is in `jit.rs`")]
mod jit;
mod layouts;
mod line_profile;
mod lowered;
mod pmap;
mod ready;
mod sealed;
mod serialized;
mod specialization;
mod stats;
mod traced;
mod tree_description;

pub use crate::core::{
    Collective, CompileLimit, LoopForm, LoopReport, Recompilation, RecompilationCause,
    RepeatedPart, SealedError,
};
#[cfg(feature = "roofline")]
pub(crate) use crate::runtime::ExchangedAxes;
pub use crate::runtime::{
    Collectives, CompiledCollective, CompilerOptions, CompilerReport, EffortLevel, Fusion,
    MemoryAnalysis, OptionValue, SourceLocation, disable_loop_kernels, disable_most_optimizations,
    disable_outlining, disable_rewrites, effects_barrier, enable_program_kernels,
};
pub use buckets::Buckets;
pub use compiled::Compiled;
pub use error::CallError;
pub use explained::ExplainedCollective;
pub use jit::{Jit, jit};
#[cfg(feature = "export")]
pub(crate) use lowered::LoweredFunction;
pub use lowered::{Argument, Lowered};
pub use pmap::{PMap, pmap};
pub use ready::{block_until_ready, copy_to_host_async};
pub use stats::JitStats;
