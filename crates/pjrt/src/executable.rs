//! Compiled programs: name, parameter and result types, devices.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::buffer::Place;
use crate::client::Client;
use crate::compile_options::CompileOptions;
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::exit;
use crate::mosaic_gpu;
use crate::plugin::Plugin;
use crate::program::PjrtProgram;
use crate::signature::ExecutableSignature;
use crate::types::{ArrayType, ElementType};

/// A compiled program that is not tied to devices. It is the result of compiling for a topology,
/// and it provides the properties of a loaded program. Clones share it.
#[derive(Clone)]
pub struct Executable(pub(crate) Arc<ExecutableInner>);

pub(crate) struct ExecutableInner {
    /// The loaded form of the program, if there is one. Plugins may answer questions about the
    /// program from it. Declared before the client, so that it is destroyed before.
    _loaded: Option<LoadedHandle>,
    plugin: Plugin,
    /// The client that the program was compiled on; it must outlive the program.
    _client: Option<Client>,
    executable: Handle<sys::PJRT_Executable>,
    /// The bytes that the program was loaded from, if they replace those that the plugin would
    /// serialize.
    pub(crate) loaded_from: OnceLock<Box<[u8]>>,
}

/// A compiled program, ready to run on its devices. Clones share it.
#[derive(Clone)]
pub struct LoadedExecutable(pub(crate) Arc<LoadedInner>);

pub(crate) struct LoadedInner {
    pub(crate) client: Client,
    /// Owned by `executable`.
    pub(crate) loaded: Handle<sys::PJRT_LoadedExecutable>,
    executable: Executable,
    pub(crate) name: String,
    pub(crate) parameters: Vec<ArrayType>,
    pub(crate) results: Vec<ArrayType>,
    /// For each device, the placement and types of parameters and results. Empty for a portable
    /// executable.
    places: Vec<Places>,
    /// Indices in the client's list, in the order of the argument lists of an execution.
    pub(crate) devices: Vec<usize>,
    /// True if the program has no assigned device.
    pub(crate) portable: bool,
}

impl Client {
    /// Compiles a program. The types of its parameters are read from the program and used to check
    /// arguments.
    ///
    /// # Errors
    /// [`Error::Status`] with the compiler's message; [`Error::Invalid`] for options that do not
    /// fit the client.
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Client, CompileOptions, PjrtProgram, Plugin};
    /// # let client = Client::new(Plugin::load("plugin.so".as_ref())?, &[])?;
    /// let program = PjrtProgram::mlir(
    ///     "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }",
    /// )?;
    /// let executable = client.compile(&program, &CompileOptions::default())?;
    /// println!("{} parameter", executable.parameters().len());
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn compile(
        &self,
        program: &PjrtProgram,
        options: &CompileOptions,
    ) -> Result<LoadedExecutable> {
        // The text states the type of the whole array. A partition's share is known only after
        // compiling.
        let signature = if options.num_partitions == 1 { program.signature() } else { None };
        self.compile_inner(program, options, signature)
    }

    /// Compiles a program whose parameter types, as seen by one device, are passed by the caller.
    ///
    /// # Errors
    /// The errors of [`compile`](Self::compile).
    pub fn compile_with_signature(
        &self,
        program: &PjrtProgram,
        options: &CompileOptions,
        signature: ExecutableSignature,
    ) -> Result<LoadedExecutable> {
        self.compile_inner(program, options, Some(signature))
    }

    fn compile_inner(
        &self,
        program: &PjrtProgram,
        options: &CompileOptions,
        signature: Option<ExecutableSignature>,
    ) -> Result<LoadedExecutable> {
        exit::wait_at_end();
        options.check_devices(self)?;
        let encoded = options.encode()?;
        let raw_program = raw_program(program);
        let mut args = sys::PJRT_Client_Compile_Args::new();
        args.client = self.as_ptr();
        args.program = &raw const raw_program;
        args.compile_options = encoded.as_ptr().cast();
        args.compile_options_size = encoded.len();
        // SAFETY: client, program and options are alive for the call, which does not write to the
        // code.
        let call = || unsafe { self.plugin().call(&mut args) };
        let attributes = || match self.devices().first() {
            Some(device) => device.attributes(),
            None => Ok(Vec::new()),
        };
        mosaic_gpu::with_runtime(self.plugin(), program, attributes, call)?;
        // SAFETY: the executable came from this client, and nothing else destroys it.
        unsafe { LoadedExecutable::from_raw(self, args.executable, signature) }
    }
}

/// Returns the C form of a program, which borrows its code.
pub(crate) fn raw_program(program: &PjrtProgram) -> sys::PJRT_Program {
    let format = program.format_name();
    sys::PJRT_Program {
        struct_size: size_of::<sys::PJRT_Program>(),
        code: program.code().as_ptr().cast_mut().cast(),
        code_size: program.code().len(),
        format: format.as_ptr().cast(),
        format_size: format.len(),
        ..Default::default()
    }
}

impl Executable {
    /// Takes ownership of an executable that the C API returned.
    ///
    /// # Safety
    /// `executable` came from this plugin and, if `client` is set, from that client. No other code
    /// destroys it.
    pub(crate) unsafe fn from_raw(
        plugin: Plugin,
        client: Option<&Client>,
        executable: *mut sys::PJRT_Executable,
    ) -> Result<Self> {
        let executable = api::expect(executable, "executable")?;
        Ok(Self::new(plugin, client, executable, None))
    }

    fn new(
        plugin: Plugin,
        client: Option<&Client>,
        executable: Handle<sys::PJRT_Executable>,
        loaded: Option<LoadedHandle>,
    ) -> Self {
        Self(Arc::new(ExecutableInner {
            _loaded: loaded,
            plugin,
            _client: client.cloned(),
            executable,
            loaded_from: OnceLock::new(),
        }))
    }

    pub(crate) fn plugin(&self) -> Plugin {
        self.0.plugin
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_Executable {
        self.0.executable.as_ptr()
    }

    /// Returns the program's name, which is the name of its module.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn name(&self) -> Result<String> {
        let mut args = sys::PJRT_Executable_Name_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive, and the string is copied.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(api::string(args.executable_name, args.executable_name_size))
        }
    }

    /// Returns the number of replicas that the program was compiled for.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn num_replicas(&self) -> Result<usize> {
        let mut args = sys::PJRT_Executable_NumReplicas_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(args.num_replicas)
    }

    /// Returns the number of partitions that the program was compiled for.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn num_partitions(&self) -> Result<usize> {
        let mut args = sys::PJRT_Executable_NumPartitions_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(args.num_partitions)
    }

    /// Returns the types of the results on one device.
    ///
    /// # Errors
    /// [`Error::Status`]; [`Error::Invalid`] for an element type that this crate does not support.
    pub fn results(&self) -> Result<Vec<ArrayType>> {
        let mut types = sys::PJRT_Executable_OutputElementTypes_Args::new();
        let mut shapes = sys::PJRT_Executable_OutputDimensions_Args::new();
        types.executable = self.as_ptr();
        shapes.executable = self.as_ptr();
        // SAFETY: the executable is alive, and so are the arrays that it returns: one rank for each
        // output, and as many dimensions as the sum of the ranks.
        let (types, ranks, mut dims) = unsafe {
            self.plugin().call(&mut types)?;
            self.plugin().call(&mut shapes)?;
            let ranks = api::slice(shapes.dim_sizes, shapes.num_outputs);
            let dims = api::slice(shapes.dims, ranks.iter().sum());
            (api::slice(types.output_types, types.num_output_types), ranks, dims)
        };
        let results = types.iter().zip(ranks).map(|(&raw, &rank)| {
            let (own, rest) = dims.split_at(rank);
            dims = rest;
            let element = ElementType::from_raw(raw).ok_or_else(|| {
                Error::invalid(
                    "executable",
                    format!("a result has an unknown element type ({raw})"),
                )
            })?;
            ArrayType::new(element, own)
        });
        results.collect()
    }

    /// Returns the memory kind of each result.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn result_memory_kinds(&self) -> Result<Vec<String>> {
        let mut args = sys::PJRT_Executable_OutputMemoryKinds_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive, and each kind comes with its length; all are copied.
        unsafe {
            self.plugin().call(&mut args)?;
            let kinds = api::slice(args.memory_kinds, args.num_outputs);
            let sizes = api::slice(args.memory_kind_sizes, args.num_outputs);
            Ok(kinds.iter().zip(sizes).map(|(&kind, &size)| api::string(kind, size)).collect())
        }
    }

    /// Returns a fingerprint that is equal for equal modules, independently of the compile options.
    /// Not every plugin provides one.
    ///
    /// # Errors
    /// [`Error::Status`], with `UNIMPLEMENTED` if the plugin provides none.
    pub fn fingerprint(&self) -> Result<String> {
        let mut args = sys::PJRT_Executable_Fingerprint_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive, and the string is copied.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(api::string(args.executable_fingerprint, args.executable_fingerprint_size))
        }
    }
}

impl LoadedExecutable {
    /// Takes ownership of a loaded executable that the C API returned, and queries its types.
    ///
    /// # Safety
    /// `loaded` belongs to `client`, and no other code destroys it.
    pub(crate) unsafe fn from_raw(
        client: &Client,
        loaded: *mut sys::PJRT_LoadedExecutable,
        signature: Option<ExecutableSignature>,
    ) -> Result<Self> {
        let plugin = client.plugin();
        let loaded = api::expect(loaded, "executable")?;
        let handle = LoadedHandle { plugin, loaded };
        let mut get = sys::PJRT_LoadedExecutable_GetExecutable_Args::new();
        let mut addressable = sys::PJRT_LoadedExecutable_AddressableDevices_Args::new();
        get.loaded_executable = loaded.as_ptr();
        addressable.executable = loaded.as_ptr();
        // SAFETY: the loaded executable is alive; this function owns the executable; the list lives
        // as long as the loaded executable.
        let (executable, devices) = unsafe {
            plugin.call(&mut get)?;
            let executable = api::expect(get.executable, "executable")?;
            let executable = Executable::new(plugin, Some(client), executable, Some(handle));
            plugin.call(&mut addressable)?;
            let devices =
                api::slice(addressable.addressable_devices, addressable.num_addressable_devices);
            let devices: Result<Vec<_>> =
                devices.iter().map(|&device| client.device_index(device)).collect();
            (executable, devices?)
        };
        let signature = match signature {
            Some(signature) => signature,
            None => {
                let (code, format) = executable.optimized_program()?;
                ExecutableSignature::from_optimized(&code, &format)?
            }
        };
        let name = executable.name();
        let results = executable.results();
        let mut inner = LoadedInner {
            client: client.clone(),
            loaded,
            executable,
            name: String::new(),
            parameters: signature.parameters,
            results: Vec::new(),
            places: Vec::new(),
            // Only a portable executable is loaded without devices.
            portable: devices.is_empty(),
            devices,
        };
        inner.name = name?;
        inner.results = results?;
        let places =
            |&device: &usize| Places::new(client, device, &inner.parameters, &inner.results);
        inner.places = inner.devices.iter().map(places).collect();
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the client that the program runs on.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns the program's name, which is the name of its module.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the types of the parameters on one device.
    pub fn parameters(&self) -> &[ArrayType] {
        &self.0.parameters
    }

    /// Returns the types of the results on one device.
    pub fn results(&self) -> &[ArrayType] {
        &self.0.results
    }

    /// Returns the placement and types of a device's parameters and results; `None` for a device
    /// that the program is not assigned to.
    #[inline]
    pub(crate) fn places(&self, device: usize) -> Option<&Places> {
        let position = self.0.devices.iter().position(|&own| own == device)?;
        Some(&self.0.places[position])
    }

    /// Returns this process's devices that the program runs on, in the order of the lists of
    /// [`execute_sharded`](Self::execute_sharded). Empty for a portable executable.
    pub fn devices(&self) -> Vec<PjrtDevice> {
        self.0.devices.iter().map(|&index| PjrtDevice::new(&self.0.client, index)).collect()
    }

    /// Returns true if the program has no assigned device and is run by
    /// [`execute_on`](Self::execute_on).
    pub fn is_portable(&self) -> bool {
        self.0.portable
    }

    /// Returns the device-independent part of the program.
    pub fn executable(&self) -> &Executable {
        &self.0.executable
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_LoadedExecutable {
        self.0.loaded.as_ptr()
    }
}

/// Placement and types of one device's parameters and results. Parameters and results of one type
/// share a `Place`. A result that becomes an argument of the next run is therefore recognized by
/// the address of its place.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) parameters: Vec<Arc<Place>>,
    pub(crate) results: Vec<Arc<Place>>,
}

impl Places {
    fn new(
        client: &Client,
        device: usize,
        parameters: &[ArrayType],
        results: &[ArrayType],
    ) -> Self {
        let mut known: HashMap<&ArrayType, Arc<Place>> = HashMap::new();
        let mut list = |types| -> Vec<Arc<Place>> {
            let place = |array_type| {
                let place = || Place {
                    client: client.clone(),
                    array_type: ArrayType::clone(array_type),
                    device,
                };
                Arc::clone(known.entry(array_type).or_insert_with(|| Arc::new(place())))
            };
            <[ArrayType]>::iter(types).map(place).collect()
        };
        Self { parameters: list(parameters), results: list(results) }
    }
}

/// Owns a loaded executable of the C API.
struct LoadedHandle {
    plugin: Plugin,
    loaded: Handle<sys::PJRT_LoadedExecutable>,
}

impl Drop for LoadedHandle {
    fn drop(&mut self) {
        let mut args = sys::PJRT_LoadedExecutable_Destroy_Args::new();
        args.executable = self.loaded.as_ptr();
        // SAFETY: this is the last handle; executions in flight hold the resources they need.
        unsafe { self.plugin.release(&mut args) }
    }
}

impl Drop for ExecutableInner {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Executable_Destroy_Args::new();
        args.executable = self.executable.as_ptr();
        // SAFETY: this is the last handle.
        unsafe { self.plugin.release(&mut args) }
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable").field("name", &self.name().ok()).finish_non_exhaustive()
    }
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = |types: &mut dyn Iterator<Item = &ArrayType>| {
            types.map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "LoadedExecutable({}: ({}) -> ({}))",
            self.0.name,
            types(&mut self.0.parameters.iter()),
            types(&mut self.0.results.iter())
        )
    }
}
