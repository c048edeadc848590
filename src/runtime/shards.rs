//! Arrays in shards on the devices of a mesh.

use super::buffer::OnDevice;
use super::client::{runtime, runtime_error};
use crate::core::host_function::refuse_inside;
use crate::core::{Array, Aval, Buffer, Device, Error, NamedSharding};
use oxidax_pjrt::{Event, UniqueBuffer};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The shards of one array that lie on this process's devices.
#[derive(Debug)]
pub(super) struct Shards {
    sharding: NamedSharding,
    aval: Arc<Aval>,
    /// In the order of the mesh, devices of other processes left out.
    buffers: Vec<UniqueBuffer>,
    /// The launch that makes them, if a program does.
    launch: Option<Arc<Launch>>,
}

/// A program running on several devices, which its results wait for together: an event for each buffer would cost more
/// than the rest of the call.
#[derive(Debug)]
pub(super) struct Launch {
    events: Vec<Event>,
    done: AtomicBool,
}

impl Launch {
    pub(super) fn new(events: Vec<Event>) -> Launch {
        Launch { events, done: AtomicBool::new(false) }
    }

    /// Waits until all devices are done; whether that went well. What did not, the buffers themselves tell.
    fn wait(&self) -> bool {
        if self.done.load(Ordering::Acquire) {
            return true;
        }
        let went_well = self.events.iter().all(|event| event.wait().is_ok());
        self.done.store(went_well, Ordering::Release);
        went_well
    }
}

/// The part of an array that one device has.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The device.
    pub device: Device,
    /// Which part of the whole it is: a range along each axis.
    pub index: Vec<Range<usize>>,
    /// 0 for the first device that has this part, and counting on for copies.
    pub replica: usize,
    /// The part itself, on its device.
    pub data: Array,
}

impl Shards {
    pub(super) fn new(
        sharding: NamedSharding,
        aval: Arc<Aval>,
        buffers: Vec<UniqueBuffer>,
    ) -> Shards {
        Shards { sharding, aval, buffers, launch: None }
    }

    /// The same, made by a program that is running.
    pub(super) fn made_by(self, launch: Arc<Launch>) -> Shards {
        Shards { launch: Some(launch), ..self }
    }

    pub(super) fn sharding(&self) -> &NamedSharding {
        &self.sharding
    }

    pub(super) fn buffers(&self) -> &[UniqueBuffer] {
        &self.buffers
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.buffers.iter().any(UniqueBuffer::is_deleted)
    }

    /// The parts of this process, each with its place in the mesh.
    fn parts(&self) -> impl Iterator<Item = (usize, Vec<Range<usize>>, &UniqueBuffer)> {
        let local =
            self.sharding.devices().iter().enumerate().filter(|(_, device)| device.is_local());
        local.zip(&self.buffers).map(|((place, _), buffer)| {
            (place, self.sharding.part(place, &self.aval.shape), buffer)
        })
    }

    /// Each part once, with the first buffer that has it.
    fn distinct(&self) -> Vec<(Vec<Range<usize>>, &UniqueBuffer)> {
        let mut distinct: Vec<(Vec<Range<usize>>, &UniqueBuffer)> = Vec::new();
        if self.sharding.is_replicated() {
            return self.parts().take(1).map(|(_, part, buffer)| (part, buffer)).collect();
        }
        let mut seen = rustc_hash::FxHashSet::default();
        for (_, part, buffer) in self.parts() {
            if seen.insert(part.clone()) {
                distinct.push((part, buffer));
            }
        }
        distinct
    }

    fn refuse_remote(&self) -> Result<(), Error> {
        if self.sharding.is_replicated() || self.sharding.mesh().is_local() {
            return Ok(());
        }
        Err(Error::Runtime {
            doing: format!("reading {}, which lies as {}", self.aval, self.sharding),
            code: None,
            message: "parts of it are on devices of other processes".into(),
            help: Some(
                "read `addressable_shards()`, or let `jit` give it replicated: \
                 `.out_shardings(mesh.replicated())`"
                    .into(),
            ),
        })
    }
}

impl Buffer for Shards {
    fn read(&self, dst: &mut [u8]) -> Result<(), Error> {
        refuse_inside("reading an array")?;
        self.refuse_remote()?;
        let failed = |error| runtime_error("reading an array", &error);
        let each = self.aval.dtype.host_bytes();
        for (part, buffer) in self.distinct() {
            let size: usize = part.iter().map(Range::len).product();
            if size == self.aval.size() {
                return buffer.to_host(dst).map_err(failed);
            }
            let mut bytes = vec![0; size * each];
            buffer.to_host(&mut bytes).map_err(failed)?;
            self.aval.shape.write_slice(&part, each, &bytes, dst);
        }
        Ok(())
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
        let failed = |error| runtime_error("asking whether an array is there", &error);
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

/// The shards of an array as arrays of their own: copies on their devices.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(crate) fn shards_of(buffer: &Arc<dyn Buffer>, aval: &Aval) -> Result<Vec<Shard>, Error> {
    let runtime = runtime()?;
    let shards = match super::home::place(buffer) {
        super::home::Place::Device(on) => {
            let device = super::home::device_of(on.device)?;
            let index = aval.shape.iter().map(|&size| 0..size).collect();
            let data = Array::concrete(aval.clone(), buffer.clone());
            return Ok(vec![Shard { device, index, replica: 0, data }]);
        }
        super::home::Place::Mesh(shards) => shards,
    };
    let mut seen: Vec<Vec<Range<usize>>> = Vec::new();
    let mut all = Vec::new();
    for (place, index, buffer) in shards.parts() {
        let device = shards.sharding.devices()[place].clone();
        let replica = seen.iter().filter(|part| **part == index).count();
        seen.push(index.clone());
        // Its own copy: an array may be donated, and the whole must not lose a part.
        let copy = buffer.copy_to_device(runtime.device(device.id())?);
        let copy = copy.map_err(|error| runtime_error("copying a shard", &error))?;
        let copy = copy.into_unique().expect("nobody else knows of it yet");
        let shape: Vec<usize> = index.iter().map(Range::len).collect();
        let on = OnDevice { buffer: copy, device: device.id(), committed: true };
        let data = Array::concrete(aval.with_shape(shape), Arc::new(on));
        all.push(Shard { device, index, replica, data });
    }
    Ok(all)
}
