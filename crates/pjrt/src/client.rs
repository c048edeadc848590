//! The client: a plugin's handle to the devices it drives.

use std::fmt;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::device::{DeviceData, PjrtDevice};
use crate::error::{Error, Result};
use crate::exit::{self, Watch};
use crate::key_value::{self, KeyValueStore};
use crate::launch::LaunchGate;
use crate::memory::{Memory, MemoryData};
use crate::named_value::NamedValue;
use crate::plugin::Plugin;
use crate::topology::TopologyDescription;

/// A client of a plugin: devices, memories, and the objects created on them. Clones share the
/// client. It is destroyed with its last buffer or executable.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

pub(crate) struct Inner {
    plugin: Plugin,
    client: Handle<sys::PJRT_Client>,
    platform_name: String,
    platform_version: String,
    process_index: i32,
    devices: Vec<DeviceData>,
    memories: Vec<MemoryData>,
    /// True if the devices are CPU devices, which use host memory and need serialized launches.
    is_cpu: bool,
    /// The threads of a CPU client, for which the process waits when it exits.
    _threads: Option<Watch>,
    /// Serializes launches on several CPU devices.
    launch_gate: Arc<LaunchGate>,
    /// The store that the plugin may call back into until the client is destroyed. It is boxed
    /// because the plugin holds its address.
    _store: Option<Box<Arc<dyn KeyValueStore>>>,
}

impl Client {
    /// Creates a client. The CPU plugins accept the options `cpu_device_count` (default 4),
    /// `asynchronous` and `process_id`. An unknown option name is an error, except in plugins up to
    /// API 0.106, which ignore it.
    ///
    /// # Errors
    /// - [`Error::Status`]: the options are wrong, or the hardware is missing.
    /// - [`Error::Invalid`]: the environment variable `XLA_FLAGS` contains a flag that the plugin
    ///   does not know and would abort on. The plugin also aborts on a wrong value, which this
    ///   crate cannot detect. Prefer
    ///   [`CompileOptions::overrides`](crate::CompileOptions::overrides).
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Client, NamedValue, Plugin};
    /// # let plugin = Plugin::load("plugin.so".as_ref())?;
    /// let client = Client::new(plugin, &[NamedValue::new("cpu_device_count", 8)])?;
    /// println!("{} devices", client.devices().len());
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn new(plugin: Plugin, options: &[NamedValue]) -> Result<Self> {
        Self::create(plugin, options, None)
    }

    /// Creates a client that connects to other processes through a key-value store.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_store(
        plugin: Plugin,
        options: &[NamedValue],
        store: Arc<dyn KeyValueStore>,
    ) -> Result<Self> {
        Self::create(plugin, options, Some(store))
    }

    fn create(
        plugin: Plugin,
        options: &[NamedValue],
        store: Option<Arc<dyn KeyValueStore>>,
    ) -> Result<Self> {
        crate::xla_flags::check(plugin)?;
        let raw: Vec<_> = options.iter().map(NamedValue::to_raw).collect();
        let mut args = sys::PJRT_Client_Create_Args::new();
        args.create_options = raw.as_ptr();
        args.num_options = raw.len();
        let store = store.map(Box::new);
        if let Some(store) = &store {
            key_value::set_callbacks(&mut args, store);
        }
        let threads = exit::threads();
        // SAFETY: `raw` borrows from `options`, and both are alive; the store's callbacks outlive
        // the client.
        unsafe { plugin.call(&mut args) }?;
        let client = Handle::new(args.client)
            .ok_or_else(|| Error::invalid("client", "the plugin returned no client"))?;
        let guard = DestroyOnError { plugin, client };
        let mut inner = Inner::query(plugin, client, store)?;
        std::mem::forget(guard);
        if inner.is_cpu {
            inner._threads = Some(Watch::started_since(&threads));
            exit::wait_at_end();
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the plugin of the client.
    pub fn plugin(&self) -> Plugin {
        self.0.plugin
    }

    /// Returns the platform name: `cpu`, `cuda`, `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// Returns the platform's version, as the plugin describes it.
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// Returns the index of this process among the processes that share the devices; 0 for a single
    /// process.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// Returns true if the devices are CPU devices.
    pub fn is_cpu(&self) -> bool {
        self.0.is_cpu
    }

    /// Returns all devices, including those of other processes, in the plugin's order.
    pub fn devices(&self) -> Vec<PjrtDevice> {
        (0..self.0.devices.len()).map(|index| PjrtDevice::new(self, index)).collect()
    }

    /// Returns the devices that this process can use.
    pub fn addressable_devices(&self) -> Vec<PjrtDevice> {
        self.devices().into_iter().filter(PjrtDevice::is_addressable).collect()
    }

    /// Returns the memories that this process can use.
    pub fn memories(&self) -> Vec<Memory> {
        (0..self.0.memories.len()).map(|index| Memory::new(self, index)).collect()
    }

    /// Returns the device with this id.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown id; the message lists the existing ids.
    pub fn device(&self, id: i32) -> Result<PjrtDevice> {
        let index = self.0.devices.iter().position(|device| device.id == id).ok_or_else(|| {
            let ids: Vec<_> = self.0.devices.iter().map(|device| device.id).collect();
            Error::invalid("device", format!("no device has id {id}; there are {ids:?}"))
        })?;
        Ok(PjrtDevice::new(self, index))
    }

    /// Returns the plugin's default device assignment: `num_replicas` rows of `num_partitions`
    /// device ids.
    ///
    /// # Errors
    /// [`Error::Invalid`] if either number is 0 or the client has too few devices;
    /// [`Error::Status`].
    pub fn default_device_assignment(
        &self,
        num_replicas: usize,
        num_partitions: usize,
    ) -> Result<Vec<Vec<i32>>> {
        let count = num_replicas
            .checked_mul(num_partitions)
            .filter(|&count| count > 0 && count <= self.0.devices.len());
        let count = count.ok_or_else(|| {
            let message = format!(
                "{num_replicas} replicas of {num_partitions} partitions need that many devices and at least one of \
                 each; there are {} devices",
                self.0.devices.len()
            );
            Error::invalid("default device assignment", message)
        })?;
        let mut ids = vec![0; count];
        let mut args = sys::PJRT_Client_DefaultDeviceAssignment_Args::new();
        args.client = self.as_ptr();
        // Both numbers are at most the number of devices.
        args.num_replicas = num_replicas as i32;
        args.num_partitions = num_partitions as i32;
        args.default_assignment_size = count;
        args.default_assignment = ids.as_mut_ptr();
        // SAFETY: the client is alive and `ids` has room for every pair.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(ids.chunks(num_partitions).map(<[i32]>::to_vec).collect())
    }

    /// Returns the devices as a topology. Programs can be compiled for a topology without loading
    /// them.
    ///
    /// # Errors
    /// [`Error::Status`], with `UNIMPLEMENTED` if the plugin has no topology.
    pub fn topology(&self) -> Result<TopologyDescription> {
        let mut args = sys::PJRT_Client_TopologyDescription_Args::new();
        args.client = self.as_ptr();
        // SAFETY: the client is alive, and the topology belongs to it.
        unsafe {
            self.plugin().call(&mut args)?;
            TopologyDescription::from_client(self, args.topology)
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_Client {
        self.0.client.as_ptr()
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn device_data(&self, index: usize) -> &DeviceData {
        &self.0.devices[index]
    }

    pub(crate) fn memory_data(&self, index: usize) -> &MemoryData {
        &self.0.memories[index]
    }

    pub(crate) fn launch_gate(&self) -> &Arc<LaunchGate> {
        &self.0.launch_gate
    }

    /// Returns the index of a device that the plugin returned.
    pub(crate) fn device_index(&self, device: *mut sys::PJRT_Device) -> Result<usize> {
        let found = self.0.devices.iter().position(|data| data.device.as_ptr() == device);
        found.ok_or_else(|| {
            Error::invalid("device", "the plugin named a device that it did not list")
        })
    }

    /// Returns the index of a memory that the plugin returned.
    pub(crate) fn memory_index(&self, memory: *mut sys::PJRT_Memory) -> Result<usize> {
        let found = self.0.memories.iter().position(|data| data.memory.as_ptr() == memory);
        found.ok_or_else(|| {
            Error::invalid("memory", "the plugin named a memory that it did not list")
        })
    }
}

impl Inner {
    /// Queries all immutable properties of the client.
    fn query(
        plugin: Plugin,
        client: Handle<sys::PJRT_Client>,
        store: Option<Box<Arc<dyn KeyValueStore>>>,
    ) -> Result<Self> {
        let mut name = sys::PJRT_Client_PlatformName_Args::new();
        let mut version = sys::PJRT_Client_PlatformVersion_Args::new();
        let mut process = sys::PJRT_Client_ProcessIndex_Args::new();
        let mut devices = sys::PJRT_Client_Devices_Args::new();
        let mut memories = sys::PJRT_Client_AddressableMemories_Args::new();
        name.client = client.as_ptr();
        version.client = client.as_ptr();
        process.client = client.as_ptr();
        devices.client = client.as_ptr();
        memories.client = client.as_ptr();
        // SAFETY: the client is alive, and the values it returns live as long as the client;
        // strings are copied.
        unsafe {
            plugin.call(&mut name)?;
            plugin.call(&mut version)?;
            plugin.call(&mut process)?;
            plugin.call(&mut devices)?;
            plugin.call(&mut memories)?;
            let memory_pointers =
                api::slice(memories.addressable_memories, memories.num_addressable_memories);
            let memory_data: Result<Vec<_>> =
                memory_pointers.iter().map(|&memory| MemoryData::query(plugin, memory)).collect();
            let device_data: Result<Vec<_>> = api::slice(devices.devices, devices.num_devices)
                .iter()
                .map(|&device| DeviceData::query(plugin, device, memory_pointers))
                .collect();
            let platform_name = api::string(name.platform_name, name.platform_name_size);
            Ok(Self {
                plugin,
                client,
                is_cpu: platform_name.eq_ignore_ascii_case("cpu")
                    || platform_name.eq_ignore_ascii_case("host"),
                platform_name,
                platform_version: api::string(
                    version.platform_version,
                    version.platform_version_size,
                ),
                process_index: process.process_index,
                devices: device_data?,
                memories: memory_data?,
                _threads: None,
                launch_gate: Arc::default(),
                _store: store,
            })
        }
    }
}

/// Guard that destroys a client if its setup fails.
struct DestroyOnError {
    plugin: Plugin,
    client: Handle<sys::PJRT_Client>,
}

impl Drop for DestroyOnError {
    fn drop(&mut self) {
        // SAFETY: no object created from the client is left.
        unsafe { destroy(self.plugin, self.client) }
    }
}

/// # Safety
/// The client and the objects created from it are not used afterwards.
unsafe fn destroy(plugin: Plugin, client: Handle<sys::PJRT_Client>) {
    let mut args = sys::PJRT_Client_Destroy_Args::new();
    args.client = client.as_ptr();
    // SAFETY: the caller guarantees it.
    unsafe { plugin.release(&mut args) }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: buffers, executables and events each hold a `Client`, so none is left.
        unsafe { destroy(self.plugin, self.client) }
    }
}

impl PartialEq for Client {
    /// Compares identity: true only if both are the same client.
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Eq for Client {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("platform", &self.0.platform_name)
            .field("devices", &self.0.devices.len())
            .field("plugin", &self.0.plugin)
            .finish_non_exhaustive()
    }
}
