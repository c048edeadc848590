#![allow(warnings, reason = "temporary")]
mod bindings;
pub use bindings::*;
