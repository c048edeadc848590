//! Lowering of programs to StableHLO text.

pub(crate) mod lower_ctx;
mod manual;
pub(crate) mod manual_axes;
mod permutations;
mod repeated_part;
pub(crate) mod target;

pub use lower_ctx::LowerCtx;
pub(crate) use lower_ctx::{ModuleFacts, Outline, PartCall, PartFunction, Step, TransferredCall};
pub use repeated_part::RepeatedPart;
pub use target::LoweringTarget;
