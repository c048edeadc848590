//! Loading plugins and querying their properties.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use oxidax_pjrt_sys as sys;

use crate::api::{self, Args};
use crate::elf;
use crate::environment;
use crate::error::{Code, Error, PluginName, Result};
use crate::host_pool;
use crate::libtpu;
use crate::named_value::NamedValue;

/// The oldest minor version of the C API that this crate is tested with.
const OLDEST_MINOR: i32 = 81;

/// A version of the PJRT C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// The major version; currently always 0.
    pub major: i32,
    /// The minor version, incremented with every addition to the API.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A loaded plugin. It stays loaded until the process ends, because programs may have registered
/// functions in it.
///
/// ```no_run
/// # use oxidax_pjrt::{Client, Plugin};
/// let plugin = Plugin::load("/usr/lib/pjrt_c_api_cpu_plugin.so".as_ref())?;
/// println!("{plugin} speaks C API {}", plugin.api_version());
/// let client = Client::new(plugin, &[])?;
/// # Ok::<(), oxidax_pjrt::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Plugin(&'static Loaded);

struct Loaded {
    path: PathBuf,
    name: String,
    version: ApiVersion,
    /// True for libtpu, which needs special treatment while it is loaded.
    is_libtpu: bool,
    /// A copy of the plugin's function table. Functions that the plugin lacks are `None`.
    table: sys::PJRT_Api,
    /// The loader's handle, which is never closed.
    handle: *mut c_void,
}

// SAFETY: the table is read-only after loading, and the functions behind it may be called from any
// thread. So may the loader's functions that take the handle.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

static LOADED: Mutex<Option<HashMap<PathBuf, Plugin>>> = Mutex::new(None);

impl Plugin {
    /// Loads a plugin from a shared library. Loading a file a second time returns the existing
    /// plugin.
    ///
    /// If the process has a single thread, `TF_CPP_MIN_LOG_LEVEL` is set to 2 unless it is already
    /// set, which suppresses the plugin's start-up messages on standard error. If the process has
    /// more threads, the environment is not changed; set the variable before the program starts.
    ///
    /// libtpu reads further variables from the environment. They are set only during its
    /// initialization. They make libtpu leave signals to the program. On a host without TPU chips,
    /// they also make it compile for any topology without network queries, without a lock between
    /// processes, and without logs. Variables that you have set are not changed.
    ///
    /// Loading runs the library's own code: load only files that you trust.
    ///
    /// # Errors
    /// [`Error::PluginNotFound`], [`Error::NotALibrary`], [`Error::WrongMachine`],
    /// [`Error::NotAPlugin`], [`Error::UnsupportedVersion`], or [`Error::Status`] if the plugin
    /// fails to initialize.
    pub fn load(path: &Path) -> Result<Self> {
        elf::check(path)?;
        let path = path
            .canonicalize()
            .map_err(|source| Error::PluginNotFound { path: path.to_owned(), source })?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(plugin) = loaded.get(&path) {
            return Ok(*plugin);
        }
        let plugin = Self::open(&path)?;
        // SAFETY: the struct is complete; the plugin was just loaded and is initialized once.
        let initialize = || unsafe { plugin.call(&mut sys::PJRT_Plugin_Initialize_Args::new()) };
        if plugin.0.is_libtpu {
            environment::lend(&libtpu::variables(Path::new("/")), initialize)?;
        } else {
            initialize()?;
        }
        loaded.insert(path, plugin);
        Ok(plugin)
    }

    /// Returns the plugins that this process has loaded, in order of their paths.
    ///
    /// ```
    /// # use oxidax_pjrt::Plugin;
    /// assert!(Plugin::loaded().is_empty());
    /// ```
    pub fn loaded() -> Vec<Self> {
        let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plugins: Vec<Self> = loaded.iter().flatten().map(|(_, plugin)| *plugin).collect();
        plugins.sort_by_key(|plugin| plugin.path());
        plugins
    }

    fn open(path: &Path) -> Result<Self> {
        quiet_banners();
        // SAFETY: the caller of `load` trusts the file; its initializers run here.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| Error::NotALibrary {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        type GetPjrtApi = unsafe extern "C" fn() -> *const sys::PJRT_Api;
        // SAFETY: by PJRT's convention, a symbol with this name has this type.
        let get_api = unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi\0") };
        let get_api = get_api.map_err(|_| Error::NotAPlugin { path: path.to_owned() })?;
        // SAFETY: the function takes no arguments and returns a static table.
        let original = unsafe { get_api() };
        if original.is_null() {
            return Err(Error::NotAPlugin { path: path.to_owned() });
        }
        // SAFETY: the symbol's address is looked up but not used.
        let is_libtpu = unsafe { library.get::<unsafe extern "C" fn()>(libtpu::SYMBOL) }.is_ok();
        // Objects from the plugin must stay valid, so the library is never closed.
        let handle = library.into_raw();

        // SAFETY: every version of the table begins with size, extensions and version, and the
        // table is static.
        let (size, version) = unsafe { ((*original).struct_size, (*original).pjrt_api_version) };
        let version = ApiVersion { major: version.major_version, minor: version.minor_version };
        if version.major != 0 || version.minor < OLDEST_MINOR {
            return Err(Error::UnsupportedVersion {
                path: path.to_owned(),
                major: version.major,
                minor: version.minor,
                oldest: OLDEST_MINOR,
            });
        }
        let mut table = sys::PJRT_Api::default();
        let known = size.min(size_of::<sys::PJRT_Api>());
        // SAFETY: the plugin's table is `size` bytes long and this crate's table is at least
        // `known`; the rest of the copy stays zero, which reads as `None`.
        unsafe {
            original.cast::<u8>().copy_to_nonoverlapping((&raw mut table).cast::<u8>(), known);
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let loaded = Loaded { path: path.to_owned(), name, version, is_libtpu, table, handle };
        Ok(Self(Box::leak(Box::new(loaded))))
    }

    /// Returns the path of the loaded file, with symbolic links resolved.
    pub fn path(self) -> &'static Path {
        &self.0.path
    }

    /// Returns the file's name.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Returns the version of the C API that the plugin implements.
    pub fn api_version(self) -> ApiVersion {
        self.0.version
    }

    /// Takes the large memory blocks of a CPU plugin from [`host_pool`], which keeps freed memory
    /// for the next call. Other code in the process is not affected. A second call changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this system has no pool, or the plugin does not import the C library's
    /// allocator in the usual way. The plugin then allocates as before.
    ///
    /// ```no_run
    /// # use oxidax_pjrt::{Plugin, host_pool};
    /// let plugin = Plugin::load("/usr/lib/pjrt_c_api_cpu_plugin.so".as_ref())?;
    /// plugin.use_host_pool()?;
    /// println!("{:?}", host_pool::stats());
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn use_host_pool(self) -> Result<()> {
        // SAFETY: the library was loaded with immediate binding and is never closed.
        let redirected = unsafe { host_pool::redirect(self.0.handle) };
        redirected.map_err(|reason| {
            Error::invalid("host pool", format!("plugin {self} cannot use it: {reason}"))
        })
    }

    /// Returns the plugin's attributes, which include `xla_version`, `stablehlo_current_version`
    /// and `stablehlo_minimum_version`.
    ///
    /// # Errors
    /// [`Error::Status`] or [`Error::Missing`].
    pub fn attributes(self) -> Result<Vec<NamedValue>> {
        let mut args = sys::PJRT_Plugin_Attributes_Args::new();
        // SAFETY: the struct has no inputs, and the attributes live as long as the plugin.
        unsafe {
            self.call(&mut args)?;
            Ok(NamedValue::list(args.attributes, args.num_attributes))
        }
    }

    /// Returns the numbers of the plugin's extensions, as in `PJRT_Extension_Type` of the C header.
    pub fn extensions(self) -> Vec<u32> {
        self.extension_list().map(|(kind, _)| kind).collect()
    }

    /// Iterates over the type and address of every extension.
    fn extension_list(self) -> impl Iterator<Item = (u32, *mut sys::PJRT_Extension_Base)> {
        let mut next = self.0.table.extension_start;
        std::iter::from_fn(move || {
            // SAFETY: the list is static and ends with null.
            let extension = unsafe { next.as_ref() }?;
            let item = (extension.type_, next);
            next = extension.next;
            Some(item)
        })
    }

    /// Returns a copy of an extension's struct. If the plugin's struct is shorter, the rest is
    /// zero.
    ///
    /// # Safety
    /// `T` is the `repr(C)` struct of the extension `kind`, and all zeros are a valid `T`.
    pub(crate) unsafe fn extension<T>(self, kind: u32, name: &'static str) -> Result<T> {
        let (_, found) = self
            .extension_list()
            .find(|(found, _)| *found == kind)
            .ok_or_else(|| self.missing(name))?;
        let mut copy = std::mem::MaybeUninit::<T>::zeroed();
        // SAFETY: extensions begin with their size; the copy stays within both structs, and zeros
        // are valid.
        unsafe {
            let size = (*found).struct_size.min(size_of::<T>());
            found.cast::<u8>().copy_to_nonoverlapping(copy.as_mut_ptr().cast::<u8>(), size);
            Ok(copy.assume_init())
        }
    }

    pub(crate) fn table(self) -> &'static sys::PJRT_Api {
        &self.0.table
    }

    /// Returns true if the plugin provides all functions required for a view of a buffer's memory.
    pub(crate) fn can_view_buffers(self) -> bool {
        let table = self.table();
        table.PJRT_Buffer_OpaqueDeviceMemoryDataPointer.is_some()
            && table.PJRT_Buffer_IncreaseExternalReferenceCount.is_some()
            && table.PJRT_Buffer_DecreaseExternalReferenceCount.is_some()
    }

    pub(crate) fn missing(self, function: &'static str) -> Error {
        Error::Missing { plugin: PluginName::new(self), function }
    }

    /// Calls the function that takes `A`.
    ///
    /// # Safety
    /// Every pointer in `args` is valid for the function's use of it.
    #[inline]
    pub(crate) unsafe fn call<A: Args>(self, args: &mut A) -> Result<()> {
        let function = A::slot(&self.0.table).ok_or_else(|| self.missing(A::NAME))?;
        // SAFETY: the caller guarantees the pointers, and `args` states its size.
        let error = unsafe { function(args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the error was just returned by this plugin.
        Err(unsafe { self.take_error(A::NAME, error) })
    }

    /// Calls a function that releases an object. Errors are not reported, because the object is
    /// unusable in either case.
    ///
    /// # Safety
    /// The requirements of [`call`](Self::call) apply, and the object is not used afterwards.
    pub(crate) unsafe fn release<A: Args>(self, args: &mut A) {
        // SAFETY: the caller guarantees the object.
        let result = unsafe { self.call(args) };
        debug_assert!(result.is_ok(), "{result:?}");
    }

    /// Converts the plugin's error to an [`Error`] and frees it.
    ///
    /// # Safety
    /// `error` is not null, came from this plugin, and is not used afterwards.
    #[cold]
    pub(crate) unsafe fn take_error(
        self,
        function: &'static str,
        error: *mut sys::PJRT_Error,
    ) -> Error {
        let mut code = sys::PJRT_Error_GetCode_Args {
            struct_size: size_of::<sys::PJRT_Error_GetCode_Args>(),
            error,
            ..Default::default()
        };
        let mut text = sys::PJRT_Error_Message_Args {
            struct_size: size_of::<sys::PJRT_Error_Message_Args>(),
            error,
            ..Default::default()
        };
        let mut destroy = sys::PJRT_Error_Destroy_Args {
            struct_size: size_of::<sys::PJRT_Error_Destroy_Args>(),
            error,
            ..Default::default()
        };
        let table = &self.0.table;
        let mut message = String::new();
        code.code = sys::PJRT_Error_Code_UNKNOWN;
        // SAFETY: the error is alive until the last of the three calls; the message is copied
        // before that.
        unsafe {
            if let Some(get_code) = table.PJRT_Error_GetCode {
                get_code(&raw mut code);
            }
            if let Some(get_message) = table.PJRT_Error_Message {
                get_message(&raw mut text);
                message = api::string(text.message, text.message_size);
            }
            if let Some(destroy_error) = table.PJRT_Error_Destroy {
                destroy_error(&raw mut destroy);
            }
        }
        let code = Code::from_raw(code.code);
        Error::Status { plugin: PluginName::new(self), function, code, message }
    }
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Plugin {}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("path", &self.0.path).field("api", &self.0.version).finish()
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

/// Suppresses the plugins' start-up messages if the environment can be changed safely, which
/// requires a single-threaded process.
fn quiet_banners() {
    const VARIABLE: &str = "TF_CPP_MIN_LOG_LEVEL";
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads == 1 && std::env::var_os(VARIABLE).is_none() {
        // SAFETY: this is the process's only thread, so no other thread reads the environment.
        unsafe { std::env::set_var(VARIABLE, "2") };
    }
}
