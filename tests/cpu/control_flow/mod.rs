//! Loops and choices: against plain Rust loops, under every transform; what they keep and what they
//! drop; their text; their errors.

mod choices;
mod errors;
mod implicit;
mod inside;
mod loops;
mod residuals;
mod support;
mod text;
