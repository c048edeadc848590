//! Debugging compiled programs: printing, host callbacks, checks, and locating NaN.
//!
//! Everything here works under `jit`, `grad`, `vmap` and in loops. Prints, callbacks and checks run
//! each time the compiled program reaches them, in program order, and under `vmap` once per
//! example. A call of such a program returns when the device has finished.
//!
//! Platforms: the CPU plugin is tested. On NVIDIA GPUs the same calls copy between host and device,
//! which has not been run yet. TPU programs with callbacks compile but do not run yet.

mod check;
mod format;
mod host;
mod nan;
mod print;

pub use check::{check, check_labels};
pub use host::{HostError, callback, pure_callback};
pub use nan::{finite_check, nan_check};
pub use print::{print, set_output};
