//! Copying batches to the device.

use super::autotune::Parallelism;
use super::map::Map;
use crate::core::{Array, Error, HostArray, Loc, NamedSharding};
use crate::data::instruments::Work;
use crate::data::record::Record;
use crate::data::stream::Stream;
use crate::parallel::with_default_sharding;
use std::collections::BTreeMap;

/// A batch on the host that can be copied to the device: an array, a tuple or [`Record`] of arrays,
/// or a user-defined type.
#[doc(alias = "device_put")]
pub trait ToDevice {
    /// The batch on the device.
    type Device;
    /// Copies the batch to the default device.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if it cannot be copied.
    fn to_device(self) -> Result<Self::Device, Error>;
}

impl ToDevice for HostArray {
    type Device = Array;
    fn to_device(self) -> Result<Array, Error> {
        Array::from_bytes(self.as_bytes(), self.dtype(), self.shape())
    }
}

impl ToDevice for Record {
    type Device = BTreeMap<String, Array>;
    fn to_device(self) -> Result<BTreeMap<String, Array>, Error> {
        let fields = self.into_fields().into_iter();
        fields.map(|(name, array)| Ok((name, array.to_device()?))).collect()
    }
}

impl<A: ToDevice, B: ToDevice> ToDevice for (A, B) {
    type Device = (A::Device, B::Device);
    fn to_device(self) -> Result<Self::Device, Error> {
        Ok((self.0.to_device()?, self.1.to_device()?))
    }
}

impl<A: ToDevice, B: ToDevice, C: ToDevice> ToDevice for (A, B, C) {
    type Device = (A::Device, B::Device, C::Device);
    fn to_device(self) -> Result<Self::Device, Error> {
        Ok((self.0.to_device()?, self.1.to_device()?, self.2.to_device()?))
    }
}

/// Options of [`Stream::to_device_with`].
#[derive(Clone, Debug, Default)]
pub struct ToDeviceOptions {
    /// Sharding of every array of a batch. By default arrays are copied to the default device.
    pub sharding: Option<NamedSharding>,
}

impl<T: ToDevice + Send + 'static> Stream<T>
where
    T::Device: Send + 'static,
{
    /// Copies batches to the device and keeps `depth` of them ready: while the program computes on
    /// one, a thread prepares the next. A depth of two to four is sufficient unless batches vary in
    /// cost; [`Parallelism::Auto`] chooses it.
    ///
    /// [`to_device_with`](Stream::to_device_with) shards them over a mesh.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use data::{HostArray, Source, Synthetic};
    /// let images = Synthetic::new(60_000, |_| HostArray::from_slice(&[0.5f32; 784], [784]));
    /// for batch in images.stream().batch(128).to_device(2) {
    ///     let batch: Array = batch?;
    ///     batch.expect_shape([128, 784]);
    /// }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "MpDeviceLoader")]
    #[doc(alias = "ParallelLoader")]
    #[doc(alias = "prefetch_to_device")]
    #[track_caller]
    pub fn to_device(self, depth: impl Into<Parallelism>) -> Stream<T::Device> {
        self.to_device_with(depth, ToDeviceOptions::default())
    }

    /// Copies batches to the device with options, such as a sharding for all arrays of a batch.
    /// With several processes, a batch is this process's part of larger arrays:
    /// [`make_array_from_process_local_data`](crate::parallel::make_array_from_process_local_data)
    /// has the rule.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// use data::{HostArray, Source, Synthetic, ToDeviceOptions};
    /// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
    /// let images = Synthetic::new(60_000, |_| HostArray::from_slice(&[0.5f32; 784], [784]));
    /// let options = ToDeviceOptions { sharding: Some(rows.clone()) };
    /// for batch in images.stream().batch(128).to_device_with(2, options) {
    ///     let batch: Array = batch?;
    ///     assert_eq!(batch.sharding(), Some(rows.clone()));
    /// }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "per_device_loader")]
    #[track_caller]
    pub fn to_device_with(
        self,
        depth: impl Into<Parallelism>,
        options: ToDeviceOptions,
    ) -> Stream<T::Device> {
        let ToDeviceOptions { sharding } = options;
        let loc = Loc::caller();
        let copied = self.through(|upstream, instruments| Map {
            upstream,
            f: move |batch: T| {
                loc.scope(|| match &sharding {
                    Some(sharding) => with_default_sharding(sharding, || batch.to_device()),
                    None => batch.to_device(),
                })
            },
            meter: instruments.stage("to_device", Work::Transfer, 1),
        });
        copied.prefetch_named("to_device", depth.into())
    }
}
