//! Profiles: where a program spends its time and its memory.
//!
//! [`trace`] records what the host does while a closure runs, and writes it to a folder that XProf,
//! TensorBoard and Perfetto open. [`ProfileSession`] keeps the events in memory. A profile contains
//! calls, tracing, lowering, compiling, dispatching, waiting, copies with their bytes, data
//! pipelines, callbacks, eager operations and checkpoints, each with the line of the program. It
//! also contains what the program marks with [`StepTraceAnnotation`] and [`TraceAnnotation`].
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax::profile::{self, StepTraceAnnotation};
//!
//! let folder = tempfile::tempdir()?;
//! let step = jit(|w: Array, x: Array| &w - &(&x * 0.1));
//! let (mut w, x) = (zeros([1024]), ones([1024]));
//! profile::trace(folder.path(), || {
//!     for index in 0..10 {
//!         let _step = StepTraceAnnotation::new("train", index);
//!         w = step.call(&w, &x)?;
//!         w.block_until_ready()?;
//!     }
//!     Ok::<(), Error>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`report_html`] makes a page of a profile: timeline, flame graph, time by line, memory,
//! collectives and roofline.
//!
//! The plugins of TPUs and GPUs add the work of their devices; that of CPUs has no profiler.
//! docs/profiling.md is the guide.
//!
//! [`memory`] lists the arrays in the memory of devices by the line that created them, and the
//! difference of two such lists is what a loop leaks.

mod activity;
mod annotation;
mod folder;
mod line_profile;
mod line_profile_file;
mod memory;
mod memory_growth;
mod operations;
pub(crate) mod page;
mod perfetto;
mod plugin_space;
mod pprof;
mod recorded;
#[cfg(feature = "profile-server")]
mod server;
mod session;
#[cfg(feature = "distributed")]
mod shared_run;
#[cfg(not(feature = "distributed"))]
#[path = "shared_run_alone.rs"]
mod shared_run;
mod step_lines;
mod step_memory;
mod summary;
mod trace;
mod xplane;
mod xspace;

pub use crate::core::named_scope;
pub use crate::core::spans::{ArgumentValue, EventArgument, EventKind, EventName, ProfileEvent};
pub use activity::{ActivityTracker, CurrentWork, ThreadActivity, UnfinishedProgram};
pub use annotation::{StepTraceAnnotation, TraceAnnotation};
pub use line_profile::{LineProfile, LineTime, ProfiledCollective, ProfiledOperation};
pub use memory::{LineMemory, MemoryProfile, memory};
pub use memory_growth::{LineGrowth, MemoryGrowth};
pub use page::report_html;
#[cfg(test)]
pub(crate) use plugin_space::recorded_example;
pub use recorded::{DeviceEvents, Profile, ThreadEvents};
#[cfg(feature = "profile-server")]
pub use server::{ProfilerServer, capture, capture_all, start_server};
pub use session::{ProfileOptions, ProfileSession};
pub use step_lines::{StepLineTime, StepLines};
pub use step_memory::{PeakArrays, StepMemory};
pub use trace::{start_trace, start_trace_with, stop_trace, trace, trace_with};
