//! The one custom call through which programs reach host functions.

use super::buffer::element_type;
use crate::core::host_function::{as_callback, find, store_failure};
use crate::core::{Aval, DType, Error, HostArray, Loc, OpErrorKind, catch, trace};
use oxidax_pjrt::ffi::{CallFrame, register};
use oxidax_pjrt::{Client, ElementType};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `lower` rules call it.
const NAME: &str = "oxidax.callback";

/// Whether the text of a program calls host functions, which another process does not have.
pub(super) fn calls_host(text: &str) -> bool {
    text.contains(NAME) || text.contains("is_host_transfer")
}

/// Makes host functions reachable from the programs of a client.
pub(super) fn install(client: &Client) -> oxidax_pjrt::Result<()> {
    register(client, NAME, |frame| {
        let outcome = catch_unwind(AssertUnwindSafe(|| as_callback(|| catch(|| serve(frame)))));
        match outcome {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error)) | Err(error)) => Err(store_failure(error)),
            Err(panic) => Err(store_failure(failure(format!("panicked: {}", said(&*panic))))),
        }
    })
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn failure(message: String) -> Error {
    trace::op_error(OpErrorKind::Runtime, "callback", message, Loc::UNKNOWN)
}

/// One call: the operands to host values, and what the function gives to the results.
fn serve(frame: &mut CallFrame<'_>) -> Result<(), Error> {
    let id = frame.attribute("id").and_then(|id| id.as_int());
    let function = id.and_then(|id| find(u64::try_from(id).ok()?)).ok_or_else(|| {
        failure("the program outlived the function that it calls: a bug in oxidax".into())
    })?;
    // An ordered call's first operand and result are its token, which has no elements.
    let mut operands = Vec::new();
    for at in 0..frame.argument_count() {
        if let Some(aval) = aval_of(frame.argument_type(at).map_err(failure)?) {
            operands.push(HostArray::from_bytes(frame.read(at).map_err(failure)?, aval)?);
        }
    }
    let mut given = function.run(&operands)?.into_iter();
    for at in 0..frame.result_count() {
        let Some(expected) = aval_of(frame.result_type(at).map_err(failure)?) else { continue };
        let found = given.next();
        match &found {
            Some(found) if found.aval().same_type(&expected) => {
                frame.write(at, found.as_bytes()).map_err(failure)?;
            }
            Some(found) => {
                let message = format!("result {at} is to be {expected}, got {}", found.aval());
                return Err(failure(message));
            }
            None => return Err(failure(format!("result {at}, {expected}, is missing"))),
        }
    }
    match given.count() {
        0 => Ok(()),
        more => Err(failure(format!("{more} results more than the program expects"))),
    }
}

/// The type of an operand; `None` for a token.
fn aval_of((element, dims): (ElementType, &[i64])) -> Option<Aval> {
    let dtype = DType::all().find(|dtype| element_type(*dtype) == element)?;
    Some(Aval::new(dtype, dims.iter().map(|&dim| dim as usize).collect::<Vec<_>>()))
}
