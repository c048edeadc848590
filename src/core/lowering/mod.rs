//! Lowering of programs to StableHLO text.

pub(crate) mod lower_ctx;
pub(crate) mod manual_axes;

pub use lower_ctx::LowerCtx;
