//! Copies between GPU memory and host memory, for handlers that compute on the host.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// NVIDIA's driver, which is present on every machine where the CUDA plugin found a device.
const LIBRARY: &str = "libcuda.so.1";

type Status = c_int;
type Address = u64;
type Stream = *mut c_void;
type Context = *mut c_void;

/// The driver API functions required for copies, as declared in [its
/// reference](https://docs.nvidia.com/cuda/cuda-driver-api/). A result of 0 means success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver {
    context_of: unsafe extern "C" fn(Stream, *mut Context) -> Status,
    push: unsafe extern "C" fn(Context) -> Status,
    pop: unsafe extern "C" fn(*mut Context) -> Status,
    to_host: unsafe extern "C" fn(*mut c_void, Address, usize, Stream) -> Status,
    to_device: unsafe extern "C" fn(Address, *const c_void, usize, Stream) -> Status,
    wait: unsafe extern "C" fn(Stream) -> Status,
    say: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

impl Driver {
    /// Returns the driver of this machine, loaded once.
    pub(super) fn get() -> Result<Driver, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(|| Self::load().map_err(|error| format!("{LIBRARY}: {error}"))).clone()
    }

    fn load() -> Result<Driver, libloading::Error> {
        // SAFETY: the plugin has already run the driver's initializers.
        let library = unsafe { Library::open(Some(LIBRARY), RTLD_NOW | RTLD_LOCAL) }?;
        // SAFETY: each function has the type declared in the driver's reference, and the library is
        // never closed.
        let driver = unsafe {
            Driver {
                context_of: *library.get(b"cuStreamGetCtx\0")?,
                push: *library.get(b"cuCtxPushCurrent_v2\0")?,
                pop: *library.get(b"cuCtxPopCurrent_v2\0")?,
                to_host: *library.get(b"cuMemcpyDtoHAsync_v2\0")?,
                to_device: *library.get(b"cuMemcpyHtoDAsync_v2\0")?,
                wait: *library.get(b"cuStreamSynchronize\0")?,
                say: *library.get(b"cuGetErrorString\0")?,
            }
        };
        std::mem::forget(library);
        Ok(driver)
    }

    /// Reads bytes at a device address, after the work queued on the stream so far.
    ///
    /// # Safety
    /// `len` bytes at the address are readable, and the stream is a live stream of that device.
    pub(super) unsafe fn read(
        &self,
        from: *const u8,
        len: usize,
        stream: Stream,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; len];
        // SAFETY: the caller guarantees the device side. The host side is `len` bytes long and
        // lives until the stream has been synchronized.
        unsafe {
            self.on(stream, || {
                self.check("copying from the device", || {
                    (self.to_host)(bytes.as_mut_ptr().cast(), from as Address, len, stream)
                })
            })
        }?;
        Ok(bytes)
    }

    /// Writes bytes to a device address, before any work queued on the stream later.
    ///
    /// # Safety
    /// The bytes at the address are writable, and the stream is a live stream of that device.
    pub(super) unsafe fn write(
        &self,
        to: *mut u8,
        bytes: &[u8],
        stream: Stream,
    ) -> Result<(), String> {
        // SAFETY: as in `read`, in the other direction.
        unsafe {
            self.on(stream, || {
                self.check("copying to the device", || {
                    (self.to_device)(to as Address, bytes.as_ptr().cast(), bytes.len(), stream)
                })
            })
        }
    }

    /// Runs `f` in the context of the stream, then waits for the stream.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn on(
        &self,
        stream: Stream,
        f: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut context: Context = std::ptr::null_mut();
        // SAFETY: the caller guarantees the stream, and the context variable is local.
        unsafe {
            self.check("asking for the stream's context", || {
                (self.context_of)(stream, &raw mut context)
            })?;
            self.check("entering the stream's context", || (self.push)(context))?;
        }
        let done = f();
        // SAFETY: as above. The stream is synchronized even after a failure, so that no copy is in
        // progress when the host memory is freed.
        let waited = unsafe { self.check("waiting for the stream", || (self.wait)(stream)) };
        // SAFETY: the context was pushed above.
        let left =
            unsafe { self.check("leaving the stream's context", || (self.pop)(&raw mut context)) };
        done.and(waited).and(left)
    }

    /// # Safety
    /// `call` calls a function of the driver as its reference requires.
    unsafe fn check(&self, doing: &str, call: impl FnOnce() -> Status) -> Result<(), String> {
        let status = call();
        if status == 0 {
            return Ok(());
        }
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the text is a constant of the driver, or stays null.
        let words = unsafe {
            (self.say)(status, &raw mut text);
            text.is_null()
                .then_some("no words")
                .map_or_else(|| CStr::from_ptr(text).to_string_lossy().into_owned(), str::to_owned)
        };
        Err(format!("{doing}: the driver says {status}, {words}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static DONE: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn note(what: &'static str) -> Status {
        DONE.with_borrow_mut(|done| done.push(what));
        0
    }

    /// A test double that uses host memory as device memory. It cannot enter the context of a null
    /// stream.
    const DOUBLE: Driver = {
        unsafe extern "C" fn context_of(stream: Stream, context: *mut Context) -> Status {
            // SAFETY: the caller provides the variable.
            unsafe { *context = stream };
            note("context")
        }
        unsafe extern "C" fn push(context: Context) -> Status {
            if context.is_null() { 201 } else { note("push") }
        }
        unsafe extern "C" fn pop(_: *mut Context) -> Status {
            note("pop")
        }
        unsafe extern "C" fn to_host(
            to: *mut c_void,
            from: Address,
            n: usize,
            _: Stream,
        ) -> Status {
            // SAFETY: the tests pass host addresses.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.cast(), n) };
            note("to host")
        }
        unsafe extern "C" fn to_device(
            to: Address,
            from: *const c_void,
            n: usize,
            _: Stream,
        ) -> Status {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, n) };
            note("to device")
        }
        unsafe extern "C" fn wait(_: Stream) -> Status {
            note("wait")
        }
        unsafe extern "C" fn say(_: Status, text: *mut *const c_char) -> Status {
            // SAFETY: the caller provides the variable.
            unsafe { *text = c"invalid device context".as_ptr() };
            0
        }
        Driver { context_of, push, pop, to_host, to_device, wait, say }
    };

    #[test]
    fn copies_are_made_in_the_streams_context_and_waited_for() {
        let device = [1_u8, 2, 3];
        let stream: Stream = std::ptr::dangling_mut::<u8>().cast();
        // SAFETY: the test double copies within host memory.
        let read = unsafe { DOUBLE.read(device.as_ptr(), 3, stream) };
        assert_eq!(read.as_deref(), Ok(&device[..]));
        assert_eq!(DONE.take(), ["context", "push", "to host", "wait", "pop"]);
        let mut device = [0_u8; 2];
        // SAFETY: as above.
        unsafe { DOUBLE.write(device.as_mut_ptr(), &[7, 8], stream) }.expect("written");
        assert_eq!(device, [7, 8]);
        assert_eq!(DONE.take(), ["context", "push", "to device", "wait", "pop"]);
    }

    #[test]
    fn driver_errors_contain_the_drivers_message() {
        // SAFETY: no copy takes place, because entering the context fails first.
        let refused = unsafe { DOUBLE.read(std::ptr::null(), 3, std::ptr::null_mut()) };
        let words = "entering the stream's context: the driver says 201, invalid device context";
        assert_eq!(refused, Err(words.to_owned()));
    }
}
