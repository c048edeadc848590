//! Looking into compiled programs: printing, calls to the host, checks, and where NaN comes from.
//!
//! Everything here works under `jit`, `grad`, `vmap` and in loops. What prints, calls or checks does so once
//! each time the compiled program comes there, in the program's order; `vmap` does so once for each example.
//! A program that does any of it is waited for: its call returns when the device is done.
//!
//! On the CPU plugin. For NVIDIA's GPUs the same calls copy from and to the device; that part has not run on one yet.
//! Programs for TPUs compile and do not run yet.

mod check;
mod format;
mod host;
mod nan;
mod print;

pub use check::check;
pub use host::{HostError, callback, pure_callback};
pub use nan::{finite_check, nan_check};
pub use print::{print, set_output};
