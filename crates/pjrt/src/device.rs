//! Devices and their descriptions.

use std::fmt;

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::client::Client;
use crate::error::Result;
use crate::memory::Memory;
use crate::named_value::NamedValue;
use crate::plugin::Plugin;

/// A device of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct PjrtDevice {
    client: Client,
    index: usize,
}

/// The immutable properties of a device.
pub(crate) struct DeviceData {
    pub(crate) device: Handle<sys::PJRT_Device>,
    description: Handle<sys::PJRT_DeviceDescription>,
    pub(crate) id: i32,
    kind: String,
    process_index: i32,
    local_hardware_id: Option<i32>,
    /// Indices in the client's list of memories.
    memories: Vec<usize>,
    default_memory: Option<usize>,
}

impl PjrtDevice {
    pub(crate) fn new(client: &Client, index: usize) -> Self {
        Self { client: client.clone(), index }
    }

    fn data(&self) -> &DeviceData {
        self.client.device_data(self.index)
    }

    /// Returns the client that the device belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the device's id, unique among all processes.
    pub fn id(&self) -> i32 {
        self.data().id
    }

    /// Returns the device's model name, for instance `TPU v5 lite`.
    pub fn kind(&self) -> &str {
        &self.data().kind
    }

    /// Returns the index of the process that can use the device.
    pub fn process_index(&self) -> i32 {
        self.data().process_index
    }

    /// Returns true if this process can use the device.
    pub fn is_addressable(&self) -> bool {
        self.data().local_hardware_id.is_some()
    }

    /// Returns the index of the device in this process's hardware; `None` for a device of another
    /// process.
    pub fn local_hardware_id(&self) -> Option<i32> {
        self.data().local_hardware_id
    }

    /// Returns the memories that the device can access.
    pub fn memories(&self) -> Vec<Memory> {
        self.data().memories.iter().map(|&index| Memory::new(&self.client, index)).collect()
    }

    /// Returns the memory in which the device's buffers are placed by default; `None` for a device
    /// of another process.
    pub fn default_memory(&self) -> Option<Memory> {
        self.data().default_memory.map(|index| Memory::new(&self.client, index))
    }

    /// Returns the memory of this kind, such as `pinned_host`, that the device can access.
    pub fn memory(&self, kind: &str) -> Option<Memory> {
        self.memories().into_iter().find(|memory| memory.kind() == kind)
    }

    /// Returns the plugin's attributes of the device, for instance its coordinates.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn attributes(&self) -> Result<Vec<NamedValue>> {
        // SAFETY: the description lives as long as the client.
        unsafe { attributes(self.client.plugin(), self.data().description) }
    }

    /// Returns a short description of the device.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn debug_string(&self) -> Result<String> {
        // SAFETY: the description lives as long as the client.
        unsafe { debug_string(self.client.plugin(), self.data().description) }
    }

    /// Returns usage statistics of the device's memory. The CPU plugins do not record any.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status), with `UNIMPLEMENTED` if the plugin records no
    /// statistics.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        MemoryStats::query(self.client.plugin(), self.as_ptr())
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_Device {
        self.data().device.as_ptr()
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

impl fmt::Debug for PjrtDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PjrtDevice").field("id", &self.id()).field("kind", &self.kind()).finish()
    }
}

impl fmt::Display for PjrtDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client.platform_name(), self.id())
    }
}

impl DeviceData {
    /// # Safety
    /// `device` is alive, and `memories` are the client's memories.
    pub(crate) unsafe fn query(
        plugin: Plugin,
        device: *mut sys::PJRT_Device,
        memories: &[*mut sys::PJRT_Memory],
    ) -> Result<Self> {
        let handle = api::expect(device, "device")?;
        let mut description = sys::PJRT_Device_GetDescription_Args::new();
        let mut addressable = sys::PJRT_Device_IsAddressable_Args::new();
        description.device = device;
        addressable.device = device;
        // SAFETY: the device is alive.
        unsafe {
            plugin.call(&mut description)?;
            plugin.call(&mut addressable)?;
        }
        let description = api::expect(description.device_description, "device description")?;
        // SAFETY: the description lives as long as the device.
        let described = unsafe { DeviceDescription::query(plugin, description) }?;
        let mut data = Self {
            device: handle,
            description,
            id: described.id,
            kind: described.kind,
            process_index: described.process_index,
            local_hardware_id: None,
            memories: Vec::new(),
            default_memory: None,
        };
        if !addressable.is_addressable {
            return Ok(data);
        }
        let mut hardware = sys::PJRT_Device_LocalHardwareId_Args::new();
        let mut reachable = sys::PJRT_Device_AddressableMemories_Args::new();
        let mut default = sys::PJRT_Device_DefaultMemory_Args::new();
        hardware.device = device;
        reachable.device = device;
        default.device = device;
        let position = |memory: *mut sys::PJRT_Memory| memories.iter().position(|&m| m == memory);
        // SAFETY: the device is alive, and its list of memories lives as long as the device.
        unsafe {
            plugin.call(&mut hardware)?;
            plugin.call(&mut reachable)?;
            plugin.call(&mut default)?;
            data.local_hardware_id = Some(hardware.local_hardware_id);
            let reachable = api::slice(reachable.memories, reachable.num_memories);
            data.memories = reachable.iter().filter_map(|&memory| position(memory)).collect();
            data.default_memory = position(default.memory);
        }
        Ok(data)
    }
}

/// A device as described by a topology. The device does not have to exist.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    /// The device's id, unique among all processes.
    pub id: i32,
    /// The index of the process that would drive the device.
    pub process_index: i32,
    /// The device's model name.
    pub kind: String,
    /// A short description of the device.
    pub debug_string: String,
    /// The plugin's attributes of the device, for instance its coordinates.
    pub attributes: Vec<NamedValue>,
}

impl DeviceDescription {
    /// # Safety
    /// The description is alive.
    pub(crate) unsafe fn query(
        plugin: Plugin,
        description: Handle<sys::PJRT_DeviceDescription>,
    ) -> Result<Self> {
        let mut id = sys::PJRT_DeviceDescription_Id_Args::new();
        let mut process = sys::PJRT_DeviceDescription_ProcessIndex_Args::new();
        let mut kind = sys::PJRT_DeviceDescription_Kind_Args::new();
        id.device_description = description.as_ptr();
        process.device_description = description.as_ptr();
        kind.device_description = description.as_ptr();
        // SAFETY: the description is alive, and strings are copied.
        unsafe {
            plugin.call(&mut id)?;
            plugin.call(&mut process)?;
            plugin.call(&mut kind)?;
            Ok(Self {
                id: id.id,
                process_index: process.process_index,
                kind: api::string(kind.device_kind, kind.device_kind_size),
                debug_string: debug_string(plugin, description)?,
                attributes: attributes(plugin, description)?,
            })
        }
    }
}

/// # Safety
/// The description is alive.
unsafe fn attributes(
    plugin: Plugin,
    description: Handle<sys::PJRT_DeviceDescription>,
) -> Result<Vec<NamedValue>> {
    let mut args = sys::PJRT_DeviceDescription_Attributes_Args::new();
    args.device_description = description.as_ptr();
    // SAFETY: the description is alive, and so are its attributes.
    unsafe {
        plugin.call(&mut args)?;
        Ok(NamedValue::list(args.attributes, args.num_attributes))
    }
}

/// # Safety
/// The description is alive.
unsafe fn debug_string(
    plugin: Plugin,
    description: Handle<sys::PJRT_DeviceDescription>,
) -> Result<String> {
    let mut args = sys::PJRT_DeviceDescription_DebugString_Args::new();
    args.device_description = description.as_ptr();
    // SAFETY: the description is alive, and the string is copied.
    unsafe {
        plugin.call(&mut args)?;
        Ok(api::string(args.debug_string, args.debug_string_size))
    }
}

/// Usage statistics of a device's memory. All sizes are in bytes; a value that the plugin does not
/// report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use now.
    pub bytes_in_use: i64,
    /// The largest number of bytes in use at one time.
    pub peak_bytes_in_use: Option<i64>,
    /// The number of allocations.
    pub num_allocs: Option<i64>,
    /// The size of the largest allocation.
    pub largest_alloc_size: Option<i64>,
    /// The limit of the bytes in use.
    pub bytes_limit: Option<i64>,
    /// Reserved bytes.
    pub bytes_reserved: Option<i64>,
    /// The size of the largest free block.
    pub largest_free_block_bytes: Option<i64>,
}

impl MemoryStats {
    fn query(plugin: Plugin, device: *mut sys::PJRT_Device) -> Result<Self> {
        let mut args = sys::PJRT_Device_MemoryStats_Args_0_114::new();
        args.base.device = device;
        // SAFETY: the device lives as long as its client, which the caller holds.
        unsafe { plugin.call(&mut args) }?;
        let args = args.base;
        let known = |is_set: bool, value: i64| is_set.then_some(value);
        Ok(Self {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: known(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
            num_allocs: known(args.num_allocs_is_set, args.num_allocs),
            largest_alloc_size: known(args.largest_alloc_size_is_set, args.largest_alloc_size),
            bytes_limit: known(args.bytes_limit_is_set, args.bytes_limit),
            bytes_reserved: known(args.bytes_reserved_is_set, args.bytes_reserved),
            largest_free_block_bytes: known(
                args.largest_free_block_bytes_is_set,
                args.largest_free_block_bytes,
            ),
        })
    }
}
