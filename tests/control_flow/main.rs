//! Loops and choices: against plain Rust loops, under every transform; what they keep and what they
//! drop; their text; their errors.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod choices;
mod errors;
mod implicit;
mod inside;
mod loops;
mod residuals;
mod support;
mod text;
