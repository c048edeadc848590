//! Tracing: how an operation finds the program it belongs to.

mod array_ref;
mod bind;
mod checked;
pub(crate) mod named_axes;
pub(crate) mod nan_check;
pub(crate) mod rebinding;
mod ref_frame;
mod trace_scope;
mod tracing;

pub(crate) use super::error::loc::path;
pub(crate) use super::error::throw::{op_error, rule_error, throw, throw_op, throw_rule};
pub use array_ref::{ArrayRef, RefKind};
pub(crate) use array_ref::{RefEnd, collect_refs, refs_exist, without_outer_refs};
pub use bind::{bind, bind1, throw_operands};
pub(crate) use bind::{bind_at, bind_shared, result_avals};
pub(crate) use checked::checked_program;
pub use named_axes::{AxisNames, axis_size};
pub(crate) use ref_frame::{RefAccess, RefSource, RefUse, RefUses, aliased};
#[cfg(feature = "roofline")]
pub(crate) use trace_scope::BLOCK_SIZES;
pub(crate) use trace_scope::TraceScope;
pub(crate) use tracing::{
    Mode, Tracing, are_operands, escaped_error, interpreted, is_tracing, jit_disabled, same_value,
    same_variable, with_jit_disabled, with_numbers_as_operands, with_tracing_suspended,
};
