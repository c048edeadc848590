//! [`Profiler`]: records what devices do, through the profiler extension of a plugin.

use std::mem::offset_of;
use std::ptr::NonNull;

use oxidax_pjrt_sys as sys;
use oxidax_proto::{Message, messages, raw_fields};

use crate::api;
use crate::error::{Code, Error, PluginName, Result};
use crate::plugin::Plugin;

/// The amount of detail that a [`Profiler`] records.
///
/// The defaults are those of JAX: events of devices, and important ones of the plugin's own work on
/// the host.
///
/// ```
/// use oxidax_pjrt::ProfilerOptions;
/// let options = ProfilerOptions { host_level: 0, ..ProfilerOptions::default() };
/// assert_eq!(options.device_level, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilerOptions {
    /// Detail of the plugin's work on the host: 0 for none, 1 for what the plugin's authors mark as
    /// critical, 2 for important work, 3 for everything.
    pub host_level: u32,
    /// Detail of the devices: 0 for none, 1 for all operations.
    pub device_level: u32,
    /// True to add the optimized programs, from which viewers compute rates of operations.
    pub with_programs: bool,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self { host_level: 2, device_level: 1, with_programs: true }
    }
}

/// A recording of the devices of a plugin, and of the plugin's own work on the host.
///
/// ```no_run
/// use oxidax_pjrt::{Plugin, Profiler, ProfilerOptions};
/// let plugin = Plugin::load("/usr/lib/libtpu.so".as_ref())?;
/// let profiler = Profiler::start(plugin, &ProfilerOptions::default())?;
/// // … run programs …
/// let space: Vec<u8> = profiler.stop()?; // a serialized `tensorflow.profiler.XSpace`
/// # Ok::<(), oxidax_pjrt::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a profiler discards what it recorded"]
pub struct Profiler {
    plugin: Plugin,
    functions: sys::PLUGIN_Profiler_Api,
    handle: NonNull<sys::PLUGIN_Profiler>,
}

// SAFETY: the functions and the handle may be used by one thread after another; `&mut self` and
// `self` keep two threads from using them at the same time.
unsafe impl Send for Profiler {}

messages! {
    /// Field numbers of `profiler_options.proto` in <https://github.com/openxla/xla>.
    struct ProfileOptions {
        host_tracer_level: u32 = 2,
        device_tracer_level: u32 = 3,
        version: u32 = 5,
        enable_hlo_proto: bool = 7,
    }
}

/// The version of [`ProfileOptions`] in which 0 means none, and not a default.
const OPTIONS_VERSION: u32 = 1;

impl Profiler {
    /// Starts to record.
    ///
    /// # Errors
    /// [`Error::Missing`] if the plugin has no profiler, as the CPU plugin; [`Error::Status`].
    pub fn start(plugin: Plugin, options: &ProfilerOptions) -> Result<Self> {
        const NAME: &str = "PJRT_Profiler_Extension";
        // SAFETY: the struct is the one of this extension, and zeros are a null pointer.
        let extension: sys::PJRT_Profiler_Extension =
            unsafe { plugin.extension(sys::PJRT_Extension_Type_Profiler, NAME) }?;
        let table = NonNull::new(extension.profiler_api).ok_or_else(|| plugin.missing(NAME))?;
        let mut functions = sys::PLUGIN_Profiler_Api::default();
        // SAFETY: the table is static and begins with its size; the copy stays within both structs.
        unsafe {
            let size = table.as_ref().struct_size.min(size_of_val(&functions));
            table.cast::<u8>().copy_to_nonoverlapping(NonNull::from(&mut functions).cast(), size);
        }
        let options = ProfileOptions {
            host_tracer_level: options.host_level,
            device_tracer_level: options.device_level,
            version: OPTIONS_VERSION,
            enable_hlo_proto: options.with_programs,
        };
        let options = options.encode_to_vec();
        let mut args = sys::PLUGIN_Profiler_Create_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Create_Args>(),
            options: options.as_ptr().cast(),
            options_size: options.len(),
            ..Default::default()
        };
        let create = functions.create;
        // SAFETY: the options live until the call returns, which reads them.
        unsafe { call(plugin, &functions, "PLUGIN_Profiler_Create", create, &mut args) }?;
        let handle = NonNull::new(args.profiler);
        let handle = handle
            .ok_or_else(|| Error::invalid("profiler", format!("plugin {plugin} made none")))?;
        let profiler = Self { plugin, functions, handle };
        let mut args = sys::PLUGIN_Profiler_Start_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Start_Args>(),
            profiler: handle.as_ptr(),
        };
        let start = profiler.functions.start;
        // SAFETY: the handle is alive.
        unsafe { call(plugin, &profiler.functions, "PLUGIN_Profiler_Start", start, &mut args) }?;
        Ok(profiler)
    }

    /// Returns the plugin whose devices are recorded.
    pub fn plugin(&self) -> Plugin {
        self.plugin
    }

    /// Stops recording and returns what was recorded, as a serialized
    /// `tensorflow.profiler.XSpace`. It is empty if the plugin recorded nothing.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn stop(self) -> Result<Vec<u8>> {
        let profiler = self.handle.as_ptr();
        let mut args = sys::PLUGIN_Profiler_Stop_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Stop_Args>(),
            profiler,
        };
        let stop = self.functions.stop;
        // SAFETY: the handle is alive.
        unsafe { call(self.plugin, &self.functions, "PLUGIN_Profiler_Stop", stop, &mut args) }?;
        let mut args = sys::PLUGIN_Profiler_CollectData_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_CollectData_Args>(),
            profiler,
            ..Default::default()
        };
        let (name, collect) = ("PLUGIN_Profiler_CollectData", self.functions.collect_data);
        // SAFETY: the handle is alive. Without a buffer of the caller, plugins lend one that lives
        // as long as the handle, which is dropped after the copy.
        let data = unsafe {
            call(self.plugin, &self.functions, name, collect, &mut args)?;
            api::slice(args.buffer, args.buffer_size_in_bytes)
        };
        message(data).map(<[u8]>::to_vec)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let mut args = sys::PLUGIN_Profiler_Destroy_Args {
            struct_size: size_of::<sys::PLUGIN_Profiler_Destroy_Args>(),
            profiler: self.handle.as_ptr(),
        };
        let destroy = self.functions.destroy;
        // SAFETY: the handle is alive and is not used afterwards.
        let result = unsafe {
            call(self.plugin, &self.functions, "PLUGIN_Profiler_Destroy", destroy, &mut args)
        };
        debug_assert!(result.is_ok(), "{result:?}");
    }
}

/// Returns the message in `data`. Some plugins append a zero byte, which does not belong to it.
fn message(data: &[u8]) -> Result<&[u8]> {
    let error = match raw_fields(data) {
        Ok(_) => return Ok(data),
        Err(error) => error,
    };
    match data {
        [message @ .., 0] if raw_fields(message).is_ok() => Ok(message),
        _ => Err(Error::invalid("profiler", format!("the recorded data: {error}"))),
    }
}

/// Calls a function of the profiler extension, which has its own type of errors.
///
/// # Safety
/// `A` is the struct that the function takes, with its size set, and every pointer in `args` is
/// valid for the function's use of it.
unsafe fn call<A>(
    plugin: Plugin,
    functions: &sys::PLUGIN_Profiler_Api,
    name: &'static str,
    function: Option<unsafe extern "C" fn(*mut A) -> *mut sys::PLUGIN_Profiler_Error>,
    args: &mut A,
) -> Result<()> {
    let function = function.ok_or_else(|| plugin.missing(name))?;
    // SAFETY: the caller guarantees the struct.
    let error = unsafe { function(args) };
    if error.is_null() {
        return Ok(());
    }
    let mut code = sys::PLUGIN_Profiler_Error_GetCode_Args {
        struct_size: offset_of!(sys::PLUGIN_Profiler_Error_GetCode_Args, code)
            + size_of::<std::ffi::c_int>(),
        error,
        code: sys::PJRT_Error_Code_UNKNOWN as _,
        ..Default::default()
    };
    let mut text = sys::PLUGIN_Profiler_Error_Message_Args {
        struct_size: size_of::<sys::PLUGIN_Profiler_Error_Message_Args>(),
        error,
        ..Default::default()
    };
    let mut destroy = sys::PLUGIN_Profiler_Error_Destroy_Args {
        struct_size: size_of::<sys::PLUGIN_Profiler_Error_Destroy_Args>(),
        error,
        ..Default::default()
    };
    let mut message = String::new();
    // SAFETY: the error was just returned by this plugin, and is alive until the last of the three
    // calls; the message is copied before that. The plugin reports a failure of `get_code` by
    // another error, which this function does not read.
    unsafe {
        if let Some(get_code) = functions.error_get_code {
            get_code(&raw mut code);
        }
        if let Some(get_message) = functions.error_message {
            get_message(&raw mut text);
            message = api::string(text.message, text.message_size);
        }
        if let Some(destroy_error) = functions.error_destroy {
            destroy_error(&raw mut destroy);
        }
    }
    let code = Code::from_raw(code.code as _);
    Err(Error::Status { plugin: PluginName::new(plugin), function: name, code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_zero_is_not_part_of_the_message() {
        // Field 4, one byte: the name of a host.
        let space = [0x22, 1, b'h'];
        assert_eq!(message(&space).expect("a message"), space);
        assert_eq!(message(&[0x22, 1, b'h', 0]).expect("a message"), space);
        assert_eq!(message(&[0x22, 1, 0]).expect("a message"), [0x22, 1, 0]);
        assert_eq!(message(&[]).expect("a message"), []);
        assert_eq!(message(&[0]).expect("a message"), []);
        message(&[0x22, 9, b'h']).expect_err("a field that ends too late");
    }
}
