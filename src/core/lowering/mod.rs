//! Lowering of programs to StableHLO text.

mod frontend_attributes;
mod loop_calls;
pub(crate) mod loop_kernel;
pub(crate) mod lower_ctx;
mod manual;
pub(crate) mod manual_axes;
mod outlined;
mod repeated_part;
pub(crate) mod target;
mod transposed;

pub(crate) use loop_kernel::is_sum;
pub use loop_kernel::{LoopForm, LoopReport};
pub use lower_ctx::LowerCtx;
pub(crate) use lower_ctx::{ModuleFacts, Outline, PartCall, PartFunction, Step, TransferredCall};
pub use repeated_part::RepeatedPart;
pub(crate) use target::GpuLimits;
pub use target::LoweringTarget;
