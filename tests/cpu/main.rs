//! Tests on one CPU device. Modules named `on_cpu` need the CPU plugin; the other tests only trace.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod arrays;
mod checkpoint;
mod control_flow;
mod data;
mod debugging;
mod dispatch;
mod errors;
mod foreign;
mod idioms;
mod importing;
mod importing_damaged;
mod kernels;
mod mosaic_gpu;
mod ops;
mod planted;
mod primitives;
mod profiling;
mod random_programs;
mod training;
mod transforms;
mod triton;
