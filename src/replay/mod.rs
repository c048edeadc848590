//! Recordings of failing calls, and their replay operation by operation.
//!
//! While failures are recorded, a call of a `jit` function that fails writes its program and its
//! inputs to a file: a NaN that [`debug::nan_check`](crate::debug::nan_check) found, a failed
//! [`debug::check`](crate::debug::check()), or an error of the device. `oxidax replay FILE`, or
//! [`Recording::replay`], runs the program on the CPU and finds the first operation that went
//! wrong, also inside loops and branches.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax::replay::{self, Recording};
//!
//! let folder = tempfile::tempdir().expect("a folder");
//! let step = jit(|x: Array| log(&(x - 2.0))).name("step");
//! let x = Array::from_slice(&[3.0f32, 1.0], [2])?;
//! let error = replay::record_failures(folder.path(), || debug::nan_check(|| step.call(&x)));
//! assert!(error.unwrap_err().to_string().contains("oxidax replay"));
//!
//! let recording = Recording::open(folder.path().join("step-1.failure"))?;
//! let replay = recording.replay()?;
//! let found = replay.found.expect("an operation made the NaN");
//! assert_eq!((found.operation, found.operands[0].min), ("log".into(), Some(-1.0)));
//! assert!(found.line.contains(file!()));
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! # What is recorded
//!
//! The traced program as text with a line for each equation, and the elements of the arguments and
//! captures. The functions of `custom_jvp` and `custom_vjp` are recorded without their derivative
//! rules, checks with their messages. Prints and callbacks without results are left out. A program
//! that takes results from a callback cannot be recorded: the error of the call says so.
//!
//! # Cost
//!
//! Without a recording setting, a call pays for one load. While failures are recorded, arguments
//! are not donated, so a step needs memory for its arguments and its results at the same time, and
//! each call waits for the device, so that its errors are found while the arguments exist. Elements
//! are copied to the host only when a call fails.

mod interpreter;
mod lines;
mod range;
mod record;
mod recording;
mod report;
mod reproducer;
mod text_form;

pub use crate::runtime::RecordOptions;
pub use range::Range;
pub(crate) use record::{RecordedCall, record_failure, record_request};
pub use record::{record_failures, record_failures_with};
pub use recording::{Cause, Recording};
pub use report::{BadOperation, Frame, Problem, Replay, Site};
pub use reproducer::{reproducer_devices, reproducer_inputs, run_reproducer};
