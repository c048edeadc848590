//! Lowering of programs to StableHLO text.

pub(crate) mod lower_ctx;
mod manual;
pub(crate) mod manual_axes;
mod permutations;
pub(crate) mod target;

pub use lower_ctx::LowerCtx;
pub(crate) use lower_ctx::{ModuleFacts, TransferredCall};
pub use target::LoweringTarget;
