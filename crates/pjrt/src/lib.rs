//! Safe access to [PJRT](https://openxla.org/xla/pjrt) plugins: clients, devices, buffers, compiled
//! programs, topologies.
//!
//! A plugin is a shared library that compiles and runs StableHLO programs on some hardware. It is
//! chosen when the program runs: [`Plugin::load`] opens it, [`Client::new`] finds its devices,
//! [`Client::compile`] makes a [`LoadedExecutable`] of a [`Program`], and
//! [`LoadedExecutable::execute`] runs it on [`Buffer`]s.
//!
//! What this crate adds to the C API:
//! - Handles are cheap to clone, may be sent between threads, and keep alive what they depend on.
//! - Plugins of different ages work: each function is looked for before it is called, and
//!   [`Error::Missing`] names what a plugin lacks.
//! - What plugins do not check is checked here: the element types and dimensions of arguments,
//!   where they are, whether they still are.
//! - What would end the process is refused with an error: programs whose functions call themselves,
//!   dimensions that are not known, counts of zero, unknown `XLA_FLAGS`.
//!
//! It does not look for plugins (`oxidax-plugin` does) and knows nothing of arrays, shapes beyond
//! their sizes, or differentiation.

#![warn(unreachable_pub)]
#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

mod aligned;
mod analysis;
mod api;
mod buffer;
mod client;
mod compile_options;
mod device;
mod elf;
mod environment;
mod error;
mod event;
mod executable;
mod execute;
pub mod ffi;
mod gpus;
mod groups;
mod hlo;
mod host;
mod key_value;
mod launch;
mod libtpu;
mod memory;
mod mlir;
mod named_value;
mod plugin;
mod program;
pub mod raw;
mod read;
mod serialize;
mod shardings;
mod signature;
mod topology;
mod types;
mod xla_flags;

pub use aligned::{ALIGNMENT, AlignedBytes};
pub use analysis::CompiledMemoryStats;
pub use buffer::{Buffer, Layout, UniqueBuffer};
pub use client::Client;
pub use compile_options::{CompileOptions, OptionValue};
pub use device::{Device, DeviceDescription, MemoryStats};
pub use error::{Code, Error, PluginName, Result};
pub use event::Event;
pub use executable::{Executable, LoadedExecutable};
pub use execute::{ExecuteOptions, Results, ShardedResults, SpreadResults, Workspace};
pub use hlo::Instruction;
pub use host::Placement;
pub use key_value::KeyValueStore;
pub use memory::Memory;
pub use named_value::{NamedValue, Value};
pub use plugin::{ApiVersion, Plugin};
pub use program::{Format, Program};
pub use read::HostView;
pub use shardings::Sharding;
pub use signature::Signature;
pub use topology::Topology;
pub use types::{ArrayType, Dims, ElementType};
