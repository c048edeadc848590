//! Devices of the process, the default device, and the placement of arrays.

use crate::core::{
    Array, Device, Error, Kind, Loc, MemoryKind, NamedSharding, OpErrorKind, Placement, trace,
};
use crate::runtime::{
    self, CudaOptions, LiveArray, MemoryStats, PluginOptions, Shard, addressable_shards,
    placement_of,
};
#[cfg(feature = "checkpoint")]
use crate::runtime::{HostShard, host_shards};
#[cfg(feature = "checkpoint")]
use std::ops::Range;
use std::path::Path;

/// Returns the devices of the default platform, of all processes, ordered by id. [`devices_of`]
/// returns those of another platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
///
/// ```no_run
/// use oxidax::prelude::*;
/// for device in devices()? {
///     println!("{device}: {} of process {}", device.kind(), device.process_index());
/// }
/// # Ok::<(), Error>(())
/// ```
pub fn devices() -> Result<Vec<Device>, Error> {
    Ok(runtime::devices()?.to_vec())
}

/// Returns the number of devices of the default platform, of all processes.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn device_count() -> Result<usize, Error> {
    Ok(runtime::devices()?.len())
}

/// Returns the devices of the default platform that belong to this process.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn local_devices() -> Result<Vec<Device>, Error> {
    Ok(devices()?.into_iter().filter(Device::is_local).collect())
}

/// Returns the number of devices of the default platform that belong to this process.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn local_device_count() -> Result<usize, Error> {
    Ok(runtime::devices()?.iter().filter(|device| device.is_local()).count())
}

/// Returns the devices of a platform, of all processes: `cpu`, `cuda` (or `gpu`), `tpu`, or the
/// name of a [registered plugin](register_plugin). The platform's client is created on first use,
/// beside those of other platforms.
///
/// # Errors
/// `Plugin` if there is no platform of this name, no usable plugin for it, or this host has no such
/// device.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::parallel::devices_of;
/// // On a host with TPUs: load data on the CPU, and move it.
/// let cpu = &devices_of("cpu")?[0];
/// let x = with_default_device(cpu, || ones([1024, 1024]))?;
/// let y = device_put(&x, &devices()?[0])?;
/// # Ok::<(), Error>(())
/// ```
pub fn devices_of(platform: &str) -> Result<Vec<Device>, Error> {
    Ok(runtime::devices_of(platform)?.to_vec())
}

/// Returns the default platform: the one set with [`ProcessConfig::platform`], else that of the
/// variable `OXIDAX_PLATFORM`, else `tpu` or `cuda` if this host has such devices, else `cpu`.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
///
/// [`ProcessConfig::platform`]: crate::config::ProcessConfig::platform
#[doc(alias = "get_backend")]
pub fn default_backend() -> Result<String, Error> {
    runtime::platform().map(str::to_owned)
}

/// Registers a PJRT plugin, a shared library, as the platform `name`. Its devices are those of
/// [`devices_of(name)`](devices_of). Its client is created on first use, with `options`, which the
/// plugin documents.
///
/// A registration of `cpu`, `cuda` or `tpu` replaces the plugin of that platform, and `options` are
/// added to its usual ones. The variable `PJRT_NAMES_AND_LIBRARY_PATHS`, as in
/// `xpu:/opt/xpu.so,npu:/opt/npu.json`, registers plugins too; a JSON file contains `library_path`
/// and `create_options`. Registering a plugin does not make it the default platform;
/// [`ProcessConfig::platform`] does.
///
/// Loading a plugin runs its code: register only files that you trust.
///
/// # Errors
/// `Plugin` if the name is not made of 1 to 32 lower-case letters, digits, `_` and `-`; if the file
/// is not a PJRT plugin for this machine; or if the platform is in use already.
///
/// ```no_run
/// use oxidax::parallel::{PluginOptions, devices_of, register_plugin};
/// let options = PluginOptions::new().set("memory_fraction", 0.5f32);
/// register_plugin("xpu", "/opt/xpu/pjrt_plugin.so", options)?;
/// let devices = devices_of("xpu")?;
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// [`ProcessConfig::platform`]: crate::config::ProcessConfig::platform
#[doc(alias = "register_pjrt_plugin")]
pub fn register_plugin(
    name: &str,
    library: impl AsRef<Path>,
    options: PluginOptions,
) -> Result<(), Error> {
    runtime::register_plugin(name, library.as_ref(), options)
}

/// Returns the arrays in the memory of this process's devices, the largest first, with the line
/// that created each.
///
/// Tracking takes a lock when an array is created and when it is dropped, so it is off by default.
/// [`ProcessConfig::track_arrays`] or `OXIDAX_TRACK_ARRAYS=1` turns it on; arrays created before
/// are not listed. Arrays that were donated are gone.
///
/// # Errors
/// `Plugin` if arrays are not tracked.
///
/// ```
/// use oxidax::config::{self, ProcessConfig};
/// use oxidax::parallel::live_arrays;
/// use oxidax::prelude::*;
/// config::update(ProcessConfig::new().track_arrays(true))?;
/// let x = ones([32, 32]);
/// let live = live_arrays()?;
/// assert_eq!((live.len(), live[0].bytes), (1, 4096));
/// println!("{}", live[0]); // 4.0 KiB  f32[32,32]  cpu:0  at src/main.rs:5:9
/// # Ok::<(), Error>(())
/// ```
///
/// [`ProcessConfig::track_arrays`]: crate::config::ProcessConfig::track_arrays
pub fn live_arrays() -> Result<Vec<LiveArray>, Error> {
    runtime::live_arrays()
}

impl Device {
    /// Returns the use of the device's memory, in bytes; `None` if its plugin records none, as CPU
    /// plugins do.
    ///
    /// # Errors
    /// `Plugin` if it is not a device of this process; `Runtime` if the plugin fails.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// for device in local_devices()? {
    ///     if let Some(stats) = device.memory_stats()? {
    ///         println!("{device}: {} of {:?} bytes", stats.bytes_in_use, stats.bytes_limit);
    ///     }
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn memory_stats(&self) -> Result<Option<MemoryStats>, Error> {
        runtime::memory_stats(self.id())
    }

    /// Returns the memories that the device stores arrays in, its own first.
    ///
    /// # Errors
    /// `Plugin` if it is not a device of this process.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let memories = devices()?[0].addressable_memories()?;
    /// assert!(memories.contains(&MemoryKind::PinnedHost));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn addressable_memories(&self) -> Result<Vec<MemoryKind>, Error> {
        runtime::memory_kinds(self.id())
    }

    /// Returns the memory with this name: `device`, `pinned_host` or `unpinned_host`.
    ///
    /// # Errors
    /// `Op` (value) if the device has no such memory; `Plugin` if it is not a device of this
    /// process.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// assert_eq!(devices()?[0].memory("pinned_host")?, MemoryKind::PinnedHost);
    /// let error = devices()?[0].memory("disk").unwrap_err().to_string();
    /// assert!(error.contains("cpu:0 has no memory `disk`"), "{error}");
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn memory(&self, name: &str) -> Result<MemoryKind, Error> {
        let kinds = self.addressable_memories()?;
        let kind = MemoryKind::from_name(name).filter(|kind| kinds.contains(kind));
        kind.ok_or_else(|| {
            let names: Vec<&str> = kinds.into_iter().map(MemoryKind::name).collect();
            let message = format!("{self} has no memory `{name}`, only {}", names.join(", "));
            trace::op_error(OpErrorKind::Value, "memory", message, Loc::caller())
        })
    }

    /// Returns the memory of new arrays: the device's own.
    pub fn default_memory(&self) -> MemoryKind {
        MemoryKind::Device
    }
}

/// Returns the device on which new arrays are created: that of [`with_default_device`], else that
/// of [`ProcessConfig::default_device`], else the first one of this process on the default
/// platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
///
/// [`ProcessConfig::default_device`]: crate::config::ProcessConfig::default_device
#[doc(alias = "xla_device")]
pub fn default_device() -> Result<Device, Error> {
    runtime::device_by_id(runtime::default_device()?)
}

/// Runs `f` with another default device on this thread: for new arrays, and for programs without
/// committed arguments.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let last = local_devices()?.pop().expect("a process has a device");
/// let x = with_default_device(&last, || ones([3]))?;
/// assert_eq!(x.device()?, Some(last));
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.default_device")]
pub fn with_default_device<R>(device: &Device, f: impl FnOnce() -> R) -> Result<R, Error> {
    runtime::with_default_device(device.id(), f)
}

/// Sets the number of CPU devices of this process, before the first array is created. Overrides
/// `OXIDAX_CPU_DEVICES`.
///
/// # Errors
/// `Plugin` if the CPU client exists with another number, or the number is not from 1 to 1024.
///
/// ```
/// oxidax::parallel::set_cpu_devices(8)?;
/// assert_eq!(oxidax::parallel::devices()?.len(), 8);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax_num_cpu_devices")]
pub fn set_cpu_devices(count: usize) -> Result<(), Error> {
    runtime::set_cpu_devices(count)
}

/// Sets the options of the CUDA client, before the first array is created. Overrides the
/// environment variables `OXIDAX_CUDA_…`, and has no effect on other platforms.
///
/// # Errors
/// `Plugin` if the CUDA client exists, other options were set before, or a fraction of memory is
/// not above 0 and at most 1.
///
/// ```
/// use oxidax::parallel::{CudaOptions, set_cuda_options};
/// set_cuda_options(CudaOptions { memory_fraction: Some(0.9), ..CudaOptions::default() })?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn set_cuda_options(options: CudaOptions) -> Result<(), Error> {
    runtime::set_cuda_options(options)
}

impl Array {
    /// Returns the device of an array on one device; `None` if it is on a mesh, or traced.
    ///
    /// # Errors
    /// `Plugin` if there is no usable plugin.
    pub fn device(&self) -> Result<Option<Device>, Error> {
        match placement_of(self) {
            Some(Placement::Device(id)) => runtime::device_by_id(id).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the sharding of an array on a mesh; `None` if it is on one device, or traced.
    pub fn sharding(&self) -> Option<NamedSharding> {
        match placement_of(self) {
            Some(Placement::Mesh(sharding)) => Some(sharding),
            _ => None,
        }
    }

    /// Returns the memory of the array, of a traced one too.
    pub fn memory_kind(&self) -> MemoryKind {
        self.aval().memory
    }

    /// Returns the placement of the array; `None` if it is traced.
    pub fn placement(&self) -> Option<Placement> {
        placement_of(self)
    }

    /// Returns the shards on this process's devices, in mesh order, each copied into an array on
    /// its device. An array on one device is one shard; a traced array has none.
    ///
    /// # Errors
    /// `Runtime` if a shard cannot be copied.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let x = device_put(&arange(16), mesh.sharding(p!["data"])?)?;
    /// let shards = x.addressable_shards()?;
    /// assert_eq!(shards[1].data.to_vec::<i32>()?, [2, 3]);
    /// assert_eq!(shards[1].index[0], 2..4);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn addressable_shards(&self) -> Result<Vec<Shard>, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => addressable_shards(buffer, self.aval()),
            Kind::Traced { .. } => Ok(Vec::new()),
        }
    }

    /// Copies the distinct shards on this process's devices whose indices `is_wanted` accepts to
    /// the host: index ranges and bytes, in mesh order. A traced array has none.
    ///
    /// # Errors
    /// `Runtime` if the computation of the array failed.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn host_shards(
        &self,
        is_wanted: &dyn Fn(&[Range<usize>]) -> bool,
    ) -> Result<Vec<HostShard>, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => host_shards(buffer, self.aval(), is_wanted),
            Kind::Traced { .. } => Ok(Vec::new()),
        }
    }
}
