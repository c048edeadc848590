//! Lowering of programs to StableHLO text.

pub(crate) mod lower_ctx;
mod manual;
pub(crate) mod manual_axes;
mod outline;
mod permutations;
pub(crate) mod target;

pub use lower_ctx::LowerCtx;
pub(crate) use lower_ctx::{ModuleFacts, TransferredCall};
pub use outline::RepeatedPart;
pub(crate) use outline::{Outline, PartCall, PartFunction, Step};
pub use target::LoweringTarget;
