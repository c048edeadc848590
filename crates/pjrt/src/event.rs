//! Events: work that finishes later.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::{Args, Handle};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::plugin::Plugin;

/// Something that will have happened: a copy, an execution. Clones share the event.
#[derive(Clone)]
pub struct Event(Arc<Inner>);

struct Inner {
    /// Keeps the client alive as long as one of its events is.
    client: Client,
    event: Handle<sys::PJRT_Event>,
}

impl Event {
    /// Takes ownership of an event that the C API returned.
    ///
    /// # Safety
    /// `event` is null or an event of this client's plugin that nobody else destroys.
    pub(crate) unsafe fn from_raw(client: &Client, event: *mut sys::PJRT_Event) -> Result<Self> {
        let event = Handle::new(event)
            .ok_or_else(|| Error::invalid("event", "the plugin returned no event"))?;
        Ok(Self(Arc::new(Inner { client: client.clone(), event })))
    }

    fn plugin(&self) -> Plugin {
        self.0.client.plugin()
    }

    /// Blocks until the event has happened.
    ///
    /// # Errors
    /// The error of the work behind the event.
    pub fn wait(&self) -> Result<()> {
        let mut args = sys::PJRT_Event_Await_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.plugin().call(&mut args) }
    }

    /// Whether the event has happened, well or badly.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = sys::PJRT_Event_IsReady_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(args.is_ready)
    }

    /// The error of the work behind the event, once it has happened; `None` while it has not, and
    /// if all went well.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin cannot tell whether the event has happened.
    pub fn error(&self) -> Result<Option<Error>> {
        if !self.is_ready()? {
            return Ok(None);
        }
        let mut args = sys::PJRT_Event_Error_Args::new();
        args.event = self.0.event.as_ptr();
        // SAFETY: the event is alive and has happened, which this function demands.
        Ok(unsafe { self.plugin().call(&mut args) }.err())
    }

    /// Runs `callback` once the event has happened, with the error if there was one. It runs on one
    /// of the plugin's threads, or on this one if the event has happened already; it must not
    /// block, nor hold the last handle to a client. If it panics, the panic is printed and goes no
    /// further.
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin does not take the callback, which is then dropped without
    /// being run.
    pub fn on_ready(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let plugin = self.plugin();
        // SAFETY: the event is alive.
        unsafe { on_ready(plugin, self.0.event.as_ptr(), callback) }
    }
}

/// A callback with the plugin whose errors it receives.
struct Callback<F> {
    plugin: Plugin,
    run: F,
}

/// Runs `callback` when `event` has happened.
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
        // The panic hook has printed the panic; unwinding into the plugin would be undefined. The
        // panic's payload is forgotten rather than dropped, because dropping it may panic too.
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
        // SAFETY: the plugin refused the callback and will not call it, so the box is still ours.
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
