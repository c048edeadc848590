//! Tests of this crate's guarantees, with CPU plugins of three API versions.

mod buffers;
mod custom_calls;
mod events;
mod execution;
mod foreign;
mod gpu;
mod loading;
mod plugins;
mod profiler;
mod refusals;
mod saved;
mod sharded;
mod tpu;
