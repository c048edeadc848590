//! [`DeviceBuffer`]: the elements of an array on one device.

use super::client::runtime_error;
use super::host_copy::HostCopyCell;
use super::layouts::read_in_layout;
use super::live_arrays::Tracked;
use super::placement::{shards, single_device};
use super::stalls::{self, Produced};
use crate::core::host_function::refuse_inside;
use crate::core::{Array, Aval, Buffer, DType, DeviceId, Error, Kind, Layout, Loc, Placement};
use oxidax_pjrt::{ArrayType, ElementType, UniqueBuffer};
use std::any::Any;
use std::sync::Arc;

/// The elements of an array on one device.
#[derive(Debug)]
pub(super) struct DeviceBuffer {
    pub(super) buffer: UniqueBuffer,
    pub(super) device: DeviceId,
    /// True if the array was placed explicitly, or computed from such arrays. Uncommitted arrays
    /// are copied to the devices of the arrays they are combined with.
    pub(super) committed: bool,
    tracked: Tracked,
    /// The launch that computes it, if a program does.
    produced: Option<Produced>,
    host_copy: HostCopyCell,
    /// The order of the elements, if it is not the device's default.
    pub(super) layout: Option<Arc<Layout>>,
}

impl DeviceBuffer {
    /// Wraps the elements of an array of type `aval`.
    #[inline]
    pub(super) fn new(
        buffer: UniqueBuffer,
        device: DeviceId,
        committed: bool,
        aval: &Arc<Aval>,
    ) -> DeviceBuffer {
        let tracked = Tracked::new(aval, || Placement::Device(device));
        let host_copy = HostCopyCell::default();
        let (produced, layout) = (None, None);
        DeviceBuffer { buffer, device, committed, tracked, produced, host_copy, layout }
    }

    /// Records the order of the elements, if it is not the device's default.
    #[inline]
    pub(super) fn with_layout(self, layout: Option<Arc<Layout>>) -> DeviceBuffer {
        DeviceBuffer { layout, ..self }
    }

    /// Records the launch that computes the buffer.
    pub(super) fn produced_by(self, produced: Produced) -> DeviceBuffer {
        DeviceBuffer { produced: Some(produced), ..self }
    }
}

impl Buffer for DeviceBuffer {
    fn read(&self, dst: &mut [u8]) -> Result<(), Error> {
        refuse_inside("reading an array")?;
        let read = match &self.layout {
            Some(layout) => read_in_layout(&self.buffer, layout, dst),
            None => self.host_copy.read(&self.buffer, dst),
        };
        read.map_err(|error| runtime_error("reading an array", &error))
    }
    fn note_read(&self, loc: Loc) {
        stalls::note(loc, self.produced, || self.is_ready().unwrap_or(true));
    }
    fn copy_to_host_async(&self) -> Result<(), Error> {
        refuse_inside("copying an array")?;
        match self.layout {
            // The elements are put in order when they are read.
            Some(_) => Ok(()),
            None => self.host_copy.start(&self.buffer),
        }
    }
    fn ready(&self) -> Result<(), Error> {
        refuse_inside("waiting for an array")?;
        self.buffer.wait().map_err(|error| runtime_error("waiting for an array", &error))
    }
    fn is_ready(&self) -> Result<bool, Error> {
        let is_ready = self.buffer.ready_event().and_then(|event| event.is_ready());
        is_ready.map_err(|error| runtime_error("checking if an array is ready", &error))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Wraps a result in an array. If nothing else holds `spare`, the allocation of an earlier, donated
/// argument, it is reused: a training step allocates nothing for its results.
pub(super) fn wrap_result(
    spare: Option<Arc<dyn Buffer>>,
    aval: Arc<Aval>,
    buffer: DeviceBuffer,
) -> Array {
    let Some(mut spare) = spare else { return Array::concrete(aval, Arc::new(buffer)) };
    match Arc::get_mut(&mut spare).and_then(|old| old.as_any_mut().downcast_mut()) {
        Some(old) => {
            *old = buffer;
            Array::concrete(aval, spare)
        }
        None => Array::concrete(aval, Arc::new(buffer)),
    }
}

/// Returns the buffer of a concrete array.
pub(super) fn concrete(array: &Array) -> &Arc<dyn Buffer> {
    match &array.kind {
        Kind::Concrete(buffer) => buffer,
        Kind::Traced { .. } => panic!("only concrete arrays are evaluated"),
    }
}

/// Returns the PJRT buffer on the local device at this position of the program's mesh.
#[inline]
pub(super) fn pjrt_buffer(buffer: &Arc<dyn Buffer>, ordinal: usize) -> &UniqueBuffer {
    match single_device(buffer) {
        Some(on_device) => &on_device.buffer,
        None => &shards(buffer).buffers()[ordinal],
    }
}

/// Returns true if a buffer has been donated.
pub(crate) fn is_deleted(buffer: &Arc<dyn Buffer>) -> bool {
    match single_device(buffer) {
        Some(on_device) => on_device.buffer.is_deleted(),
        None => shards(buffer).is_deleted(),
    }
}

/// Removes a donated buffer from the list of live arrays.
pub(super) fn release_donated(buffer: &Arc<dyn Buffer>) {
    match single_device(buffer) {
        Some(on_device) => on_device.tracked.release(),
        None => shards(buffer).release_donated(),
    }
}

/// Returns true if the buffer of a concrete array among these has been donated.
pub(crate) fn any_deleted(arrays: &[Array]) -> bool {
    arrays.iter().any(|array| match &array.kind {
        Kind::Concrete(buffer) => is_deleted(buffer),
        Kind::Traced { .. } => false,
    })
}

/// Converts the type of an array to PJRT's.
///
/// # Errors
/// If a size exceeds PJRT's integers.
pub(super) fn array_type(aval: &Aval) -> oxidax_pjrt::Result<ArrayType> {
    let dims: Vec<i64> = aval.shape.iter().map(|&dim| dim as i64).collect();
    ArrayType::new(element_type(aval.dtype), &dims)
}

/// Converts PJRT's element type to a dtype; `None` for one that arrays do not have.
pub(super) fn dtype_of(element: ElementType) -> Option<DType> {
    DType::all().find(|dtype| element_type(*dtype) == element)
}

/// Converts a dtype to PJRT's element type.
pub(super) fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
        DType::I2 => ElementType::S2,
        DType::I4 => ElementType::S4,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U2 => ElementType::U2,
        DType::U4 => ElementType::U4,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F4E2M1FN => ElementType::F4E2M1FN,
        DType::F8E3M4 => ElementType::F8E3M4,
        DType::F8E4M3 => ElementType::F8E4M3,
        DType::F8E4M3B11FNUZ => ElementType::F8E4M3B11FNUZ,
        DType::F8E4M3FN => ElementType::F8E4M3FN,
        DType::F8E4M3FNUZ => ElementType::F8E4M3FNUZ,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::F8E5M2FNUZ => ElementType::F8E5M2FNUZ,
        DType::F8E8M0FNU => ElementType::F8E8M0FNU,
        DType::BF16 => ElementType::Bf16,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
    }
}
