//! Registers handlers of foreign functions.

use crate::core::foreign::handlers;
use crate::core::{Error, FfiFrame, FfiHandler, HostError, Loc};
use crate::runtime::{self, ForeignHandler};
use std::sync::Arc;

/// Registers a handler in Rust under `name`, for [`ffi_call`](super::ffi_call) in this process.
///
/// It is registered until the process ends, on every platform that calls handlers: CPUs and NVIDIA
/// GPUs. A process has places for some 200 handlers on each. Programs with calls are stored in the
/// compile cache, so a handler must keep to its name.
///
/// # Errors
/// `Op` (value) if the name is taken, or there are too many handlers.
///
/// ```
/// use oxidax::ffi::{self, FfiFrame};
/// use oxidax::prelude::*;
/// ffi::register_ffi_target("docs.product", |frame: &mut FfiFrame| {
///     let ([x, y], [product]) = frame.slices::<f64, 2, 1>()?;
///     for (index, product) in product.iter_mut().enumerate() {
///         *product = x[index] * y[index];
///     }
///     Ok(())
/// })?;
/// let x = array![2.0f64, 3.0];
/// assert_eq!(ffi::ffi_call("docs.product", x.aval(), [&x, &x]).to_vec::<f64>()?, [4.0, 9.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ffi.register_ffi_target")]
#[track_caller]
pub fn register_ffi_target<F>(name: &str, handler: F) -> Result<(), Error>
where
    F: Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync + 'static,
{
    runtime::register_rust_handler(name, Arc::new(handler), Loc::caller())
}

/// Registers a handler with state under `name`, as [`register_ffi_target`] registers a closure.
///
/// # Errors
/// As [`register_ffi_target`].
#[doc(alias = "register_ffi_type")]
#[track_caller]
pub fn register_ffi_handler<H: FfiHandler>(name: &str, handler: H) -> Result<(), Error> {
    runtime::register_rust_handler(name, handlers::with_state(handler), Loc::caller())
}

/// Registers a function of C, C++ or another language under `name`, for programs on `platform`:
/// `cpu` or `cuda`.
///
/// A name may have a function for each platform.
///
/// # Errors
/// `Op` (value) if the name is taken, there are too many handlers, or programs for the platform do
/// not call handlers.
///
/// ```no_run
/// use oxidax::ffi::{self, ForeignHandler};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let library = "libnorms.so".as_ref();
/// // SAFETY: the library exports a handler of XLA's interface under this name.
/// let handler = unsafe { ForeignHandler::from_library(library, "rms_norm") }?;
/// ffi::register_foreign_target("rms_norm", handler, "cpu")?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "jax.ffi.register_ffi_target")]
#[track_caller]
pub fn register_foreign_target(
    name: &str,
    handler: ForeignHandler,
    platform: &str,
) -> Result<(), Error> {
    runtime::register_foreign_handler(name, handler, platform, Loc::caller())
}

/// A function of the C type is called for a program, without XLA's headers: the offsets are those
/// of `c_api.h`. Tests outside of `oxidax-pjrt` have no other place for `unsafe` code.
///
/// ```
/// use oxidax::ffi::{self, ForeignHandler};
/// use oxidax::prelude::*;
/// use std::ffi::c_void;
///
/// #[repr(C)]
/// struct List { size: usize, next: usize, n: i64, types: usize, items: *mut *mut Buffer }
/// #[repr(C)]
/// struct Buffer {
///     size: usize, next: usize, dtype: u32, data: *mut f32, rank: i64, dims: *mut i64,
/// }
/// #[repr(C)]
/// struct Query { size: usize, kind: u32, next: usize, metadata: *mut Metadata }
/// #[repr(C)]
/// struct Metadata { size: usize, version: [usize; 2], major: i32, minor: i32, traits: u32 }
/// #[repr(C)]
/// struct Frame {
///     size: usize, query: *mut Query, api: usize, ctx: usize, stage: u32, inputs: List,
///     outputs: List, attributes: [usize; 2], n_attributes: i64,
/// }
///
/// unsafe extern "C" fn doubled(frame: *mut Frame) -> *mut c_void {
///     unsafe {
///         if let Some(query) = (*frame).query.as_ref() {
///             let metadata = &mut *query.metadata;
///             (metadata.major, metadata.minor, metadata.traits) = (0, 1, 0);
///             return std::ptr::null_mut();
///         }
///         // The attribute with the position of the call does not reach a C function.
///         assert_eq!((*frame).n_attributes, 0);
///         let (x, y) = (&**(*frame).inputs.items, &**(*frame).outputs.items);
///         for index in 0..*x.dims as usize {
///             *y.data.add(index) = 2.0 * *x.data.add(index);
///         }
///         std::ptr::null_mut()
///     }
/// }
///
/// let handler = unsafe { ForeignHandler::from_address(doubled as *const c_void) }.unwrap();
/// ffi::register_foreign_target("docs.c_doubled", handler, "cpu")?;
/// assert!(ffi::register_foreign_target("docs.c_doubled", handler, "cpu").is_err());
/// assert!(ffi::register_foreign_target("docs.on_tpus", handler, "tpu").is_err());
/// let f = jit(|x: Array| ffi::ffi_call("docs.c_doubled", x.aval(), [&x]));
/// assert_eq!(f.call(Array::from([1.0, 2.0]))?.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(doctest)]
struct FunctionsInC;
