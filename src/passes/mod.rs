//! Passes over programs: evaluate, print, parse, verify, eliminate dead code, count cost, lower.
//!
//! Each file implements one pass.

mod cost;
mod dce;
mod eval;
mod find_movements;
mod forward;
mod kernel_rewrites;
mod lower;
mod movement;
mod outline;
mod parse;
mod partitioning;
mod peak;
mod peak_lines;
mod plan;
mod print;
mod region;
mod rewrites;
mod verify;

pub use cost::cost;
pub use dce::dce;
pub(crate) use eval::{
    Bind, Evaluate, bind, eval, eval_flat, inlined, is_bind_replaced, is_evaluation_replaced,
    with_bind, with_evaluation,
};
pub(crate) use find_movements::movements;
pub(crate) use forward::forward;
#[cfg(feature = "export")]
pub(crate) use lower::lower_function;
pub(crate) use lower::lower_with_plan;
pub use lower::{LowerOptions, StableHloModule, lower, lower_with};
pub(crate) use movement::Movement;
pub use parse::parse;
#[cfg(feature = "roofline")]
pub(crate) use partitioning::{Axes, Grid, Partitioning, all_axes, held};
pub use peak::{Live, Peak, peak};
pub use peak_lines::PeakLine;
pub(crate) use plan::{Plan, PlanInput, RequestedLayouts};
#[cfg(feature = "roofline")]
pub(crate) use region::{Region, Step};
pub use verify::verify;
