//! The registry of handlers and the C functions through which plugins call them.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use oxidax_pjrt_sys as sys;

use super::foreign::{ForeignEntry, ForeignHandler};
use super::frame::{CallFrame, Memory};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::plugin::Plugin;

type Handler = Box<dyn Fn(&mut CallFrame<'_>) -> Result<(), String> + Send + Sync>;

/// The version of XLA's FFI that handlers report. It is the oldest version, because a plugin
/// silently drops a handler that is newer than itself, and no newer feature is used.
const FFI_VERSION: (i32, i32) = (0, 1);

/// The number of handlers that a process supports.
const CAPACITY: usize = ROW * ROW;
const ROW: usize = 16;

/// A function in the table of handlers.
enum Entry {
    /// A Rust function, for buffers in this memory.
    Rust(Handler, Memory),
    /// A function compiled from another language.
    Foreign(ForeignEntry),
}

/// The table of handlers. XLA accepts only a plain C function without user data, so each handler
/// gets its own C function, which knows its index in this table.
static HANDLERS: [OnceLock<Entry>; CAPACITY] = [const { OnceLock::new() }; CAPACITY];

/// The registered handlers, by plugin, platform and name.
static REGISTERED: Mutex<Registered> = Mutex::new(Registered { count: 0, names: None });

struct Registered {
    /// The number of used table entries.
    count: usize,
    names: Option<HashSet<(&'static str, String, String)>>,
}

pub(super) type Trampoline =
    unsafe extern "C" fn(*mut sys::XLA_FFI_CallFrame) -> *mut sys::XLA_FFI_Error;

macro_rules! rows {
    ($($row:literal)+) => { [$(row!($row: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)),+] };
}
macro_rules! row {
    ($row:literal: $($column:literal)+) => { [$(trampoline::<{ $row * ROW + $column }>),+] };
}

static TRAMPOLINES: [[Trampoline; ROW]; ROW] = rows!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

thread_local! {
    /// The number of handlers running on this thread.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// Returns an error for launching a program inside a handler. The handler may occupy the thread
/// that the launch needs.
#[inline]
pub(crate) fn refuse_inside_handler(operation: &'static str) -> Result<()> {
    if RUNNING.get() == 0 {
        return Ok(());
    }
    let message = "a custom call's handler may not run programs: it holds a thread that they need";
    Err(Error::invalid(operation, message))
}

/// Returns true if a handler of this name is registered, for any plugin.
pub(crate) fn is_registered(name: &str) -> bool {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.names.iter().flatten().any(|(_, _, other)| other == name)
}

/// Registers `handler` for custom calls of this name, on the client's plugin and platform. The
/// registration lasts until the process ends. A process supports 256 handlers, so use an attribute
/// to distinguish a larger number of callbacks.
///
/// An error of the handler becomes the error of the execution. A panic also becomes an error.
///
/// # Errors
/// [`Error::Invalid`] if the name is taken, the table is full, or the platform does not support
/// such custom calls (TPUs do not); [`Error::Missing`] if the plugin has no FFI; [`Error::Status`].
pub fn register(
    client: &Client,
    name: &str,
    handler: impl Fn(&mut CallFrame<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Result<()> {
    let platform = if client.is_cpu() { "cpu" } else { client.platform_name() };
    register_for(client.plugin(), platform, name, handler)
}

/// Registers `handler` like [`register`], for a plugin without a client: the compiler of a topology
/// refuses programs that call unregistered handlers. `platform` is the name of the topology's
/// platform: `cuda`.
///
/// # Errors
/// The errors of [`register`].
pub fn register_for(
    plugin: Plugin,
    platform: &str,
    name: &str,
    handler: impl Fn(&mut CallFrame<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Result<()> {
    let (name_of_platform, memory) = xla_platform(platform, name)?;
    register_entry(plugin, name_of_platform, name, Entry::Rust(Box::new(handler), memory))
}

/// Registers a function compiled from another language, as [`register_for`] registers a Rust
/// function. `describe` gets each error of the function with the call's `SITE`, and returns the
/// message that the execution fails with.
///
/// # Errors
/// The errors of [`register`].
pub fn register_foreign(
    plugin: Plugin,
    platform: &str,
    name: &str,
    handler: ForeignHandler,
    describe: impl Fn(Option<&str>, String) -> String + Send + Sync + 'static,
) -> Result<()> {
    let (name_of_platform, _) = xla_platform(platform, name)?;
    let entry = ForeignEntry { handler, describe: Box::new(describe) };
    register_entry(plugin, name_of_platform, name, Entry::Foreign(entry))
}

const OPERATION: &str = "register custom call";

/// Returns XLA's name of a platform, and the memory of its buffers.
fn xla_platform(platform: &str, name: &str) -> Result<(&'static str, Memory)> {
    match platform {
        name if name.eq_ignore_ascii_case("cpu") => Ok(("Host", Memory::Host)),
        name if name.eq_ignore_ascii_case("cuda") => Ok(("CUDA", Memory::Cuda)),
        name if name.eq_ignore_ascii_case("rocm") => Ok(("ROCM", Memory::Unknown)),
        other => {
            let message = format!("{name}: platform {other} does not call handlers");
            Err(Error::invalid(OPERATION, message))
        }
    }
}

fn register_entry(plugin: Plugin, platform: &str, name: &str, entry: Entry) -> Result<()> {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let plugin_path = plugin.path().to_str().unwrap_or(plugin.name());
    let key = (plugin_path, platform.to_owned(), name.to_owned());
    if registered.names.get_or_insert_default().contains(&key) {
        let message = format!("{name} is registered for {platform} on plugin {plugin} already");
        return Err(Error::invalid(OPERATION, message));
    }
    let index = registered.count;
    let Some(place) = HANDLERS.get(index) else {
        let message = format!(
            "{name}: all {CAPACITY} places are taken; register one handler and tell its callers \
             apart by an attribute"
        );
        return Err(Error::invalid(OPERATION, message));
    };
    // The plugin probes the handler during registration, so it is there before. A place is not
    // used again after a failure.
    let placed = place.set(entry);
    debug_assert!(placed.is_ok(), "each place is given once");
    registered.count += 1;
    register_function(plugin, name, platform, TRAMPOLINES[index / ROW][index % ROW])?;
    registered.names.get_or_insert_default().insert(key);
    Ok(())
}

fn register_function(
    plugin: Plugin,
    name: &str,
    platform: &str,
    trampoline: Trampoline,
) -> Result<()> {
    const FUNCTION: &str = "PJRT_FFI_Register_Handler";
    // SAFETY: the struct is the one of this extension, and zeros are null pointers and absent
    // functions.
    let extension: sys::PJRT_FFI_Extension =
        unsafe { plugin.extension(sys::PJRT_Extension_Type_FFI, FUNCTION) }?;
    let function = extension.register_handler.ok_or_else(|| plugin.missing(FUNCTION))?;
    let mut args = sys::PJRT_FFI_Register_Handler_Args {
        struct_size: size_of::<sys::PJRT_FFI_Register_Handler_Args>(),
        target_name: name.as_ptr().cast(),
        target_name_size: name.len(),
        handler: trampoline as *mut std::ffi::c_void,
        platform_name: platform.as_ptr().cast(),
        platform_name_size: platform.len(),
        ..Default::default()
    };
    // SAFETY: the names are borrowed for the call, and the handler has the function type that XLA
    // calls.
    let error = unsafe { function(&raw mut args) };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error was just returned by this plugin.
    Err(unsafe { plugin.take_error(FUNCTION, error) })
}

/// The C function that XLA calls for handler `INDEX`.
unsafe extern "C" fn trampoline<const INDEX: usize>(
    frame: *mut sys::XLA_FFI_CallFrame,
) -> *mut sys::XLA_FFI_Error {
    let entry = HANDLERS[INDEX].get();
    if let Some(Entry::Foreign(foreign)) = entry {
        let _running = Running::new();
        // SAFETY: XLA passes a valid frame, which the function may use during the call.
        return unsafe { foreign.call(frame) };
    }
    // SAFETY: XLA passes a valid frame, which this function may use during the call.
    let frame = unsafe { &*frame };
    // SAFETY: as above.
    if unsafe { answer_probe(frame) } || frame.stage != sys::XLA_FFI_ExecutionStage_EXECUTE {
        return std::ptr::null_mut();
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let Some(Entry::Rust(handler, memory)) = entry else {
            return Err("the handler is not there yet".to_owned());
        };
        let _running = Running::new();
        // SAFETY: the frame's buffers and attributes are valid for the call, and the buffers are in
        // the platform's memory.
        handler(&mut unsafe { CallFrame::new(frame, *memory) })
    }));
    let message = match outcome {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(message)) => message,
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let message = format!("the handler panicked: {}", text.unwrap_or("no message"));
            // Dropping a payload may panic again, and a panic must not unwind from here.
            std::mem::forget(payload);
            message
        }
    };
    // SAFETY: the frame's functions are provided by XLA.
    unsafe { raise(frame, message) }
}

/// Counts a running handler until dropped.
pub(crate) struct Running;

impl Running {
    pub(crate) fn new() -> Self {
        RUNNING.set(RUNNING.get() + 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
    }
}

/// During the registration of a handler, XLA queries its version instead of running it. Returns
/// true for such a query.
///
/// # Safety
/// The frame's list of extensions is valid.
unsafe fn answer_probe(frame: &sys::XLA_FFI_CallFrame) -> bool {
    let mut next = frame.extension_start;
    // SAFETY: the list ends with null.
    while let Some(extension) = unsafe { next.as_ref() } {
        if extension.type_ == sys::XLA_FFI_Extension_Metadata {
            // SAFETY: an extension of this type is the metadata extension, which is writable.
            let metadata = unsafe { (*next.cast::<sys::XLA_FFI_Metadata_Extension>()).metadata };
            // SAFETY: as above; version and traits have the offsets of the oldest version.
            unsafe {
                (*metadata).api_version.major_version = FFI_VERSION.0;
                (*metadata).api_version.minor_version = FFI_VERSION.1;
                (*metadata).traits = 0;
            }
            return true;
        }
        next = extension.next;
    }
    false
}

/// Creates an error in XLA's representation.
///
/// # Safety
/// The frame's table of functions is valid.
pub(super) unsafe fn raise(
    frame: &sys::XLA_FFI_CallFrame,
    message: String,
) -> *mut sys::XLA_FFI_Error {
    // The message is a C string, which ends at the first zero byte.
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let mut args = sys::XLA_FFI_Error_Create_Args {
        struct_size: size_of::<sys::XLA_FFI_Error_Create_Args>(),
        extension_start: std::ptr::null_mut(),
        message: message.as_ptr().cast::<c_char>(),
        errc: sys::XLA_FFI_Error_Code_INTERNAL,
    };
    // SAFETY: this is the table's first function in every version; the message is copied.
    unsafe {
        match (*frame.api).XLA_FFI_Error_Create {
            Some(create) => create(&raw mut args),
            None => std::ptr::null_mut(),
        }
    }
}
