//! What this crate promises, tried on CPU plugins of three ages.

mod buffers;
mod custom_calls;
mod events;
mod execution;
mod gpu;
mod loading;
mod plugins;
mod refusals;
mod saved;
mod sharded;
mod tpu;
