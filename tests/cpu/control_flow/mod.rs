//! Loops and conditionals: compared with Rust loops, under every transform, as text, and their
//! residuals and errors.

mod conditionals;
mod errors;
mod implicit;
mod kernel_forms;
mod loop_kernels;
mod loops;
mod nesting;
mod program_kernels;
mod residuals;
mod support;
mod text;
mod xla_metadata;
