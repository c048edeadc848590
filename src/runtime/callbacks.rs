//! The custom call through which programs call host functions.

use super::device_buffer::element_type;
use crate::core::host_function::{as_callback, find, store_failure};
use crate::core::{Aval, DType, Error, HostArray, Loc, OpErrorKind, catch, trace};
use oxidax_pjrt::ffi::{CallFrame, register};
use oxidax_pjrt::{Client, ElementType};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The name of the custom call in lowered programs.
const NAME: &str = "oxidax.callback";

/// Registers the custom call with a client.
pub(super) fn install(client: &Client) -> oxidax_pjrt::Result<()> {
    register(client, NAME, |frame| {
        let outcome = catch_unwind(AssertUnwindSafe(|| as_callback(|| catch(|| serve(frame)))));
        match outcome {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error)) | Err(error)) => Err(store_failure(error)),
            Err(panic) => {
                Err(store_failure(failure(format!("panicked: {}", panic_message(&*panic)))))
            }
        }
    })
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn failure(message: String) -> Error {
    trace::op_error(OpErrorKind::Runtime, "callback", message, Loc::UNKNOWN)
}

/// Runs one call: reads the operands, calls the function and writes its results.
fn serve(frame: &mut CallFrame<'_>) -> Result<(), Error> {
    let id = frame.attribute("id").and_then(|id| id.as_int());
    let function = id.and_then(|id| find(u64::try_from(id).ok()?)).ok_or_else(|| {
        failure("the program outlived the function that it calls: a bug in oxidax".into())
    })?;
    // The first operand and result of an ordered call is a token without elements.
    let mut operands = Vec::new();
    for index in 0..frame.argument_count() {
        if let Some(aval) = aval_of(frame.argument_type(index).map_err(failure)?) {
            operands.push(HostArray::from_bytes(frame.read(index).map_err(failure)?, aval)?);
        }
    }
    let mut results = function.run(&operands)?.into_iter();
    for index in 0..frame.result_count() {
        let Some(expected) = aval_of(frame.result_type(index).map_err(failure)?) else { continue };
        match results.next() {
            Some(result) if result.aval().same_type(&expected) => {
                frame.write(index, result.as_bytes()).map_err(failure)?;
            }
            Some(result) => {
                let message = format!("result {index} must be {expected}, got {}", result.aval());
                return Err(failure(message));
            }
            None => return Err(failure(format!("result {index}, {expected}, is missing"))),
        }
    }
    match results.count() {
        0 => Ok(()),
        more => Err(failure(format!("{more} results more than the program expects"))),
    }
}

/// Returns the type of an operand; `None` for a token.
fn aval_of((element, dims): (ElementType, &[i64])) -> Option<Aval> {
    let dtype = DType::all().find(|dtype| element_type(*dtype) == element)?;
    Some(Aval::new(dtype, dims.iter().map(|&dim| dim as usize).collect::<Vec<_>>()))
}
