//! Registers handlers of foreign functions with plugins, and runs the calls of those in Rust.

use super::callbacks::{aval_of, panic_message, write_zeros};
use crate::core::foreign::handlers::{self, Serve};
use crate::core::foreign::handlers::{CLOSURE, CLOSURE_TARGET, CONTAINED, SITE};
use crate::core::foreign::{TAG_BYTES, TAG_DTYPE, TAG_SCALAR, find_buffer_function};
use crate::core::host_function::{as_callback, contain_failure, store_failure};
use crate::core::{
    Aval, DType, Error, FfiAttribute, FfiAttributes, FfiFrame, FfiInput, FfiOutput, FfiScalar,
    HostError, Loc, OpErrorKind, catch, trace,
};
use oxidax_pjrt::ffi::{
    Attribute, AttributeScalar, CallFrame, ForeignHandler, register_for, register_foreign,
};
use oxidax_pjrt::{AlignedBytes, Plugin};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A registered handler.
#[derive(Clone)]
struct Target {
    name: String,
    kind: TargetKind,
}

#[derive(Clone)]
enum TargetKind {
    /// A handler in Rust, for every platform that calls handlers.
    Rust(Arc<Serve>),
    /// A function of another language, for one platform.
    Foreign(ForeignHandler, String),
}

/// The handlers, and the plugins that know them.
struct Targets {
    targets: Vec<Target>,
    plugins: Vec<(Plugin, String)>,
}

static TARGETS: Mutex<Targets> = Mutex::new(Targets { targets: Vec::new(), plugins: Vec::new() });

/// Registers all handlers with a plugin, and from now on every new one.
pub(super) fn install_for(plugin: Plugin, platform: &str) -> oxidax_pjrt::Result<()> {
    let mut all = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    register_for(plugin, platform, CLOSURE_TARGET, |frame| {
        handle(frame, "buffer_callback", &|_| Err("the closure has no id".into()))
    })?;
    for target in &all.targets {
        register(plugin, platform, target)?;
    }
    all.plugins.push((plugin, platform.to_owned()));
    Ok(())
}

/// Registers a handler in Rust, with the plugins of this process and those that are loaded later.
///
/// # Errors
/// `Op` (value) if the name is taken; `Plugin` if the plugins have no more places.
pub(crate) fn register_rust_handler(name: &str, serve: Arc<Serve>, loc: Loc) -> Result<(), Error> {
    let inserted = handlers::insert(name, serve.clone());
    inserted.map_err(|message| refused(message, loc))?;
    add(Target { name: name.to_owned(), kind: TargetKind::Rust(serve) }, loc)
}

/// Registers a function of another language for one platform, as [`register_rust_handler`] does.
///
/// # Errors
/// As [`register_rust_handler`].
pub(crate) fn register_foreign_handler(
    name: &str,
    handler: ForeignHandler,
    platform: &str,
    loc: Loc,
) -> Result<(), Error> {
    let platform = platform.to_lowercase();
    if !matches!(platform.as_str(), "cpu" | "cuda" | "rocm") {
        let message = format!("`{name}`: programs for {platform} do not call handlers");
        return Err(refused(message, loc));
    }
    let inserted = handlers::insert_foreign(name, &platform);
    inserted.map_err(|message| refused(message, loc))?;
    add(Target { name: name.to_owned(), kind: TargetKind::Foreign(handler, platform) }, loc)
}

fn refused(message: String, loc: Loc) -> Error {
    trace::op_error(OpErrorKind::Value, "register_ffi_target", message, loc)
}

fn add(target: Target, loc: Loc) -> Result<(), Error> {
    let mut all = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    for (plugin, platform) in &all.plugins {
        register(*plugin, platform, &target).map_err(|error| {
            handlers::remove(&target.name);
            refused(error.to_string(), loc)
        })?;
    }
    all.targets.push(target);
    Ok(())
}

fn register(plugin: Plugin, platform: &str, target: &Target) -> oxidax_pjrt::Result<()> {
    let name = target.name.clone();
    match &target.kind {
        TargetKind::Rust(serve) => {
            let serve = serve.clone();
            register_for(plugin, platform, &target.name, move |frame| handle(frame, &name, &*serve))
        }
        TargetKind::Foreign(_, other) if !other.eq_ignore_ascii_case(platform) => Ok(()),
        TargetKind::Foreign(handler, _) => {
            register_foreign(plugin, platform, &target.name, *handler, move |site, message| {
                let loc = site.map_or(Loc::UNKNOWN, handlers::site);
                store_failure(failure(&name, &message, loc))
            })
        }
    }
}

fn failure(name: &str, message: &str, loc: Loc) -> Error {
    trace::op_error(OpErrorKind::Runtime, "ffi_call", format!("`{name}` failed: {message}"), loc)
}

/// Runs one call of a handler in Rust.
fn handle(frame: &mut CallFrame<'_>, name: &str, serve: &Serve) -> Result<(), String> {
    let mut attributes: FfiAttributes =
        frame.attributes().into_iter().map(|(name, value)| (name, converted(value))).collect();
    let site = attributes.remove(SITE);
    let contained = attributes.remove(CONTAINED).and_then(as_id);
    let closure = attributes.remove(CLOSURE).and_then(as_id);
    let closure = closure.and_then(find_buffer_function);
    let loc = match (&closure, site) {
        (_, Some(FfiAttribute::String(site))) => handlers::site(&site),
        (Some(closure), _) => closure.loc(),
        _ => Loc::UNKNOWN,
    };
    let run = || match &closure {
        Some(closure) => with_frame(frame, attributes, |frame| closure.run(frame)),
        None => with_frame(frame, attributes, serve),
    };
    let outcome = match catch_unwind(AssertUnwindSafe(|| as_callback(|| catch(run)))) {
        Ok(Ok(Ok(()))) => return Ok(()),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("it panicked: {}", panic_message(&*panic)),
    };
    let error = failure(name, &outcome, loc);
    match contained {
        Some(id) => {
            contain_failure(id, error);
            write_zeros(frame)
        }
        None => Err(store_failure(error)),
    }
}

fn as_id(attribute: FfiAttribute) -> Option<u64> {
    use crate::core::FromFfiAttribute;
    u64::from_attribute(&attribute)
}

/// Runs a handler with the buffers of a call.
fn with_frame(
    frame: &mut CallFrame<'_>,
    attributes: FfiAttributes,
    serve: impl Fn(&mut FfiFrame<'_>) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let aliases = frame.aliases()?;
    let ordinal = frame.device_ordinal().and_then(|ordinal| usize::try_from(ordinal).ok());
    let mut inputs = Vec::with_capacity(frame.argument_count());
    for index in 0..frame.argument_count() {
        inputs.push(aval_of(frame.argument_type(index)?).ok_or("an input is not an array")?);
    }
    let mut outputs: Vec<Aval> = Vec::with_capacity(frame.result_count());
    for index in 0..frame.result_count() {
        outputs.push(aval_of(frame.result_type(index)?).ok_or("an output is not an array")?);
    }
    if frame.is_on_host() {
        let (arguments, results) = frame.buffers_in_place()?;
        let inputs = inputs.into_iter().zip(&arguments).zip(&aliases);
        let inputs = inputs.map(|((aval, argument), alias)| {
            FfiInput::new(aval, argument.map_or(&[], |argument| argument.bytes()), *alias)
        });
        let inputs = inputs.collect();
        let outputs = outputs.into_iter().zip(results);
        let outputs = outputs.map(|(aval, result)| FfiOutput::new(aval, result.into_bytes_mut()));
        return serve(&mut FfiFrame::new(inputs, outputs.collect(), attributes, ordinal));
    }
    let mut copies = Vec::with_capacity(inputs.len());
    for index in 0..inputs.len() {
        copies.push(AlignedBytes::copy_of(&frame.read(index)?));
    }
    let size = |aval: &Aval| (aval.size() * aval.dtype.bits()).div_ceil(8);
    let mut results: Vec<AlignedBytes> =
        outputs.iter().map(|aval| AlignedBytes::zeroed(size(aval))).collect();
    for (copy, alias) in copies.iter().zip(&aliases) {
        if let Some(result) = alias.and_then(|index| results.get_mut(index)) {
            result.copy_from_slice(copy);
        }
    }
    {
        let inputs = inputs.into_iter().zip(&copies).zip(&aliases);
        let inputs = inputs.map(|((aval, copy), alias)| FfiInput::new(aval, copy, *alias));
        let inputs = inputs.collect();
        let outputs = outputs.into_iter().zip(&mut results);
        let outputs = outputs.map(|(aval, result)| FfiOutput::new(aval, result)).collect();
        serve(&mut FfiFrame::new(inputs, outputs, attributes, ordinal))?;
    }
    for (index, result) in results.iter().enumerate() {
        frame.write(index, result)?;
    }
    Ok(())
}

/// Converts an attribute of a call.
fn converted(attribute: Attribute) -> FfiAttribute {
    match attribute {
        Attribute::Scalar(value) => scalar(value).into(),
        Attribute::String(text) => text.into(),
        Attribute::Array(values) => {
            let values: Vec<FfiScalar> = values.into_iter().map(scalar).collect();
            let dtype = values.first().map_or(DType::I64, FfiScalar::dtype);
            let bytes = values.iter().flat_map(|value| value.as_bytes().to_vec()).collect();
            FfiAttribute::Array { dtype, bytes }
        }
        Attribute::Dictionary(entries) => {
            let entries = entries.into_iter().map(|(name, value)| (name, converted(value)));
            let entries: FfiAttributes = entries.collect();
            untagged(&entries).unwrap_or(FfiAttribute::Dictionary(entries))
        }
        _ => FfiAttribute::Dictionary(FfiAttributes::new()),
    }
}

/// Returns the value that a dictionary stands for, if it stands for one.
fn untagged(entries: &FfiAttributes) -> Option<FfiAttribute> {
    let dtype = DType::from_name(&entries.get::<String>(TAG_DTYPE).ok()?)?;
    let bytes: Vec<u8> =
        entries.get(TAG_BYTES).ok().or_else(|| match entries.attribute(TAG_BYTES) {
            Some(FfiAttribute::Array { bytes, .. }) if bytes.is_empty() => Some(Vec::new()),
            _ => None,
        })?;
    match entries.get::<bool>(TAG_SCALAR).ok()? {
        true => FfiScalar::from_bytes(dtype, &bytes).map(FfiAttribute::Scalar),
        false => Some(FfiAttribute::Array { dtype, bytes }),
    }
}

fn scalar(value: AttributeScalar) -> FfiScalar {
    match value {
        AttributeScalar::Bool(value) => value.into(),
        AttributeScalar::Int(value) => value.into(),
        AttributeScalar::Uint(value) => value.into(),
        AttributeScalar::Float(value) => value.into(),
        AttributeScalar::Other(element, bytes) => {
            let dtype = super::device_buffer::dtype_of(element).unwrap_or(DType::U8);
            FfiScalar::from_bytes(dtype, &bytes[..dtype.host_bytes()]).unwrap_or(false.into())
        }
        _ => false.into(),
    }
}
