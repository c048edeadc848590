//! From the host to the device.

use super::map::Map;
use crate::core::{Array, Error, HostArray, NamedSharding};
use crate::data::instruments::Work;
use crate::data::record::Record;
use crate::data::stream::Stream;
use crate::parallel::with_default_sharding;
use std::collections::BTreeMap;

/// A batch on the host, of which there can be one on the device: arrays, tuples and [`Record`]s of them, or a
/// type of your own.
#[doc(alias = "device_put")]
pub trait ToDevice {
    /// The batch on the device.
    type Device;
    /// Copies the batch to the default device.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if it cannot be put there.
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

impl<T: ToDevice + Send + 'static> Stream<T>
where
    T::Device: Send + 'static,
{
    /// The batches on the device, `depth` of them ahead of the program: while it computes on one, a thread
    /// reads and copies the next. Two to four are enough unless batches differ much.
    ///
    /// [`to_device_with`](Stream::to_device_with) spreads them over a mesh.
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
    #[doc(alias = "prefetch_to_device")]
    pub fn to_device(self, depth: usize) -> Stream<T::Device> {
        let moved = self.through(|above, instruments| Map {
            above,
            f: T::to_device,
            meter: instruments.stage("to_device", Work::Transfer, 1),
        });
        moved.prefetch(depth)
    }

    /// The same, each batch spread over a mesh: all its arrays are cut as `sharding` says. With several processes a batch is this
    /// process's share, and the arrays are as much larger as there are processes along the axes that cut them.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use data::{HostArray, Source, Synthetic};
    /// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
    /// let images = Synthetic::new(60_000, |_| HostArray::from_slice(&[0.5f32; 784], [784]));
    /// for batch in images.stream().batch(128).to_device_with(2, &rows) {
    ///     let batch: Array = batch?;
    ///     assert_eq!(batch.sharding(), Some(rows.clone()));
    /// }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn to_device_with(self, depth: usize, sharding: &NamedSharding) -> Stream<T::Device> {
        let sharding = sharding.clone();
        let moved = self.through(|above, instruments| Map {
            above,
            f: move |batch: T| with_default_sharding(&sharding, || batch.to_device()),
            meter: instruments.stage("to_device", Work::Transfer, 1),
        });
        moved.prefetch(depth)
    }
}
