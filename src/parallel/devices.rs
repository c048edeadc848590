//! Which devices there are, and where arrays lie.

use crate::core::{Array, Device, Error, Kind, NamedSharding};
use crate::runtime::{self, CudaOptions, Home, Shard, home_of, shards_of};

/// The devices of all processes, in the order of their numbers.
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

/// This process's own devices.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn local_devices() -> Result<Vec<Device>, Error> {
    Ok(devices()?.into_iter().filter(Device::is_local).collect())
}

/// The devices of a platform: `cpu`, `cuda` or `tpu`. A process has one platform; another is never fallen back to.
///
/// # Errors
/// `Plugin` if there is no usable plugin, or it is another platform's.
pub fn devices_of(platform: &str) -> Result<Vec<Device>, Error> {
    let own = runtime::platform()?;
    if own != platform {
        let message = format!(
            "there are no {platform} devices: this process runs on {own}; `OXIDAX_PLATFORM={platform}` chooses another"
        );
        return Err(Error::Plugin(message));
    }
    devices()
}

/// The device that arrays are made on where nothing else is said.
///
/// # Errors
/// `Plugin` if there is no usable plugin.
pub fn default_device() -> Result<Device, Error> {
    runtime::device_of(runtime::default_device()?)
}

/// Runs `f` with arrays made on this device, and programs run there whose arguments nobody put elsewhere, on this thread.
///
/// # Errors
/// `Plugin` if the device is not one of this process's.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let last = local_devices()?.pop().expect("there is one at least");
/// let x = with_default_device(&last, || ones([3], DType::F32))?;
/// assert_eq!(x.device()?, Some(last));
/// # Ok::<(), Error>(())
/// ```
pub fn with_default_device<R>(device: &Device, f: impl FnOnce() -> R) -> Result<R, Error> {
    runtime::with_default_device(device.id(), f)
}

/// Says how many devices the CPU shows in this process, before the first array is made. It goes over `OXIDAX_CPU_DEVICES`.
///
/// # Errors
/// `Plugin` if the CPU shows another number already, or the number is not from 1 to 1024.
///
/// ```no_run
/// oxidax::parallel::set_cpu_devices(8)?;
/// assert_eq!(oxidax::parallel::devices()?.len(), 8);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn set_cpu_devices(count: usize) -> Result<(), Error> {
    runtime::set_cpu_devices(count)
}

/// Says how GPUs are used in this process, before the first array is made. It goes over the environment's `OXIDAX_CUDA_…`, and has
/// no effect on other platforms.
///
/// # Errors
/// `Plugin` if GPUs are used already, other options were set before, or a share of memory is not above 0 and at most 1.
///
/// ```
/// use oxidax::parallel::{CudaOptions, set_cuda_options};
/// set_cuda_options(CudaOptions { memory_fraction: Some(0.9), ..CudaOptions::default() })?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn set_cuda_options(options: CudaOptions) -> Result<(), Error> {
    runtime::set_cuda_options(options)
}

/// Where an array lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// On one device.
    #[doc(alias = "SingleDeviceSharding")]
    Device(Device),
    /// Spread over a mesh.
    Named(NamedSharding),
}

impl Sharding {
    /// How it is cut, for an array on a mesh.
    pub fn named(&self) -> Option<&NamedSharding> {
        match self {
            Sharding::Device(_) => None,
            Sharding::Named(sharding) => Some(sharding),
        }
    }

    /// The devices that have some of it.
    pub fn devices(&self) -> &[Device] {
        match self {
            Sharding::Device(device) => std::slice::from_ref(device),
            Sharding::Named(sharding) => sharding.devices(),
        }
    }
}

impl std::fmt::Display for Sharding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sharding::Device(device) => device.fmt(f),
            Sharding::Named(sharding) => sharding.fmt(f),
        }
    }
}

impl Array {
    /// The one device that has the array; `None` if it is spread over a mesh, or traced.
    ///
    /// # Errors
    /// `Plugin` if there is no usable plugin.
    pub fn device(&self) -> Result<Option<Device>, Error> {
        match home_of(self) {
            Some(Home::Device(id)) => runtime::device_of(id).map(Some),
            _ => Ok(None),
        }
    }

    /// How the array lies on a mesh; `None` if it is on one device, or traced.
    pub fn sharding(&self) -> Option<NamedSharding> {
        match home_of(self) {
            Some(Home::Mesh(sharding)) => Some(sharding),
            _ => None,
        }
    }

    /// Where the array lies, on one device or on a mesh; `None` if it is traced.
    ///
    /// # Errors
    /// `Plugin` if there is no usable plugin.
    pub fn placement(&self) -> Result<Option<Sharding>, Error> {
        Ok(match home_of(self) {
            Some(Home::Device(id)) => Some(Sharding::Device(runtime::device_of(id)?)),
            Some(Home::Mesh(sharding)) => Some(Sharding::Named(sharding)),
            None => None,
        })
    }

    /// The parts of the array on this process's devices, in the order of its mesh, each an array of its own on its device.
    /// An array on one device is one part; a traced one has none.
    ///
    /// # Errors
    /// `Runtime` if a part cannot be copied.
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
            Kind::Concrete(buffer) => shards_of(buffer, self.aval()),
            Kind::Traced { .. } => Ok(Vec::new()),
        }
    }
}
