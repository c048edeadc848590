//! Topologies: existing or hypothetical devices to compile for.

use std::fmt;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::client::Client;
use crate::compile_options::CompileOptions;
use crate::device::DeviceDescription;
use crate::error::{Error, Result};
use crate::executable::{Executable, raw_program};
use crate::mosaic_gpu;
use crate::named_value::NamedValue;
use crate::plugin::Plugin;
use crate::program::PjrtProgram;
use crate::serialize::take_bytes;

/// A set of devices that programs can be compiled for. Clones share it.
#[derive(Clone)]
pub struct TopologyDescription(Arc<Inner>);

struct Inner {
    plugin: Plugin,
    topology: Handle<sys::PJRT_TopologyDescription>,
    /// The client that owns the topology; `None` if this object owns it.
    client: Option<Client>,
}

impl TopologyDescription {
    /// Returns a topology by its name, such as libtpu's `v5e:4x4`. The CPU plugins have no named
    /// topologies; see [`Client::topology`].
    ///
    /// # Errors
    /// [`Error::Status`] if the plugin does not know the name or has no named topologies.
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Plugin, TopologyDescription};
    /// let libtpu = Plugin::load("libtpu.so".as_ref())?;
    /// let topology = TopologyDescription::named(libtpu, "v5e:4x4", &[])?;
    /// println!("{} devices", topology.devices()?.len()); // 16 devices
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn named(plugin: Plugin, name: &str, options: &[NamedValue]) -> Result<Self> {
        crate::xla_flags::check(plugin)?;
        let raw: Vec<_> = options.iter().map(NamedValue::to_raw).collect();
        let mut args = sys::PJRT_TopologyDescription_Create_Args::new();
        args.topology_name = name.as_ptr().cast();
        args.topology_name_size = name.len();
        args.create_options = raw.as_ptr();
        args.num_options = raw.len();
        // SAFETY: name and options are borrowed for the call; the caller owns the topology.
        unsafe {
            plugin.call(&mut args)?;
            Self::from_owned(plugin, args.topology)
        }
    }

    /// Creates a topology from the bytes of [`serialize`](Self::serialize).
    ///
    /// # Errors
    /// [`Error::Status`] if the bytes are not a topology; [`Error::Missing`].
    pub fn deserialize(plugin: Plugin, bytes: &[u8]) -> Result<Self> {
        let mut args = sys::PJRT_TopologyDescription_Deserialize_Args::new();
        args.serialized_topology = bytes.as_ptr().cast();
        args.serialized_topology_size = bytes.len();
        // SAFETY: the bytes are borrowed for the call; the caller owns the topology.
        unsafe {
            plugin.call(&mut args)?;
            Self::from_owned(plugin, args.topology)
        }
    }

    /// # Safety
    /// `topology` came from this plugin, and no other code destroys it.
    unsafe fn from_owned(
        plugin: Plugin,
        topology: *mut sys::PJRT_TopologyDescription,
    ) -> Result<Self> {
        let topology = api::expect(topology, "topology")?;
        Ok(Self(Arc::new(Inner { plugin, topology, client: None })))
    }

    /// # Safety
    /// `topology` belongs to `client`.
    pub(crate) unsafe fn from_client(
        client: &Client,
        topology: *mut sys::PJRT_TopologyDescription,
    ) -> Result<Self> {
        let topology = api::expect(topology, "topology")?;
        let plugin = client.plugin();
        Ok(Self(Arc::new(Inner { plugin, topology, client: Some(client.clone()) })))
    }

    /// Returns the plugin of the topology.
    pub fn plugin(&self) -> Plugin {
        self.0.plugin
    }

    /// Returns the platform name: `cpu`, `cuda`, `tpu`.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn platform_name(&self) -> Result<String> {
        let mut args = sys::PJRT_TopologyDescription_PlatformName_Args::new();
        args.topology = self.0.topology.as_ptr();
        // SAFETY: the topology is alive, and the string is copied.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(api::string(args.platform_name, args.platform_name_size))
        }
    }

    /// Returns the platform's version, as the plugin describes it.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn platform_version(&self) -> Result<String> {
        let mut args = sys::PJRT_TopologyDescription_PlatformVersion_Args::new();
        args.topology = self.0.topology.as_ptr();
        // SAFETY: the topology is alive, and the string is copied.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(api::string(args.platform_version, args.platform_version_size))
        }
    }

    /// Returns the devices, in the plugin's order.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn devices(&self) -> Result<Vec<DeviceDescription>> {
        let descriptions = self.device_descriptions()?.iter();
        let descriptions = descriptions.map(|&description| {
            let description = api::expect(description, "device description")?;
            // SAFETY: the description lives as long as the topology.
            unsafe { DeviceDescription::query(self.plugin(), description) }
        });
        descriptions.collect()
    }

    fn device_descriptions(&self) -> Result<&[*mut sys::PJRT_DeviceDescription]> {
        let mut args = sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args::new();
        args.topology = self.0.topology.as_ptr();
        // SAFETY: the topology is alive, and its list of devices lives as long as the topology.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(api::slice(args.descriptions, args.num_descriptions))
        }
    }

    /// Returns the plugin's attributes of the topology.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn attributes(&self) -> Result<Vec<NamedValue>> {
        let mut args = sys::PJRT_TopologyDescription_Attributes_Args::new();
        args.topology = self.0.topology.as_ptr();
        // SAFETY: the topology is alive, and so are its attributes.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(NamedValue::list(args.attributes, args.num_attributes))
        }
    }

    /// Serializes the topology. [`deserialize`](Self::deserialize) restores it.
    ///
    /// # Errors
    /// [`Error::Status`], with `UNIMPLEMENTED` if the plugin does not support it.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = sys::PJRT_TopologyDescription_Serialize_Args::new();
        args.topology = self.0.topology.as_ptr();
        // SAFETY: the topology is alive; the bytes are copied before their owner is deleted, once.
        unsafe {
            self.plugin().call(&mut args)?;
            let deleter = args.serialized_topology_deleter;
            Ok(take_bytes(
                (args.serialized_bytes, args.serialized_bytes_size),
                (args.serialized_topology, deleter),
            ))
        }
    }

    /// Compiles a program for these devices, without accessing any. The result can be analyzed and
    /// serialized. To run it, a client with such devices [loads](Client::load) the serialized
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Status`] with the compiler's message; [`Error::Invalid`] for options that do not
    /// fit the topology.
    pub fn compile(&self, program: &PjrtProgram, options: &CompileOptions) -> Result<Executable> {
        let available = self.device_descriptions()?.len();
        let needed = options.num_replicas.saturating_mul(options.num_partitions);
        if needed > available {
            let message =
                format!("the program needs {needed} devices, the topology has {available}");
            return Err(Error::invalid("compile for topology", message));
        }
        self.check_assignment(options)?;
        let encoded = options.encode()?;
        let raw_program = raw_program(program);
        let mut args = sys::PJRT_Compile_Args::new();
        args.topology = self.0.topology.as_ptr();
        args.program = &raw const raw_program;
        args.compile_options = encoded.as_ptr().cast();
        args.compile_options_size = encoded.len();
        args.client = self.0.client.as_ref().map_or(std::ptr::null_mut(), Client::as_ptr);
        // SAFETY: topology, program and options are alive for the call; the client is the
        // topology's client or null.
        let call = || unsafe { self.plugin().call(&mut args) };
        let attributes = || {
            let first = self.devices()?.into_iter().next();
            Ok(first.map(|device| device.attributes).unwrap_or_default())
        };
        mosaic_gpu::with_runtime(self.plugin(), program, attributes, call)?;
        // SAFETY: the caller owns the executable, which came from this plugin and client.
        unsafe { Executable::from_raw(self.plugin(), self.0.client.as_ref(), args.executable) }
    }

    fn check_assignment(&self, options: &CompileOptions) -> Result<()> {
        let Some(rows) = &options.device_assignment else { return Ok(()) };
        let devices = self.devices()?;
        let is_known = |id: i64| devices.iter().any(|device| i64::from(device.id) == id);
        match rows.iter().flatten().find(|&&id| !is_known(id)) {
            Some(id) => {
                let message = format!("no device of the topology has id {id}");
                Err(Error::invalid("compile for topology", message))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.client.is_some() {
            return;
        }
        let mut args = sys::PJRT_TopologyDescription_Destroy_Args::new();
        args.topology = self.topology.as_ptr();
        // SAFETY: this is the last handle, and it owns the topology.
        unsafe { self.plugin.release(&mut args) }
    }
}

impl fmt::Debug for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopologyDescription")
            .field("platform", &self.platform_name().ok())
            .field("devices", &self.device_descriptions().map(<[_]>::len).ok())
            .finish_non_exhaustive()
    }
}
