//! The custom call, and the transfers, through which programs call host functions.

use super::device_buffer::dtype_of;
use super::ffi_targets;
use super::first_device::{BEGIN_LIMIT, FIRST_DEVICE};
use crate::core::host_function::{as_callback, contain_failure, find, store_failure};
use crate::core::{
    Aval, DType, Error, HostArray, HostFunction, Loc, ModuleFacts, OpErrorKind, TransferredCall,
    catch, trace,
};
use oxidax_pjrt::ffi::{CallFrame, register_for};
use oxidax_pjrt::{Client, ElementType, HostTransfer, Plugin, TransferChannel};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The name of the custom call in lowered programs.
const NAME: &str = "oxidax.callback";

/// Registers the custom call with a client.
pub(super) fn install(client: &Client) -> oxidax_pjrt::Result<()> {
    let platform = if client.is_cpu() { "cpu" } else { client.platform_name() };
    install_for(client.plugin(), platform)
}

/// Registers the custom call with a plugin, once. The compiler of a topology refuses unknown calls.
pub(super) fn install_for(plugin: Plugin, platform: &str) -> oxidax_pjrt::Result<()> {
    static INSTALLED: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (plugin.path().to_path_buf(), platform.to_ascii_lowercase());
    if installed.contains(&key) {
        return Ok(());
    }
    register_for(plugin, platform, NAME, handle)?;
    ffi_targets::install_for(plugin, platform)?;
    installed.push(key);
    Ok(())
}

fn handle(frame: &mut CallFrame<'_>) -> Result<(), String> {
    let contained = frame.attribute("contained").and_then(|flag| flag.as_bool()) == Some(true);
    let id = frame.attribute("id").and_then(|id| id.as_int()).and_then(|id| u64::try_from(id).ok());
    match (run_caught(|| serve(frame, id)), id) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(id)) if contained => {
            contain_failure(id, error);
            write_zeros(frame)
        }
        (Err(error), _) => Err(store_failure(error)),
    }
}

/// Runs a callback. Panics and thrown errors become its error.
fn run_caught<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    match catch_unwind(AssertUnwindSafe(|| as_callback(|| catch(f)))) {
        Ok(outcome) => outcome.flatten(),
        Err(panic) => Err(failure(format!("panicked: {}", panic_message(&*panic)))),
    }
}

/// Writes zeros to all results of a call that failed, or of a device that runs no function.
pub(super) fn write_zeros(frame: &mut CallFrame<'_>) -> Result<(), String> {
    for index in 0..frame.result_count() {
        if let Some(aval) = aval_of(frame.result_type(index)?) {
            frame.write(index, &vec![0; aval.size() * aval.dtype.host_bytes()])?;
        }
    }
    Ok(())
}

/// Returns the calls that a module makes through transfers, as the plugin takes them.
pub(super) fn host_transfers(facts: &ModuleFacts) -> Vec<HostTransfer> {
    let bytes = |aval: &Aval| aval.size() * aval.dtype.host_bytes();
    let number = Aval::new(DType::F32, [1]);
    let channels = |arrays: &[(Option<usize>, Aval)], other: Option<usize>| {
        let arrays = arrays.iter().map(|(channel, aval)| (*channel, bytes(aval)));
        let all = arrays.chain(other.map(|channel| (Some(channel), bytes(&number))));
        let with_channel = all.filter_map(|(channel, bytes)| {
            channel.map(|channel| TransferChannel { channel: channel as i64, bytes })
        });
        with_channel.collect::<Vec<_>>()
    };
    let transfers = facts.host_transfers.iter().map(|call| {
        let (sent, received) =
            (channels(&call.operands, call.start), channels(&call.results, call.end));
        let call = call.clone();
        HostTransfer::new(sent, received.clone(), move |_, sent| {
            // A failure is kept for the call of the program, and the device continues.
            let outcome = run_caught(|| serve_transfer(&call, sent));
            Ok(outcome.unwrap_or_else(|error| {
                contain_failure(call.function, error);
                received.iter().map(|result| vec![0; result.bytes]).collect()
            }))
        })
    });
    transfers.collect()
}

/// Runs one call whose operands were transferred. Returns the bytes of the transferred results.
fn serve_transfer(call: &TransferredCall, sent: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
    let mut sent = sent.iter();
    let mut operands = Vec::new();
    for (channel, aval) in &call.operands {
        let bytes = match channel {
            Some(_) => sent.next().cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        operands.push(HostArray::from_bytes(bytes, aval.clone())?);
    }
    let results = function_of(Some(call.function))?.run(&operands)?;
    let expected: Vec<Aval> = call.results.iter().map(|(_, aval)| aval.clone()).collect();
    check_results(&results, &expected)?;
    let transferred = results.iter().zip(&call.results).filter(|(_, (at, _))| at.is_some());
    let mut bytes: Vec<Vec<u8>> =
        transferred.map(|(result, _)| result.as_bytes().to_vec()).collect();
    bytes.extend(call.end.map(|_| vec![0; size_of::<f32>()]));
    Ok(bytes)
}

fn function_of(id: Option<u64>) -> Result<HostFunction, Error> {
    id.and_then(find).ok_or_else(|| {
        failure("the program outlived the function that it calls: a bug in oxidax".into())
    })
}

/// Returns an error if the results are not those that the program expects.
fn check_results(results: &[HostArray], expected: &[Aval]) -> Result<(), Error> {
    for (index, expected) in expected.iter().enumerate() {
        match results.get(index) {
            Some(result) if result.aval().same_type(expected) => {}
            Some(result) => {
                let message = format!("result {index} must be {expected}, got {}", result.aval());
                return Err(failure(message));
            }
            None => return Err(failure(format!("result {index}, {expected}, is missing"))),
        }
    }
    match results.len() - expected.len() {
        0 => Ok(()),
        more => Err(failure(format!("{more} results more than the program expects"))),
    }
}

pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn failure(message: String) -> Error {
    trace::op_error(OpErrorKind::Runtime, "callback", message, Loc::UNKNOWN)
}

/// Runs one call: reads the operands, calls the function and writes its results.
fn serve(frame: &mut CallFrame<'_>, id: Option<u64>) -> Result<(), Error> {
    let mut count = frame.argument_count();
    let is_set = |name| frame.attribute(name).and_then(|flag| flag.as_bool()) == Some(true);
    let (on_first, numbered) = (is_set("on_first"), is_set("ordered"));
    let devices = frame.attribute("devices").and_then(|devices| devices.as_int());
    // Devices of several processes are not counted.
    let devices = devices.and_then(|devices| usize::try_from(devices).ok()).filter(|&n| n > 0);
    let call = id.zip(devices);
    let mut running = None;
    if on_first {
        // The last operand is the ordinal of the device.
        count -= 1;
        let bytes = frame.read(count).map_err(failure)?;
        let ordinal = bytes.try_into().map_or(0, u32::from_ne_bytes);
        if ordinal != 0 {
            if let Some((id, devices)) = call {
                FIRST_DEVICE.wait(id, devices, ordinal, BEGIN_LIMIT);
            }
            // These results are added to those of the first device.
            return write_zeros(frame).map_err(failure);
        }
        running = call.map(|(id, devices)| FIRST_DEVICE.begin(id, devices));
    }
    let function = function_of(id)?;
    // The first operand and result of an ordered call is a token without elements, or a number in
    // its place.
    let first = usize::from(numbered);
    if numbered {
        frame.write(0, &0u32.to_ne_bytes()).map_err(failure)?;
    }
    let mut operands = Vec::new();
    for index in first..count {
        if let Some(aval) = aval_of(frame.argument_type(index).map_err(failure)?) {
            operands.push(HostArray::from_bytes(frame.read(index).map_err(failure)?, aval)?);
        }
    }
    let mut arrays = Vec::new();
    for index in first..frame.result_count() {
        if let Some(expected) = aval_of(frame.result_type(index).map_err(failure)?) {
            arrays.push((index, expected));
        }
    }
    let results = function.run(&operands);
    drop(running);
    let results = results?;
    let expected: Vec<Aval> = arrays.iter().map(|(_, expected)| expected.clone()).collect();
    check_results(&results, &expected)?;
    for ((index, _), result) in arrays.iter().zip(&results) {
        frame.write(*index, result.as_bytes()).map_err(failure)?;
    }
    Ok(())
}

/// Returns the type of an operand; `None` for a token.
pub(super) fn aval_of((element, dims): (ElementType, &[i64])) -> Option<Aval> {
    let dtype = dtype_of(element)?;
    Some(Aval::new(dtype, dims.iter().map(|&dim| dim as usize).collect::<Vec<_>>()))
}
