//! Foreign functions: functions in Rust or C that compiled programs call with their buffers, as
//! `jax.ffi` has them.
//!
//! 1. Write a handler: a closure that gets an [`FfiFrame`] with the inputs, the attributes and the
//!    outputs that it writes, and [register](register_ffi_target) it under a name. On a CPU its
//!    buffers are those of the program, without a copy.
//! 2. Call it with [`ffi_call`], eagerly or under `jit`. A call is a `stablehlo.custom_call`.
//! 3. Give it a derivative with [`custom_vjp`](crate::control_flow::custom_vjp) or
//!    [`custom_jvp`](crate::control_flow::custom_jvp), and choose how `vmap` batches it with
//!    [`FfiCallOptions::vmap_method`].
//!
//! Errors and panics of a handler become errors of the program, with the line of the call.
//!
//! # A normalization with its gradient
//!
//! `y = x / sqrt(mean(x²) + eps)` over the last axis (Zhang and Sennrich, 2019). The forward
//! handler also returns `scale = 1 / sqrt(mean(x²) + eps)`, which the gradient needs: `dx = scale ·
//! (dy − y · mean(dy · y))`.
//!
//! ```
//! use oxidax::ffi::{self, FfiAttributes, FfiCallOptions, FfiFrame, HostError, VmapMethod};
//! use oxidax::prelude::*;
//!
//! fn forward(frame: &mut FfiFrame) -> Result<(), HostError> {
//!     let eps: f32 = frame.attribute("eps")?;
//!     let n = *frame.inputs()[0].shape().last().ok_or("a scalar has no axis")?;
//!     let ([x], [y, scale]) = frame.slices::<f32, 1, 2>()?;
//!     for ((x, y), scale) in x.chunks(n).zip(y.chunks_mut(n)).zip(scale) {
//!         let mean = x.iter().map(|x| x * x).sum::<f32>() / n as f32;
//!         *scale = (mean + eps).sqrt().recip();
//!         y.iter_mut().zip(x).for_each(|(y, x)| *y = *scale * x);
//!     }
//!     Ok(())
//! }
//!
//! fn backward(frame: &mut FfiFrame) -> Result<(), HostError> {
//!     let n = *frame.inputs()[0].shape().last().ok_or("a scalar has no axis")?;
//!     let ([y, scale, dy], [dx]) = frame.slices::<f32, 3, 1>()?;
//!     let rows = y.chunks(n).zip(dy.chunks(n)).zip(scale);
//!     for (((y, dy), scale), dx) in rows.zip(dx.chunks_mut(n)) {
//!         let mean = y.iter().zip(dy).map(|(y, dy)| y * dy).sum::<f32>() / n as f32;
//!         for ((dx, y), dy) in dx.iter_mut().zip(y).zip(dy) {
//!             *dx = scale * (dy - y * mean);
//!         }
//!     }
//!     Ok(())
//! }
//!
//! /// Normalizes the last axis.
//! fn rms_norm(x: &Array, eps: f32) -> Array {
//!     // Both handlers compute any number of rows, so one call computes a batch.
//!     let options = FfiCallOptions {
//!         attributes: FfiAttributes::new().with("eps", eps),
//!         vmap_method: Some(VmapMethod::BroadcastAll),
//!         ..FfiCallOptions::default()
//!     };
//!     let call = move |x: &Array| {
//!         let rows = Aval::new(DType::F32, &x.shape().dims()[..x.rank() - 1]);
//!         let results = [x.aval().clone(), rows];
//!         ffi::ffi_call_with("docs.rms_norm", results, [x], options.clone())
//!     };
//!     let outer = call.clone();
//!     let f = custom_vjp(
//!         move |x: &Array| outer(x)[0].clone(),
//!         move |x: &Array| {
//!             let [y, scale] = call(x);
//!             (y.clone(), (y, scale))
//!         },
//!         |(y, scale): (Array, Array), dy: Array| {
//!             let options = FfiCallOptions {
//!                 vmap_method: Some(VmapMethod::BroadcastAll),
//!                 ..FfiCallOptions::default()
//!             };
//!             ffi::ffi_call_with("docs.rms_norm_bwd", y.aval(), [&y, &scale, &dy], options)
//!         },
//!     );
//!     f(x)
//! }
//!
//! ffi::register_ffi_target("docs.rms_norm", forward)?;
//! ffi::register_ffi_target("docs.rms_norm_bwd", backward)?;
//! let x = random::normal(random::key(0), [4, 8]);
//! let expected = |x: &Array| x / sqrt(&((x * x).mean_axes(axes(-1).keepdims()) + 1e-6));
//! let close = |a: Array, b: Array| assert!(allclose(&a, &b).item::<bool>().unwrap());
//!
//! close(jit(|x: Array| rms_norm(&x, 1e-6)).call(&x)?, expected(&x));
//! let loss = |x: &Array| (sin(&rms_norm(x, 1e-6))).sum();
//! close(grad(loss)(&x), grad(|x: &Array| sin(&expected(x)).sum())(&x));
//! close(vmap(|x: Array| rms_norm(&x, 1e-6)).apply(&x), expected(&x));
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! # Functions in C and C++
//!
//! A function of the C type `XLA_FFI_Handler`, such as XLA's macro `XLA_FFI_DEFINE_HANDLER_SYMBOL`
//! defines, is registered by [`register_foreign_target`] from its address or from a symbol of a
//! shared library. [`ForeignHandler`] states what such a function must guarantee.
//!
//! # Devices
//!
//! Handlers in Rust run for programs on CPUs, and on NVIDIA GPUs with copies of the buffers in host
//! memory. C functions get the buffers of their platform. Programs for TPUs do not call handlers.
//! A handler may run on any thread, and several may run at once. It must not run array operations:
//! the program that calls it is waiting.

mod buffer_callback;
mod call;
mod lowering;
mod register;
mod result_types;

pub use crate::control_flow::{FfiCall, FfiTarget};
pub use crate::core::{
    BufferFunction, FfiAttribute, FfiAttributes, FfiFrame, FfiHandler, FfiInput, FfiOutput,
    FfiScalar, FromFfiAttribute, HostError,
};
pub use crate::primitives::VmapMethod;
pub use crate::runtime::ForeignHandler;
pub use buffer_callback::{BufferCallbackOptions, buffer_callback, buffer_callback_with};
pub use call::{FfiCallOptions, ffi_call, ffi_call_with};
pub use lowering::ffi_lowering;
pub use register::{register_ffi_handler, register_ffi_target, register_foreign_target};
pub use result_types::ResultTypes;
