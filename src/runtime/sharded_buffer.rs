//! [`ShardedBuffer`]: the shards of an array on the devices of a mesh.

use super::client::runtime_error;
use super::device_buffer::DeviceBuffer;
use super::host_copy::HostCopyCell;
use super::layouts::{in_default_layout, read_in_layout};
use super::live_arrays::Tracked;
use super::placement::{device_by_id, shards, single_device};
use super::stalls::{self, Produced};
use super::transfer::copy_between;
use crate::core::host_function::refuse_inside;
use crate::core::{Array, Aval, Buffer, Device, Error, Layout, Loc, NamedSharding, Placement};
use oxidax_pjrt::{Event, UniqueBuffer};
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The shards of one array on this process's devices.
#[derive(Debug)]
pub(super) struct ShardedBuffer {
    sharding: NamedSharding,
    aval: Arc<Aval>,
    /// In mesh order, without devices of other processes.
    buffers: Vec<UniqueBuffer>,
    /// The execution that produces them, if a program does.
    launch: Option<Arc<Launch>>,
    tracked: Tracked,
    /// One for each of `buffers`, once a copy to the host was started.
    host_copies: OnceLock<Box<[HostCopyCell]>>,
    /// The order of the elements of each shard, if it is not the devices' default.
    pub(super) layout: Option<Arc<Layout>>,
}

/// An execution on several devices, shared by its results. Waiting for one event per buffer would
/// cost more than the rest of the call.
#[derive(Debug)]
pub(super) struct Launch {
    events: Vec<Event>,
    done: AtomicBool,
    produced: Produced,
}

impl Launch {
    pub(super) fn new(events: Vec<Event>, produced: Produced) -> Launch {
        Launch { events, done: AtomicBool::new(false), produced }
    }

    /// Returns an event for each device of this process, which completes when the device has
    /// finished.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of devices of this process that have not finished.
    pub(super) fn unfinished_devices(&self) -> usize {
        if self.done.load(Ordering::Acquire) {
            return 0;
        }
        // A device whose state the plugin does not tell counts as finished.
        let unfinished = |event: &&Event| event.is_ready().is_ok_and(|is_ready| !is_ready);
        self.events.iter().filter(unfinished).count()
    }

    /// Waits until all devices have finished. Returns true if all succeeded; the buffers report
    /// errors themselves.
    fn wait(&self) -> bool {
        if self.done.load(Ordering::Acquire) {
            return true;
        }
        let succeeded = self.events.iter().all(|event| event.wait().is_ok());
        self.done.store(succeeded, Ordering::Release);
        succeeded
    }
}

/// The part of an array that one device stores.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The device.
    pub device: Device,
    /// The range of the array's indices along each axis.
    pub index: Vec<Range<usize>>,
    /// 0 for the first device with these indices, counting up for copies of them.
    #[doc(alias = "replica_id")]
    pub replica: usize,
    /// The elements, on this device.
    pub data: Array,
}

impl ShardedBuffer {
    pub(super) fn new(
        sharding: NamedSharding,
        aval: Arc<Aval>,
        buffers: Vec<UniqueBuffer>,
    ) -> ShardedBuffer {
        let tracked = Tracked::new(&aval, || Placement::Mesh(sharding.clone()));
        let host_copies = OnceLock::new();
        let (launch, layout) = (None, None);
        ShardedBuffer { sharding, aval, buffers, launch, tracked, host_copies, layout }
    }

    /// Records the order of the elements of each shard, if it is not the devices' default.
    pub(super) fn with_layout(self, layout: Option<Arc<Layout>>) -> ShardedBuffer {
        ShardedBuffer { layout, ..self }
    }

    /// Marks the shards as results of an execution that may still be running.
    pub(super) fn produced_by(self, launch: Arc<Launch>) -> ShardedBuffer {
        ShardedBuffer { launch: Some(launch), ..self }
    }

    pub(super) fn sharding(&self) -> &NamedSharding {
        &self.sharding
    }

    pub(super) fn buffers(&self) -> &[UniqueBuffer] {
        &self.buffers
    }

    /// Removes the shards from the list of live arrays, because they were donated.
    pub(super) fn release_donated(&self) {
        self.tracked.release();
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.buffers.iter().any(UniqueBuffer::is_deleted)
    }

    /// Iterates over the local shards: ordinal of the device, index ranges, buffer.
    fn shards(&self) -> impl Iterator<Item = (usize, Vec<Range<usize>>, &UniqueBuffer)> {
        let devices = self.sharding.devices().iter().enumerate();
        let local = devices.filter(|(_, device)| device.is_local());
        local.zip(&self.buffers).map(|((ordinal, _), buffer)| {
            (ordinal, self.sharding.part(ordinal, &self.aval.shape), buffer)
        })
    }

    /// Returns each distinct shard once, with the position of the first buffer that holds it.
    fn distinct_shards(&self) -> Vec<(Vec<Range<usize>>, usize)> {
        let indices = self.shards().map(|(_, index, _)| index).enumerate();
        if self.sharding.is_replicated() {
            return indices.take(1).map(|(at, index)| (index, at)).collect();
        }
        let mut seen = rustc_hash::FxHashSet::default();
        let mut distinct = Vec::new();
        for (at, index) in indices {
            if seen.insert(index.clone()) {
                distinct.push((index, at));
            }
        }
        distinct
    }

    /// Reads the buffer at a position, or the copy that was started.
    fn read_shard(&self, at: usize, dst: &mut [u8]) -> Result<(), Error> {
        let copy = self.host_copies.get().and_then(|copies| copies.get(at));
        let read = match (&self.layout, copy) {
            (Some(layout), _) => read_in_layout(&self.buffers[at], layout, dst),
            (None, Some(copy)) => copy.read(&self.buffers[at], dst),
            (None, None) => self.buffers[at].to_host(dst),
        };
        read.map_err(|error| runtime_error("reading an array", &error))
    }

    fn refuse_remote(&self) -> Result<(), Error> {
        if self.sharding.is_replicated() || self.sharding.mesh().is_local() {
            return Ok(());
        }
        Err(Error::Runtime {
            doing: format!("reading {} with sharding {}", self.aval, self.sharding),
            code: None,
            loc: Loc::UNKNOWN,
            message: "some shards are on devices of other processes".into(),
            help: Some(
                "read `addressable_shards()`, or replicate it with `jit`: \
                 `.out_shardings(mesh.replicated())`"
                    .into(),
            ),
        })
    }
}

impl Buffer for ShardedBuffer {
    fn read(&self, dst: &mut [u8]) -> Result<(), Error> {
        refuse_inside("reading an array")?;
        self.refuse_remote()?;
        let element_bytes = self.aval.dtype.host_bytes();
        for (index, at) in self.distinct_shards() {
            let size: usize = index.iter().map(Range::len).product();
            if size == self.aval.size() {
                return self.read_shard(at, dst);
            }
            let mut bytes = vec![0; size * element_bytes];
            self.read_shard(at, &mut bytes)?;
            self.aval.shape.write_slice(&index, element_bytes, &bytes, dst);
        }
        Ok(())
    }
    fn note_read(&self, loc: Loc) {
        let produced = self.launch.as_ref().map(|launch| launch.produced);
        stalls::note(loc, produced, || self.is_ready().unwrap_or(true));
    }
    fn copy_to_host_async(&self) -> Result<(), Error> {
        refuse_inside("copying an array")?;
        if self.layout.is_some() {
            // The elements are put in order when they are read.
            return Ok(());
        }
        let copies = self
            .host_copies
            .get_or_init(|| self.buffers.iter().map(|_| HostCopyCell::default()).collect());
        self.distinct_shards()
            .into_iter()
            .try_for_each(|(_, at)| copies[at].start(&self.buffers[at]))
    }
    fn ready(&self) -> Result<(), Error> {
        refuse_inside("waiting for an array")?;
        if self.launch.as_ref().is_some_and(|launch| launch.wait()) {
            return Ok(());
        }
        let failed = |error| runtime_error("waiting for an array", &error);
        self.buffers.iter().try_for_each(|buffer| buffer.wait().map_err(failed))
    }
    fn is_ready(&self) -> Result<bool, Error> {
        let failed = |error| runtime_error("checking if an array is ready", &error);
        for buffer in &self.buffers {
            if !buffer.ready_event().and_then(|event| event.is_ready()).map_err(failed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The range of a shard's indices along each axis, and its bytes on the host.
#[cfg(feature = "checkpoint")]
pub(crate) type HostShard = (Vec<Range<usize>>, Vec<u8>);

/// Copies the distinct local shards of an array whose indices `is_wanted` accepts to the host, in
/// mesh order. An array on one device is one shard.
///
/// # Errors
/// `Runtime`.
#[cfg(feature = "checkpoint")]
pub(crate) fn host_shards(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    is_wanted: &dyn Fn(&[Range<usize>]) -> bool,
) -> Result<Vec<HostShard>, Error> {
    refuse_inside("reading an array")?;
    let element_bytes = aval.dtype.host_bytes();
    if single_device(buffer).is_some() {
        let index: Vec<Range<usize>> = aval.shape.iter().map(|&size| 0..size).collect();
        if !is_wanted(&index) {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; aval.size() * element_bytes];
        buffer.read(&mut bytes)?;
        return Ok(vec![(index, bytes)]);
    }
    let sharded = shards(buffer);
    let distinct = sharded.distinct_shards().into_iter();
    let wanted = distinct.filter(|(index, _)| is_wanted(index)).map(|(index, at)| {
        let mut bytes = vec![0; index.iter().map(Range::len).product::<usize>() * element_bytes];
        sharded.read_shard(at, &mut bytes)?;
        Ok((index, bytes))
    });
    wanted.collect()
}

/// Returns the local shards of an array, each copied into an array on its device.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(crate) fn addressable_shards(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
) -> Result<Vec<Shard>, Error> {
    if let Some(on_device) = single_device(buffer) {
        let device = device_by_id(on_device.device)?;
        let index = aval.shape.iter().map(|&size| 0..size).collect();
        let data = Array::concrete(aval.clone(), buffer.clone());
        return Ok(vec![Shard { device, index, replica: 0, data }]);
    }
    let buffer = in_default_layout(buffer, aval)?;
    let buffer = shards(&buffer);
    let mut result: Vec<Shard> = Vec::new();
    for (ordinal, index, shard) in buffer.shards() {
        let device = buffer.sharding.devices()[ordinal].clone();
        let replica = result.iter().filter(|shard| shard.index == index).count();
        // A copy: the array of a shard may be donated, which must not delete part of the whole.
        let copy = copy_between(shard, aval.memory, device.id(), aval.memory)?;
        let shape: Vec<usize> = index.iter().map(Range::len).collect();
        let aval = Arc::new(aval.with_shape(shape));
        let copy = DeviceBuffer::new(copy, device.id(), true, &aval);
        let data = Array::concrete(aval, Arc::new(copy));
        result.push(Shard { device, index, replica, data });
    }
    Ok(result)
}
