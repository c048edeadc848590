//! Events: notification of asynchronous work.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::{Args, Handle};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::plugin::Plugin;

/// The completion of asynchronous work: a copy or an execution. Clones share the event.
#[derive(Clone)]
pub struct Event(Arc<Inner>);

struct Inner {
    /// Keeps the client alive while one of its events exists.
    client: Client,
    event: Handle<sys::PJRT_Event>,
}

impl Event {
    /// Takes ownership of an event that the C API returned.
    ///
    /// # Safety
    /// `event` is null or an event of this client's plugin that no other code destroys.
    pub(crate) unsafe fn from_raw(client: &Client, event: *mut sys::PJRT_Event) -> Result<Self> {
        let event = Handle::new(event)
            .ok_or_else(|| Error::invalid("event", "the plugin returned no event"))?;
        Ok(Self(Arc::new(Inner { client: client.clone(), event })))
    }

    fn plugin(&self) -> Plugin {
        self.0.client.plugin()
    }

    /// Blocks until the event completes.
    ///
    /// # Errors
    /// The error of the work that the event tracks.
    pub fn wait(&self) -> Result<()> {
        let mut args = sys::PJRT_Event_Await_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.plugin().call(&mut args) }
    }

    /// Returns true if the event has completed, with or without an error.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin cannot determine it.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = sys::PJRT_Event_IsReady_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(args.is_ready)
    }

    /// Returns the error of the work that the event tracks. The result is `None` if the event has
    /// not completed or the work succeeded.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin cannot determine whether the event has completed.
    pub fn error(&self) -> Result<Option<Error>> {
        if !self.is_ready()? {
            return Ok(None);
        }
        let mut args = sys::PJRT_Event_Error_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive and has completed, which this function requires.
        Ok(unsafe { self.plugin().call(&mut args) }.err())
    }

    /// Runs `callback` once the event has completed, with the error if there is one. The callback
    /// runs on one of the plugin's threads, or on the calling thread if the event has already
    /// completed. It must not block, and it must not hold the last handle to a client. A panic in
    /// the callback is printed and not propagated.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin does not accept the callback, which is then dropped without
    /// being run.
    pub fn on_ready(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let plugin = self.plugin();
        // SAFETY: the event is alive.
        unsafe { on_ready(plugin, self.0.event.as_ptr(), callback) }
    }
}

/// A callback together with the plugin whose errors it receives.
struct Callback<F> {
    plugin: Plugin,
    run: F,
}

/// Runs `callback` when `event` has completed.
///
/// # Safety
/// `event` is alive.
pub(crate) unsafe fn on_ready<F: FnOnce(Result<()>) + Send + 'static>(
    plugin: Plugin,
    event: *mut sys::PJRT_Event,
    callback: F,
) -> Result<()> {
    unsafe extern "C" fn trampoline<F: FnOnce(Result<()>)>(
        error: *mut sys::PJRT_Error,
        user_arg: *mut c_void,
    ) {
        // SAFETY: `user_arg` is the box leaked below, and the plugin calls back exactly once.
        let callback = unsafe { Box::from_raw(user_arg.cast::<Callback<F>>()) };
        let Callback { plugin, run } = *callback;
        let result = if error.is_null() {
            Ok(())
        } else {
            // SAFETY: the callback owns the error.
            Err(unsafe { plugin.take_error("PJRT_Event_OnReady", error) })
        };
        // The panic hook has printed the panic. Unwinding into the plugin would be undefined
        // behavior. The payload is forgotten instead of dropped, because its destructor may panic
        // too.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(result))) {
            std::mem::forget(payload);
        }
    }

    let user_arg = Box::into_raw(Box::new(Callback { plugin, run: callback }));
    let mut args = sys::PJRT_Event_OnReady_Args::new();
    args.event = event;
    args.callback = Some(trampoline::<F>);
    args.user_arg = user_arg.cast::<c_void>();
    // SAFETY: the event is alive, the trampoline matches the boxed callback, and the box lives
    // until it is called.
    unsafe { plugin.call(&mut args) }.inspect_err(|_| {
        // SAFETY: the plugin rejected the callback and will not call it, so this function still
        // owns the box.
        drop(unsafe { Box::from_raw(user_arg) });
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Event_Destroy_Args::new();
        args.event = self.event.as_ptr();
        // SAFETY: this is the last reference to the event.
        unsafe { self.client.plugin().release(&mut args) }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_ready", &self.is_ready().ok()).finish_non_exhaustive()
    }
}
