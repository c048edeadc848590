//! Tracing: how an operation finds the program it belongs to.

mod bind;
mod checked;
pub(crate) mod named_axes;
pub(crate) mod nan_check;
pub(crate) mod rebinding;
mod trace_scope;
mod tracing;

pub(crate) use super::error::loc::path;
pub(crate) use super::error::throw::{op_error, rule_error, throw, throw_op, throw_rule};
pub use bind::{bind, bind1, throw_operands};
pub(crate) use bind::{bind_at, bind_shared, result_avals};
pub(crate) use checked::checked_program;
pub use named_axes::{AxisNames, axis_size};
pub(crate) use trace_scope::TraceScope;
pub(crate) use tracing::{
    Mode, Tracing, are_operands, escaped_error, interpreted, is_tracing, jit_disabled, same_value,
    same_variable, with_jit_disabled, with_numbers_as_operands, with_tracing_suspended,
};
