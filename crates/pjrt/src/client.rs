//! The client: a plugin's view of the devices it drives.

use std::fmt;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::device::{Device, DeviceData};
use crate::error::{Error, Result};
use crate::key_value::{self, KeyValueStore};
use crate::launch::LaunchGate;
use crate::memory::{Memory, MemoryData};
use crate::named_value::NamedValue;
use crate::plugin::Plugin;
use crate::topology::Topology;

/// Devices, memories, and everything made on them. Clones share the client; it ends with its last
/// buffer or executable.
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
    /// Whether the devices are CPU devices: host memory, and launches that need care.
    is_cpu: bool,
    /// Keeps launches on several CPU devices apart.
    launch_gate: Arc<LaunchGate>,
    /// The store that the plugin may call back into until the client is destroyed; boxed, because
    /// the plugin has its address.
    _store: Option<Box<Arc<dyn KeyValueStore>>>,
}

impl Client {
    /// Makes a client. The CPU plugins know the options `cpu_device_count` (4 unless set),
    /// `asynchronous` and `process_id`; a name that the plugin does not know is an error on all but
    /// old ones (up to API 0.106), which pass over it.
    ///
    /// # Errors
    /// [`Error::Status`]: the options are wrong, or the hardware is not there. [`Error::Invalid`]:
    /// the environment variable `XLA_FLAGS` holds a flag that the plugin does not know and would
    /// abort over. (It would also abort over a wrong value, which cannot be told from here: prefer
    /// [`CompileOptions::overrides`](crate::CompileOptions::overrides).)
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Client, NamedValue, Plugin};
    /// # let plugin = Plugin::load("plugin.so".as_ref())?;
    /// let client = Client::new(plugin, &[NamedValue::new("cpu_device_count", 8)])?;
    /// assert_eq!(client.devices().len(), 8);
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn new(plugin: Plugin, options: &[NamedValue]) -> Result<Self> {
        Self::create(plugin, options, None)
    }

    /// Makes a client that meets other processes through a key-value store.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
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
        // SAFETY: `raw` borrows from `options`, both alive; the store's callbacks outlive the
        // client.
        unsafe { plugin.call(&mut args) }?;
        let client = Handle::new(args.client)
            .ok_or_else(|| Error::invalid("client", "the plugin returned no client"))?;
        let guard = DestroyOnError { plugin, client };
        let inner = Inner::query(plugin, client, store)?;
        std::mem::forget(guard);
        Ok(Self(Arc::new(inner)))
    }

    /// The plugin behind the client.
    pub fn plugin(&self) -> Plugin {
        self.0.plugin
    }

    /// The platform: `cpu`, `cuda`, `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.0.platform_name
    }

    /// The platform's version, as the plugin describes it.
    pub fn platform_version(&self) -> &str {
        &self.0.platform_version
    }

    /// This process's number among those that share the devices; 0 if there is only this one.
    pub fn process_index(&self) -> i32 {
        self.0.process_index
    }

    /// Whether the devices are CPU devices.
    pub fn is_cpu(&self) -> bool {
        self.0.is_cpu
    }

    /// All devices, other processes' too, in the plugin's order.
    pub fn devices(&self) -> Vec<Device> {
        (0..self.0.devices.len()).map(|index| Device::new(self, index)).collect()
    }

    /// The devices that this process can use.
    pub fn addressable_devices(&self) -> Vec<Device> {
        self.devices().into_iter().filter(Device::is_addressable).collect()
    }

    /// The memories that this process can use.
    pub fn memories(&self) -> Vec<Memory> {
        (0..self.0.memories.len()).map(|index| Memory::new(self, index)).collect()
    }

    /// The device with this id.
    ///
    /// # Errors
    /// [`Error::Invalid`] lists the ids that exist.
    pub fn device(&self, id: i32) -> Result<Device> {
        let index = self.0.devices.iter().position(|device| device.id == id).ok_or_else(|| {
            let ids: Vec<_> = self.0.devices.iter().map(|device| device.id).collect();
            Error::invalid("device", format!("no device has id {id}; there are {ids:?}"))
        })?;
        Ok(Device::new(self, index))
    }

    /// The assignment of devices that the plugin would choose: `num_replicas` rows of
    /// `num_partitions` device ids.
    ///
    /// # Errors
    /// [`Error::Invalid`] if either number is 0 or they do not fit; [`Error::Status`] if there are
    /// too few devices.
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

    /// The devices as a topology, which programs can be compiled for without being loaded.
    ///
    /// # Errors
    /// [`Error::Status`], with `UNIMPLEMENTED` where the plugin has none.
    pub fn topology(&self) -> Result<Topology> {
        let mut args = sys::PJRT_Client_TopologyDescription_Args::new();
        args.client = self.as_ptr();
        // SAFETY: the client is alive, and the topology belongs to it.
        unsafe {
            self.plugin().call(&mut args)?;
            Topology::from_client(self, args.topology)
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

    /// The position of a device that the plugin named.
    pub(crate) fn device_index(&self, device: *mut sys::PJRT_Device) -> Result<usize> {
        let found = self.0.devices.iter().position(|data| data.device.as_ptr() == device);
        found.ok_or_else(|| {
            Error::invalid("device", "the plugin named a device that it did not list")
        })
    }

    /// The position of a memory that the plugin named.
    pub(crate) fn memory_index(&self, memory: *mut sys::PJRT_Memory) -> Result<usize> {
        let found = self.0.memories.iter().position(|data| data.memory.as_ptr() == memory);
        found.ok_or_else(|| {
            Error::invalid("memory", "the plugin named a memory that it did not list")
        })
    }
}

impl Inner {
    /// Asks for everything about the client that never changes.
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
        // SAFETY: the client is alive, and what it returns lives as long as it does; strings are
        // copied.
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
                launch_gate: Arc::default(),
                _store: store,
            })
        }
    }
}

/// Destroys a client that turned out unusable.
struct DestroyOnError {
    plugin: Plugin,
    client: Handle<sys::PJRT_Client>,
}

impl Drop for DestroyOnError {
    fn drop(&mut self) {
        // SAFETY: nothing made from the client is left.
        unsafe { destroy(self.plugin, self.client) }
    }
}

/// # Safety
/// Nothing uses the client, or anything made from it, afterwards.
unsafe fn destroy(plugin: Plugin, client: Handle<sys::PJRT_Client>) {
    let mut args = sys::PJRT_Client_Destroy_Args::new();
    args.client = client.as_ptr();
    // SAFETY: the caller vouches for it.
    unsafe { plugin.release(&mut args) }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: buffers, executables and events each hold a `Client`, so none is left.
        unsafe { destroy(self.plugin, self.client) }
    }
}

impl PartialEq for Client {
    /// Whether both are the same client, not merely alike.
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
