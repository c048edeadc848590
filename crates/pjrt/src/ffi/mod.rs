//! Custom calls: Rust functions that compiled programs call through XLA's foreign function
//! interface.
//!
//! ```no_run
//! # use oxidax_pjrt::{Client, ffi};
//! # fn register(client: &Client) -> oxidax_pjrt::Result<()> {
//! ffi::register(client, "example.double", |frame| {
//!     let (arguments, mut results) = frame.buffers()?;
//!     let (from, _) = arguments[0].bytes().as_chunks::<4>();
//!     let (to, _) = results[0].bytes_mut().as_chunks_mut::<4>();
//!     for (to, from) in to.iter_mut().zip(from) {
//!         *to = (2.0 * f32::from_ne_bytes(*from)).to_ne_bytes();
//!     }
//!     Ok(())
//! })
//! # }
//! ```
//! A program calls it with `stablehlo.custom_call @example.double(%x) {api_version = 4 : i32} :
//! (tensor<4xf32>) -> tensor<4xf32>`.
//!
//! On a GPU the buffers are in device memory. [`CallFrame::read`] and [`CallFrame::write`] copy
//! them, on GPU and CPU.
//!
//! Register a handler before compiling a program that calls it. Calls without `has_side_effect =
//! true` may be dropped or repeated. Calls with it run in any order unless a token orders them. A
//! handler may run on any thread, and several may run at once. A handler that launches a program
//! receives an error.

mod attribute;
mod device;
mod foreign;
mod frame;
mod registry;

pub use attribute::{Attribute, AttributeScalar};
pub use foreign::{ForeignHandler, SITE};
pub use frame::{ArgumentBuffer, CallFrame, FrameBuffers, ResultBuffer};
pub(crate) use registry::is_registered;
pub(crate) use registry::{Running, refuse_inside_handler};
pub use registry::{register, register_for, register_foreign};
