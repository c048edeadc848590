//! Memories: the places where buffers are allocated.

use std::fmt;

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::client::Client;
use crate::device::PjrtDevice;
use crate::error::Result;
use crate::plugin::Plugin;

/// A memory of a client, for instance a device's own memory or the host memory that it can access.
#[derive(Clone, PartialEq, Eq)]
pub struct Memory {
    client: Client,
    index: usize,
}

/// The immutable properties of a memory.
pub(crate) struct MemoryData {
    pub(crate) memory: Handle<sys::PJRT_Memory>,
    id: i32,
    kind: String,
    kind_id: i32,
    debug_string: String,
    devices: Vec<Handle<sys::PJRT_Device>>,
}

impl Memory {
    pub(crate) fn new(client: &Client, index: usize) -> Self {
        Self { client: client.clone(), index }
    }

    fn data(&self) -> &MemoryData {
        self.client.memory_data(self.index)
    }

    /// Returns the client that the memory belongs to.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the memory's id.
    pub fn id(&self) -> i32 {
        self.data().id
    }

    /// Returns the kind: `device`, `pinned_host`, `unpinned_host`, or another kind of the platform.
    pub fn kind(&self) -> &str {
        &self.data().kind
    }

    /// Returns the kind as a number, which is equal in all processes.
    pub fn kind_id(&self) -> i32 {
        self.data().kind_id
    }

    /// Returns a short description of the memory.
    pub fn debug_string(&self) -> &str {
        &self.data().debug_string
    }

    /// Returns the devices that can access the memory.
    pub fn devices(&self) -> Vec<PjrtDevice> {
        let devices = self.data().devices.iter();
        devices
            .filter_map(|device| self.client.device_index(device.as_ptr()).ok())
            .map(|index| PjrtDevice::new(&self.client, index))
            .collect()
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_Memory {
        self.data().memory.as_ptr()
    }
}

impl MemoryData {
    /// # Safety
    /// `memory` is alive.
    pub(crate) unsafe fn query(plugin: Plugin, memory: *mut sys::PJRT_Memory) -> Result<Self> {
        let handle = api::expect(memory, "memory")?;
        let mut id = sys::PJRT_Memory_Id_Args::new();
        let mut kind = sys::PJRT_Memory_Kind_Args::new();
        let mut kind_id = sys::PJRT_Memory_Kind_Id_Args::new();
        let mut debug = sys::PJRT_Memory_DebugString_Args::new();
        let mut devices = sys::PJRT_Memory_AddressableByDevices_Args::new();
        id.memory = memory;
        kind.memory = memory;
        kind_id.memory = memory;
        debug.memory = memory;
        devices.memory = memory;
        // SAFETY: the memory is alive, and the returned data lives as long as the memory; this
        // function copies the data.
        unsafe {
            plugin.call(&mut id)?;
            plugin.call(&mut kind)?;
            plugin.call(&mut kind_id)?;
            plugin.call(&mut debug)?;
            plugin.call(&mut devices)?;
            let devices = api::slice(devices.devices, devices.num_devices);
            Ok(Self {
                memory: handle,
                id: id.id,
                kind: api::string(kind.kind, kind.kind_size),
                kind_id: kind_id.kind_id,
                debug_string: api::string(debug.debug_string, debug.debug_string_size),
                devices: devices.iter().filter_map(|&device| Handle::new(device)).collect(),
            })
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("id", &self.id()).field("kind", &self.kind()).finish()
    }
}
