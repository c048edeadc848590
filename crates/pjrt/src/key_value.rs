//! The key-value store through which the processes of one program connect.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use oxidax_pjrt_sys as sys;

use crate::api;
use crate::error::Code;

/// A store shared by all processes of a program. The plugin calls it from its own threads, while a
/// client is created and later. The store must not call back into PJRT.
pub trait KeyValueStore: Send + Sync + 'static {
    /// Returns the value of `key`. Waits at most `timeout` for another process to set it.
    ///
    /// # Errors
    /// The error that the plugin should report, in most cases [`Code::DeadlineExceeded`].
    fn get(&self, key: &[u8], timeout: Duration) -> Result<Vec<u8>, (Code, String)>;

    /// Returns the value of `key` if it is set now.
    ///
    /// # Errors
    /// [`Code::NotFound`] if it is not set, or another error that the plugin should report.
    fn try_get(&self, key: &[u8]) -> Result<Vec<u8>, (Code, String)>;

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// The error that the plugin should report.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), (Code, String)>;
}

type Store = Arc<dyn KeyValueStore>;

/// Passes the store's functions to the plugin. The box must live as long as the client.
#[allow(clippy::borrowed_box, reason = "the box's address is what the plugin keeps")]
pub(crate) fn set_callbacks(args: &mut sys::PJRT_Client_Create_Args, store: &Box<Store>) {
    let user_arg = (&raw const **store).cast_mut().cast::<c_void>();
    args.kv_get_callback = Some(get);
    args.kv_get_user_arg = user_arg;
    args.kv_try_get_callback = Some(try_get);
    args.kv_try_get_user_arg = user_arg;
    args.kv_put_callback = Some(put);
    args.kv_put_user_arg = user_arg;
}

/// Runs a callback and stops panics before they reach the plugin.
fn guard<T>(run: impl FnOnce() -> Result<T, (Code, String)>) -> Result<T, (Code, String)> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        Err((Code::Internal, "the key-value store panicked".to_owned()))
    })
}

/// Creates an error in the plugin's representation.
///
/// # Safety
/// `callback_error` is the function passed with the callback's arguments, or null.
unsafe fn raise(
    callback_error: *mut sys::PJRT_CallbackError,
    (code, message): (Code, String),
) -> *mut sys::PJRT_Error {
    // SAFETY: the pointer is null or valid.
    let function = unsafe { callback_error.as_ref() }.and_then(|function| *function);
    let Some(function) = function else { return std::ptr::null_mut() };
    // SAFETY: the message is copied before the call returns.
    unsafe { function(code.to_raw(), message.as_ptr().cast::<c_char>(), message.len()) }
}

/// Leaks a value in the form that [`delete_value`] frees: the length is stored in front of the
/// value.
fn leak_value(value: &[u8]) -> *mut c_char {
    let mut block = value.len().to_ne_bytes().to_vec();
    block.extend_from_slice(value);
    let start = Box::into_raw(block.into_boxed_slice()).cast::<u8>();
    // The block holds at least the length, so the offset is inside the block.
    start.wrapping_add(size_of::<usize>()).cast::<c_char>()
}

unsafe extern "C" fn delete_value(value: *mut c_char) {
    if value.is_null() {
        return;
    }
    // SAFETY: `leak_value` created the block; the plugin passes it back once.
    unsafe {
        let start = value.cast::<u8>().sub(size_of::<usize>());
        let mut length = [0; size_of::<usize>()];
        start.copy_to_nonoverlapping(length.as_mut_ptr(), length.len());
        let size = usize::from_ne_bytes(length) + length.len();
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, size)));
    }
}

unsafe extern "C" fn get(args: *mut sys::PJRT_KeyValueGetCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a valid struct, whose user argument is the store's address.
    let (args, store) = unsafe { (&mut *args, &*(*args).user_arg.cast::<Store>()) };
    // SAFETY: the key is passed with its length.
    let key = unsafe { api::slice(args.key.cast::<u8>(), args.key_size) };
    let timeout = Duration::from_millis(c_int::max(args.timeout_in_ms, 0) as u64);
    match guard(|| store.get(key, timeout)) {
        Ok(value) => {
            args.value = leak_value(&value);
            args.value_size = value.len();
            args.value_deleter_callback = Some(delete_value);
            std::ptr::null_mut()
        }
        // SAFETY: the function was passed with the arguments.
        Err(error) => unsafe { raise(args.callback_error, error) },
    }
}

unsafe extern "C" fn try_get(
    args: *mut sys::PJRT_KeyValueTryGetCallback_Args,
) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a valid struct, whose user argument is the store's address.
    let (args, store) = unsafe { (&mut *args, &*(*args).user_arg.cast::<Store>()) };
    // SAFETY: the key is passed with its length.
    let key = unsafe { api::slice(args.key.cast::<u8>(), args.key_size) };
    match guard(|| store.try_get(key)) {
        Ok(value) => {
            args.value = leak_value(&value);
            args.value_size = value.len();
            args.value_deleter_callback = Some(delete_value);
            std::ptr::null_mut()
        }
        // SAFETY: the function was passed with the arguments.
        Err(error) => unsafe { raise(args.callback_error, error) },
    }
}

unsafe extern "C" fn put(args: *mut sys::PJRT_KeyValuePutCallback_Args) -> *mut sys::PJRT_Error {
    // SAFETY: the plugin passes a valid struct, whose user argument is the store's address.
    let (args, store) = unsafe { (&*args, &*(*args).user_arg.cast::<Store>()) };
    // SAFETY: key and value are passed with their lengths.
    let (key, value) = unsafe {
        (
            api::slice(args.key.cast::<u8>(), args.key_size),
            api::slice(args.value.cast::<u8>(), args.value_size),
        )
    };
    match guard(|| store.put(key, value)) {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: the function was passed with the arguments.
        Err(error) => unsafe { raise(args.callback_error, error) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Local(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

    impl KeyValueStore for Local {
        fn get(&self, key: &[u8], timeout: Duration) -> Result<Vec<u8>, (Code, String)> {
            assert_eq!(timeout, Duration::from_millis(20), "units are milliseconds");
            self.try_get(key)
        }

        fn try_get(&self, key: &[u8]) -> Result<Vec<u8>, (Code, String)> {
            assert_ne!(key, b"panic");
            let map = self.0.lock().expect("not poisoned");
            map.get(key).cloned().ok_or((Code::NotFound, "no such key".to_owned()))
        }

        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), (Code, String)> {
            self.0.lock().expect("not poisoned").insert(key.to_vec(), value.to_vec());
            Ok(())
        }
    }

    /// Acts as the plugin: an "error" is a leaked code.
    unsafe extern "C" fn record(
        code: sys::PJRT_Error_Code,
        _: *const c_char,
        _: usize,
    ) -> *mut sys::PJRT_Error {
        Box::into_raw(Box::new(code)).cast::<sys::PJRT_Error>()
    }

    /// Returns the code of an error that `record` created.
    fn take(error: *mut sys::PJRT_Error) -> Option<Code> {
        // SAFETY: `record` created the box.
        (!error.is_null()).then(|| Code::from_raw(*unsafe { Box::from_raw(error.cast::<u32>()) }))
    }

    #[test]
    fn callbacks_reach_the_store_and_free_what_they_return() {
        let store: Box<Store> = Box::new(Arc::new(Local::default()));
        let mut create = sys::PJRT_Client_Create_Args::default();
        set_callbacks(&mut create, &store);
        let mut callback_error: sys::PJRT_CallbackError = Some(record);

        let mut put_args = sys::PJRT_KeyValuePutCallback_Args {
            key: c"name".as_ptr(),
            key_size: 4,
            value: c"hello".as_ptr(),
            value_size: 5,
            callback_error: &raw mut callback_error,
            user_arg: create.kv_put_user_arg,
            ..Default::default()
        };
        let put = create.kv_put_callback.expect("set");
        // SAFETY: the struct is complete.
        assert_eq!(take(unsafe { put(&raw mut put_args) }), None);

        let mut get_args = sys::PJRT_KeyValueGetCallback_Args {
            key: c"name".as_ptr(),
            key_size: 4,
            timeout_in_ms: 20,
            callback_error: &raw mut callback_error,
            user_arg: create.kv_get_user_arg,
            ..Default::default()
        };
        let get = create.kv_get_callback.expect("set");
        // SAFETY: the struct is complete, and the value is freed once, as by a plugin.
        unsafe {
            assert_eq!(take(get(&raw mut get_args)), None);
            assert_eq!(api::string(get_args.value, get_args.value_size), "hello");
            get_args.value_deleter_callback.expect("set")(get_args.value);
        }

        let mut try_args = sys::PJRT_KeyValueTryGetCallback_Args {
            key: c"other".as_ptr(),
            key_size: 5,
            callback_error: &raw mut callback_error,
            user_arg: create.kv_try_get_user_arg,
            ..Default::default()
        };
        let try_get = create.kv_try_get_callback.expect("set");
        // SAFETY: the struct is complete.
        assert_eq!(take(unsafe { try_get(&raw mut try_args) }), Some(Code::NotFound));
        try_args.key = c"panic".as_ptr();
        // SAFETY: the struct is complete.
        assert_eq!(take(unsafe { try_get(&raw mut try_args) }), Some(Code::Internal));
    }

    /// A store whose operations all fail or panic.
    struct Broken;

    impl KeyValueStore for Broken {
        fn get(&self, key: &[u8], _: Duration) -> Result<Vec<u8>, (Code, String)> {
            assert_ne!(key, b"panic");
            Err((Code::DeadlineExceeded, format!("process 3 never put {}", key.len())))
        }

        fn try_get(&self, key: &[u8]) -> Result<Vec<u8>, (Code, String)> {
            self.get(key, Duration::ZERO)
        }

        fn put(&self, key: &[u8], _: &[u8]) -> Result<(), (Code, String)> {
            self.get(key, Duration::ZERO).map(drop)
        }
    }

    /// Acts as the plugin and stores the message: an "error" is a leaked pair.
    unsafe extern "C" fn record_words(
        code: sys::PJRT_Error_Code,
        message: *const c_char,
        size: usize,
    ) -> *mut sys::PJRT_Error {
        // SAFETY: the message is passed with its length.
        let words = unsafe { api::string(message, size) };
        Box::into_raw(Box::new((Code::from_raw(code), words))).cast::<sys::PJRT_Error>()
    }

    /// Returns the code and message that `record_words` received.
    fn words(error: *mut sys::PJRT_Error) -> (Code, String) {
        assert!(!error.is_null(), "it must fail");
        // SAFETY: `record_words` created the box.
        *unsafe { Box::from_raw(error.cast::<(Code, String)>()) }
    }

    #[test]
    fn callbacks_report_errors_and_catch_panics() {
        let store: Box<Store> = Box::new(Arc::new(Broken));
        let mut create = sys::PJRT_Client_Create_Args::default();
        set_callbacks(&mut create, &store);
        let mut callback_error: sys::PJRT_CallbackError = Some(record_words);
        for (key, expected) in [(c"other", Code::DeadlineExceeded), (c"panic", Code::Internal)] {
            let mut get_args = sys::PJRT_KeyValueGetCallback_Args {
                key: key.as_ptr(),
                key_size: 5,
                // A plugin passes this value to disable waiting.
                timeout_in_ms: -1,
                callback_error: &raw mut callback_error,
                user_arg: create.kv_get_user_arg,
                ..Default::default()
            };
            let mut put_args = sys::PJRT_KeyValuePutCallback_Args {
                key: key.as_ptr(),
                key_size: 5,
                // An empty value: a length of 0 is valid with any pointer, including null.
                value: std::ptr::null(),
                value_size: 0,
                callback_error: &raw mut callback_error,
                user_arg: create.kv_put_user_arg,
                ..Default::default()
            };
            // SAFETY: the structs are complete.
            let (got, put) = unsafe {
                (
                    create.kv_get_callback.expect("set")(&raw mut get_args),
                    create.kv_put_callback.expect("set")(&raw mut put_args),
                )
            };
            for (code, message) in [words(got), words(put)] {
                assert_eq!(code, expected);
                let panicked = expected == Code::Internal;
                let said =
                    if panicked { "the key-value store panicked" } else { "process 3 never put 5" };
                assert_eq!(message, said);
            }
            assert!(get_args.value.is_null() && get_args.value_size == 0);
        }
    }

    #[test]
    fn values_of_any_length_are_freed() {
        for value in [Vec::new(), vec![1], vec![7; 100_000]] {
            let leaked = leak_value(&value);
            // SAFETY: like a plugin, this reads exactly the value's length and frees the bytes
            // once.
            unsafe {
                assert_eq!(api::slice(leaked.cast::<u8>(), value.len()), value);
                delete_value(leaked);
            }
        }
        // SAFETY: null is allowed and has no effect.
        unsafe { delete_value(std::ptr::null_mut()) };
    }
}
