//! Handlers compiled from other languages: functions of the C type `XLA_FFI_Handler`.

use std::ffi::{CStr, c_void};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use oxidax_pjrt_sys as sys;

use super::registry::{Trampoline, raise};
use crate::api;
use crate::error::{Error, Result};

/// The name of the attribute that holds the source position of a call. It is for messages, and
/// functions of other languages do not get it: bindings for C++ refuse attributes that they do not
/// expect.
pub const SITE: &str = "oxidax.site";

/// A function of the C type `XLA_FFI_Handler`, as the header `xla/ffi/api/c_api.h` declares it. The
/// macro `XLA_FFI_DEFINE_HANDLER_SYMBOL` of XLA's header for C++ defines one.
#[derive(Clone, Copy, Debug)]
pub struct ForeignHandler(Trampoline);

impl ForeignHandler {
    /// Wraps the address of a handler. Returns `None` for null.
    ///
    /// # Safety
    /// The address is that of a function of type `XLA_FFI_Handler`, which
    /// - stays loaded until the process ends,
    /// - may be called on any thread, several times at once,
    /// - follows the rules of XLA's foreign function interface: it reads arguments and writes
    ///   results within their sizes, answers queries of its version, and does not unwind.
    ///
    /// The function must accept the types with which programs call it. XLA checks nothing but what
    /// the function itself checks.
    pub unsafe fn from_address(handler: *const c_void) -> Option<Self> {
        if handler.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees the type of the function.
        Some(Self(unsafe { std::mem::transmute::<*const c_void, Trampoline>(handler) }))
    }

    /// Returns the handler that a shared library exports as `symbol`. The library is opened and
    /// never closed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the library cannot be opened or does not have the symbol.
    ///
    /// # Safety
    /// The code that the library runs when it is opened is sound, and the requirements of
    /// [`from_address`](Self::from_address) apply to the symbol.
    pub unsafe fn from_library(path: &Path, symbol: &str) -> Result<Self> {
        const OPERATION: &str = "open handler";
        let failed = |error: libloading::Error| {
            Error::invalid(OPERATION, format!("{}: {error}", path.display()))
        };
        // SAFETY: the caller guarantees the library's initializers.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(failed)?;
        // SAFETY: the caller guarantees the type of the symbol.
        let handler = unsafe { library.get::<*const c_void>(symbol) };
        let handler = handler.map_err(|error| {
            Error::invalid(OPERATION, format!("{}: {symbol}: {error}", path.display()))
        });
        let handler = handler?.into_raw().cast_const();
        std::mem::forget(library);
        // SAFETY: as above; the library stays open.
        unsafe { Self::from_address(handler) }.ok_or_else(|| {
            Error::invalid(OPERATION, format!("{}: symbol {symbol} is null", path.display()))
        })
    }
}

/// Returns the message of an error, from the position of the call and the handler's message.
type Describe = Box<dyn Fn(Option<&str>, String) -> String + Send + Sync>;

/// A registered handler of another language.
pub(super) struct ForeignEntry {
    pub(super) handler: ForeignHandler,
    pub(super) describe: Describe,
}

impl ForeignEntry {
    /// Calls the function without the attribute [`SITE`].
    ///
    /// # Safety
    /// XLA passes the frame for the duration of the call.
    pub(super) unsafe fn call(
        &self,
        frame: *mut sys::XLA_FFI_CallFrame,
    ) -> *mut sys::XLA_FFI_Error {
        // SAFETY: the frame is valid, and its lists have the lengths that it states.
        let (all, names) = unsafe {
            let all = (*frame).attrs;
            (all, api::slice(all.names, usize::try_from(all.size).unwrap_or(0)))
        };
        // SAFETY: each name is a span of readable bytes.
        let name_of =
            |&name: &*mut sys::XLA_FFI_ByteSpan| unsafe { api::string((*name).ptr, (*name).len) };
        let Some(index) = names.iter().position(|name| name_of(name) == SITE) else {
            // SAFETY: the handler takes frames of XLA.
            let error = unsafe { self.handler.0(frame) };
            // SAFETY: the handler returned the error.
            return unsafe { self.described(&*frame, error, None) };
        };
        // SAFETY: as above.
        let (types, values) =
            unsafe { (api::slice(all.types, names.len()), api::slice(all.attrs, names.len())) };
        let site = match types[index] {
            // SAFETY: the type states that the value is a span.
            sys::XLA_FFI_AttrType_STRING => unsafe {
                let span = &*values[index].cast::<sys::XLA_FFI_ByteSpan>();
                Some(api::string(span.ptr, span.len))
            },
            _ => None,
        };
        let mut types = without(types, index);
        let mut names = without(names, index);
        let mut values = without(values, index);
        // SAFETY: XLA builds a frame for each call. The shorter lists live until it has returned.
        let error = unsafe {
            (*frame).attrs = sys::XLA_FFI_Attrs {
                size: all.size - 1,
                types: types.as_mut_ptr(),
                names: names.as_mut_ptr(),
                attrs: values.as_mut_ptr(),
                ..all
            };
            let error = self.handler.0(frame);
            (*frame).attrs = all;
            error
        };
        // SAFETY: the handler returned the error.
        unsafe { self.described(&*frame, error, site.as_deref()) }
    }

    /// Replaces an error of the function by one with the message of `describe`.
    ///
    /// # Safety
    /// The error is null, or an error that the handler returned for this frame.
    unsafe fn described(
        &self,
        frame: &sys::XLA_FFI_CallFrame,
        error: *mut sys::XLA_FFI_Error,
        site: Option<&str>,
    ) -> *mut sys::XLA_FFI_Error {
        if error.is_null() {
            return error;
        }
        // SAFETY: the table is valid, and both functions exist in its oldest version.
        let (message_of, destroy) =
            unsafe { ((*frame.api).XLA_FFI_Error_GetMessage, (*frame.api).XLA_FFI_Error_Destroy) };
        let (Some(message_of), Some(destroy)) = (message_of, destroy) else { return error };
        let mut args = sys::XLA_FFI_Error_GetMessage_Args {
            struct_size: size_of::<sys::XLA_FFI_Error_GetMessage_Args>(),
            extension_start: std::ptr::null_mut(),
            error,
            message: std::ptr::null(),
        };
        // SAFETY: the error is alive, and owns its message.
        let message = unsafe {
            message_of(&raw mut args);
            match args.message.is_null() {
                true => String::new(),
                false => CStr::from_ptr(args.message).to_string_lossy().into_owned(),
            }
        };
        let mut args = sys::XLA_FFI_Error_Destroy_Args {
            struct_size: size_of::<sys::XLA_FFI_Error_Destroy_Args>(),
            extension_start: std::ptr::null_mut(),
            error,
        };
        // SAFETY: the error is not used afterwards.
        unsafe { destroy(&raw mut args) };
        // SAFETY: the frame's functions are provided by XLA.
        unsafe { raise(frame, (self.describe)(site, message)) }
    }
}

/// Returns the items without the one at `index`.
fn without<T: Copy>(items: &[T], index: usize) -> Vec<T> {
    [&items[..index], &items[index + 1..]].concat()
}
