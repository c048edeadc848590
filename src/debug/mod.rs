//! Debugging compiled programs: printing, host callbacks, checks, and locating NaN.
//!
//! Everything here works under `jit`, `grad`, `vmap`, in loops, in `shard_map` and `pmap`. Prints
//! and callbacks run each time the compiled program reaches them: under `vmap` once per example, in
//! `shard_map` and `pmap` once per device. They are unordered by default, and calls return before
//! they have run; [`effects_barrier`](crate::jit::effects_barrier) waits for them.
//!
//! Platforms: the CPU plugin is tested. On NVIDIA GPUs the same calls copy between host and device.
//! On TPUs arrays are transferred by `send` and `recv`. Programs for both compile in the tests;
//! they have not run on such devices yet.

mod check;
mod fields;
mod format;
mod host;
mod nan;
mod print;

pub use crate::primitives::VmapMethod;
pub(crate) use check::CHECK;
pub use check::{check, check_labels};
pub use fields::{Fields, Named, Unnamed};
pub use host::{
    CallbackOptions, HostError, PureCallbackOptions, callback, callback_with, io_callback,
    io_callback_with, pure_callback, pure_callback_with,
};
pub use nan::{finite_check, nan_check};
pub use print::{log, print, print_captured, print_with, set_output};
