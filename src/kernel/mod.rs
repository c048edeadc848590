//! Custom kernels: functions of blocks of memory, written once for TPU, GPU and CPU.
//!
//! [`call`] describes a kernel: its body, a grid of programs, and the blocks of operands and
//! results that each program sees. The body reads and writes [`Ref`]s, and computes with ordinary
//! functions of arrays. Inside, [`program_id`] and [`num_programs`] return the position in the
//! grid, [`when`] runs code on a condition, and [`fori_loop`] and [`while_loop`] repeat it.
//!
//! A kernel has no derivative. A function that calls kernels gets one with
//! [`custom_vjp`](crate::control_flow::custom_vjp). [`vmap`](crate::transforms::vmap()) adds an
//! axis to the grid.
//!
//! The body is traced to a program without side effects: a reference is a value in it, and a write
//! returns the next one (`ref_ops`). On a CPU the kernel is a loop over the grid (`grid_loop`).

mod analysis;
mod arith;
mod batch;
mod checks;
mod grid_loop;
mod interpreter;
#[allow(clippy::module_inception, reason = "the file holds the type `Kernel`")]
mod kernel;
mod kernel_call;
mod mosaic;
mod mosaic_gpu;
mod multiple_of;
mod ref_index;
mod ref_ops;
mod refs;
mod scope;
mod source_locations;
mod spec;
mod text;
mod traffic;
mod triton;

pub use interpreter::{CheckOptions, check, with_checks};
pub use kernel::{GpuBackend, Kernel, KernelOptions, KernelTarget, Refs, call};
pub use kernel_call::{BlockMapping, KernelCall, KernelPlatform};
pub use multiple_of::multiple_of;
pub use ref_index::{RefIndex, RefIndices, Start, ds, ds_strided};
pub use ref_ops::{AxisPart, AxisStart, RefGet, RefPart, RefSet};
pub use refs::{Ref, RefView};
pub use scope::{fori_loop, num_programs, program_id, when, while_loop};
pub use spec::{BlockDim, BlockSpec, DimensionSemantics, Grid, KernelMemory, Output, Scratch};
pub use text::KERNEL_PRIMITIVES;
