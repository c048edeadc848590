//! Passes over programs: evaluate, print, parse, verify, eliminate dead code, count cost, lower.
//!
//! Each file implements one pass.

mod cost;
mod dce;
mod eval;
mod lower;
mod parse;
mod peak;
mod print;
mod verify;

pub use cost::cost;
pub use dce::dce;
pub(crate) use eval::{bind, eval, eval_flat, inlined};
pub use lower::lower;
pub(crate) use lower::{Placed, lower_placed};
pub use parse::parse;
pub use peak::{Live, Peak, peak};
pub use verify::verify;
