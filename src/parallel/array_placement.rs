//! Facts about the placement of arrays, and devices' numbers in their host.

use crate::core::{Array, Device, Error, HostArray, Kind, Loc, OpErrorKind, Placement, trace};
use crate::runtime::{self, placement_of};
use crate::tree::{LeafValues, Tree, leaves_of};
use std::ops::Range;

/// A shard of an array, on a device of this or of another process.
#[derive(Debug)]
pub struct GlobalShard {
    /// The device.
    pub device: Device,
    /// The indices of the array that it stores, per axis.
    pub index: Vec<Range<usize>>,
    /// The number of devices before it, in mesh order, that store the same indices.
    pub replica: usize,
    /// The elements, copied into an array on the device; `None` on a device of another process.
    pub data: Option<Array>,
}

impl Array {
    /// Returns true if all devices of the array belong to this process, so that it can be read. A
    /// traced array has no devices: false.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// assert!(ones([2]).is_fully_addressable());
    /// ```
    pub fn is_fully_addressable(&self) -> bool {
        match placement_of(self) {
            Some(Placement::Device(_)) => true,
            Some(Placement::Mesh(sharding)) => sharding.devices().iter().all(Device::is_local),
            None => false,
        }
    }

    /// Returns true if every device of the array stores all of it. A traced array has no devices:
    /// false.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let x = device_put(&ones([8]), mesh.sharding(p!["data"])?)?;
    /// assert!(!x.is_fully_replicated() && ones([8]).is_fully_replicated());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn is_fully_replicated(&self) -> bool {
        match placement_of(self) {
            Some(Placement::Device(_)) => true,
            Some(Placement::Mesh(sharding)) => sharding.is_replicated(),
            None => false,
        }
    }

    /// Returns true if the array was placed explicitly, by `device_put` or as the result of a
    /// program with such an argument. Programs run where their committed arguments are; others are
    /// moved there. A traced array is not committed.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = ones([2]);
    /// assert!(!x.is_committed());
    /// assert!(device_put(&x, &devices()?[0])?.is_committed());
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "committed")]
    pub fn is_committed(&self) -> bool {
        runtime::committed_placement(self).is_some()
    }

    /// Returns the shard on this process's device number `index`, in mesh order, copied into an
    /// array on its device.
    ///
    /// # Errors
    /// `Op` (value) if there is no such shard, or the array is traced; `Runtime`.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 8)])?;
    /// let x = device_put(&arange(16), mesh.sharding(p!["data"])?)?;
    /// assert_eq!(x.addressable_data(3)?.to_vec::<i32>()?, [6, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addressable_data(&self, index: usize) -> Result<Array, Error> {
        let loc = Loc::caller();
        let mut shards = self.addressable_shards()?;
        if index < shards.len() {
            return Ok(shards.swap_remove(index).data);
        }
        let message = match self.is_traced() {
            true => format!("{} is traced: it has no shards", self.aval()),
            false => format!("shard {index} of {} on this process's devices", shards.len()),
        };
        Err(trace::op_error(OpErrorKind::Value, "addressable_data", message, loc))
    }

    /// Returns the shards on all devices, in mesh order; those of other processes without data. A
    /// traced array has none.
    ///
    /// # Errors
    /// `Runtime` if a shard cannot be copied.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// let x = device_put(&arange(16), mesh.sharding(p!["data"])?)?;
    /// let shards = x.global_shards()?;
    /// assert_eq!((shards.len(), shards[3].replica), (8, 1));
    /// assert_eq!(shards[3].index[0], 4..8);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn global_shards(&self) -> Result<Vec<GlobalShard>, Error> {
        let mut local = self.addressable_shards()?.into_iter().peekable();
        let Some(Placement::Mesh(sharding)) = placement_of(self) else {
            let whole = local.map(|shard| GlobalShard {
                device: shard.device,
                index: shard.index,
                replica: shard.replica,
                data: Some(shard.data),
            });
            return Ok(whole.collect());
        };
        let mut shards: Vec<GlobalShard> = Vec::with_capacity(sharding.devices().len());
        for (ordinal, device) in sharding.devices().iter().enumerate() {
            let index = sharding.part(ordinal, self.shape());
            let replica = shards.iter().filter(|shard| shard.index == index).count();
            let data = local.next_if(|shard| shard.device.id() == device.id());
            let data = data.map(|shard| shard.data);
            shards.push(GlobalShard { device: device.clone(), index, replica, data });
        }
        Ok(shards)
    }

    /// Returns the bytes that the array takes on its devices together. Devices pack small types,
    /// and layouts may add padding; `aval().bytes()` is the size of the elements.
    ///
    /// # Errors
    /// `Op` (value) if the array is traced; `Runtime` if the plugin does not report sizes, or the
    /// array was donated.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// assert_eq!(ones([32, 4]).on_device_size_in_bytes()?, 512);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn on_device_size_in_bytes(&self) -> Result<usize, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => runtime::on_device_bytes(buffer),
            Kind::Traced { .. } => {
                let message = format!("{} is traced: it has no memory", self.aval());
                let loc = Loc::caller();
                Err(trace::op_error(OpErrorKind::Value, "on_device_size_in_bytes", message, loc))
            }
        }
    }
}

impl Device {
    /// Returns the number of the device among those of its host, as the driver counts them; `None`
    /// for a device of another process.
    ///
    /// # Errors
    /// `Plugin` if its platform is not in use.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// assert_eq!(devices()?[0].local_hardware_id()?, Some(0));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn local_hardware_id(&self) -> Result<Option<i32>, Error> {
        match self.is_local() {
            true => runtime::local_hardware_id(self.id()),
            false => Ok(None),
        }
    }
}

/// Copies all arrays of a tree to the host: one [`HostArray`] per leaf. The copies of all leaves
/// run side by side.
///
/// Throws `Tracer` if a leaf is traced.
///
/// # Errors
/// `Runtime` if a computation failed, or an array was donated.
///
/// ```
/// use oxidax::prelude::*;
/// let metrics = (scalar(0.5), vec![arange(3)]);
/// let host = device_get(&metrics)?;
/// assert_eq!(host["[0]"].to_vec::<f32>()?, [0.5]);
/// assert_eq!(host["[1][0]"].to_vec::<i32>()?, [0, 1, 2]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.device_get")]
#[track_caller]
pub fn device_get<T: Tree>(tree: &T) -> Result<LeafValues<T, HostArray>, Error> {
    let leaves = leaves_of(tree);
    Loc::caller().scope(|| {
        for leaf in leaves.iter().filter(|leaf| !leaf.is_traced()) {
            leaf.copy_to_host_async()?;
        }
        let read: Result<Vec<HostArray>, Error> = leaves.iter().map(Array::to_host).collect();
        Ok(LeafValues::new(tree, read?))
    })
}
