//! Foreign functions, DLPack and views of arrays in host memory.

mod attributes;
mod batches;
mod calls;
mod closures;
mod dlpack;
mod host_views;

use oxidax::debug::HostError;
use oxidax::ffi::{self, FfiFrame};
use oxidax::prelude::*;

fn f32s(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

/// Registers a handler under a name that no other test uses.
fn register(
    name: &str,
    handler: impl Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync + 'static,
) {
    ffi::register_ffi_target(name, handler).unwrap();
}

/// Returns the error of a call, or of reading its result.
fn error_of<E: std::fmt::Display>(result: Result<Array, E>) -> String {
    match result {
        Ok(result) => result.to_bytes().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

/// Doubles `f32`s.
fn double(frame: &mut FfiFrame<'_>) -> Result<(), HostError> {
    let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
    y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
    Ok(())
}
