//! Devices of the process, the default device, and the placement of arrays.

use crate::core::{Array, Device, Error, Kind, NamedSharding, Placement};
use crate::runtime::{self, CudaOptions, Shard, addressable_shards, placement_of};
#[cfg(feature = "checkpoint")]
use crate::runtime::{HostShard, host_shards};
#[cfg(feature = "checkpoint")]
use std::ops::Range;

/// Returns the devices of all processes, ordered by id.
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

/// Returns the devices of this process.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn local_devices() -> Result<Vec<Device>, Error> {
    Ok(devices()?.into_iter().filter(Device::is_local).collect())
}

/// Returns the devices of a platform: `cpu`, `cuda` or `tpu`. A process has one platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin, or it is another platform's.
pub fn devices_of(platform: &str) -> Result<Vec<Device>, Error> {
    let current = runtime::platform()?;
    if current != platform {
        return Err(Error::Plugin(format!(
            "there are no {platform} devices: this process runs on {current}; \
             `OXIDAX_PLATFORM={platform}` chooses another"
        )));
    }
    devices()
}

/// Returns the device on which new arrays are created.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn default_device() -> Result<Device, Error> {
    runtime::device_by_id(runtime::default_device()?)
}

/// Runs `f` with another default device on this thread: for new arrays, and for programs without
/// committed arguments.
///
/// # Errors
/// `Plugin` if it is not a device of this process.
///
/// ```no_run
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
/// ```no_run
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
    /// ```no_run
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
