//! Safe access to [PJRT](https://openxla.org/xla/pjrt) plugins: clients, devices, buffers, compiled
//! programs, topologies.
//!
//! A plugin is a shared library that compiles and runs StableHLO programs on some hardware. It is
//! selected at run time:
//! 1. [`Plugin::load`] opens it.
//! 2. [`Client::new`] finds its devices.
//! 3. [`Client::compile`] compiles a [`PjrtProgram`] to a [`LoadedExecutable`].
//! 4. [`LoadedExecutable::execute`] runs it on [`PjrtBuffer`]s.
//!
//! This crate adds to the C API:
//! - Handles are cheap to clone, can be sent between threads, and keep the objects that they depend
//!   on alive.
//! - Plugins of different versions work. Each function is looked up before it is called, and
//!   [`Error::Missing`] names the functions that a plugin lacks.
//! - Arguments are checked where plugins do not check them: element types, dimensions, devices, and
//!   deleted buffers.
//! - Requests that would end the process return an error: recursive functions in programs, unknown
//!   dimensions, counts of zero, unknown `XLA_FLAGS`.
//!
//! The crate does not search for plugins; `oxidax-plugin` does. It has no array operations, no
//! shapes beyond their sizes, and no differentiation.

#![warn(unreachable_pub)]
#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

mod aligned;
mod analysis;
mod api;
mod buffer;
mod client;
mod compile_options;
mod device;
mod dlpack;
mod elf;
mod environment;
mod error;
mod event;
mod executable;
mod execute;
mod exit;
pub mod ffi;
mod gpus;
mod groups;
mod hlo;
mod hlo_layouts;
mod hlo_text;
mod host;
pub mod host_pool;
mod host_transfer;
mod key_value;
mod launch;
mod libtpu;
mod memory;
mod mlir;
mod mosaic_gpu;
mod named_value;
mod operations;
mod plugin;
mod profiler;
mod program;
pub mod raw;
mod read;
mod serialize;
mod shardings;
mod shared_view;
mod signature;
mod topology;
mod types;
mod xla_flags;

pub use aligned::{ALIGNMENT, AlignedBytes};
pub use analysis::CompiledMemoryStats;
pub use buffer::{BufferLayout, PjrtBuffer, UniqueBuffer};
pub use client::Client;
pub use compile_options::{CompileOptions, EffortLevel, OptionValue};
pub use device::{DeviceDescription, MemoryStats, PjrtDevice};
pub use dlpack::{DlpackDevice, DlpackTensor, is_dlpack_type};
pub use error::{Code, Error, PluginName, Result};
pub use event::Event;
pub use executable::{Executable, LoadedExecutable};
pub use execute::{ExecuteOptions, Results, ShardedResults, SpreadResults, Workspace};
pub use hlo::Instruction;
pub use hlo_text::{Fusion, Neighbour, Origins, SourceLocation, SourceOperation};
pub use host::BufferPlacement;
pub use host_transfer::{HostTransfer, TransferChannel};
pub use key_value::KeyValueStore;
pub use memory::Memory;
pub use named_value::{NamedValue, PjrtValue};
pub use operations::{DeviceMemory, HeldArray, Operation, OperationProgram, Operations};
pub use plugin::{ApiVersion, Plugin};
pub use profiler::{Profiler, ProfilerOptions};
pub use program::{PjrtProgram, ProgramFormat};
pub use read::{HostCopy, HostView};
pub use shardings::HloSharding;
pub use shared_view::SharedView;
pub use signature::ExecutableSignature;
pub use topology::TopologyDescription;
pub use types::{ArrayType, Dims, ElementType};
