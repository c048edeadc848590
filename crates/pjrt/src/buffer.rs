//! Buffers: arrays on a device.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args, Handle};
use crate::client::Client;
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::Memory;
use crate::types::{ArrayType, ElementType};

/// An array in one of the client's memories. Clones share it. Its memory is freed when the last
/// clone is dropped and no execution uses it any more.
///
/// Its operations are the methods of [`UniqueBuffer`].
#[derive(Clone)]
pub struct PjrtBuffer(pub(crate) Arc<UniqueBuffer>);

/// A [`PjrtBuffer`] with one owner, for callers that implement their own sharing. Its memory is
/// freed when it is dropped and no execution uses it any more.
pub struct UniqueBuffer {
    place: Arc<Place>,
    buffer: Handle<sys::PJRT_Buffer>,
    /// Set when this crate knows that the contents were deleted or donated.
    deleted: AtomicBool,
}

/// The fields that the results of a program share between runs. Sharing them costs one reference
/// count instead of three.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) array_type: ArrayType,
    /// Index in the client's list of devices.
    pub(crate) device: usize,
}

impl PjrtBuffer {
    /// Takes ownership of a buffer that the C API returned.
    ///
    /// # Safety
    /// The requirements of [`UniqueBuffer::from_raw`] apply.
    pub(crate) unsafe fn from_raw(
        client: &Client,
        buffer: *mut sys::PJRT_Buffer,
        array_type: ArrayType,
        device: usize,
    ) -> Result<Self> {
        let place = Arc::new(Place { client: client.clone(), array_type, device });
        // SAFETY: the caller guarantees the requirements.
        unsafe { UniqueBuffer::from_raw(place, buffer) }.map(Self::from)
    }

    /// Returns true if this is the only handle to the buffer. Donating it then affects no other
    /// handle.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns the buffer with its single owner; `None` if there are other handles.
    pub fn into_unique(self) -> Option<UniqueBuffer> {
        Arc::into_inner(self.0)
    }
}

impl From<UniqueBuffer> for PjrtBuffer {
    fn from(buffer: UniqueBuffer) -> Self {
        Self(Arc::new(buffer))
    }
}

impl Deref for PjrtBuffer {
    type Target = UniqueBuffer;

    #[inline]
    fn deref(&self) -> &UniqueBuffer {
        &self.0
    }
}

impl UniqueBuffer {
    /// Takes ownership of a buffer that the C API returned.
    ///
    /// # Safety
    /// `buffer` belongs to the client of `place`, has its type, is on its device, and is destroyed
    /// by no other code.
    #[inline]
    pub(crate) unsafe fn from_raw(
        place: Arc<Place>,
        buffer: *mut sys::PJRT_Buffer,
    ) -> Result<Self> {
        let buffer = api::expect(buffer, "buffer")?;
        Ok(Self { place, buffer, deleted: AtomicBool::new(false) })
    }

    #[inline]
    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Returns the client that the buffer belongs to.
    pub fn client(&self) -> &Client {
        &self.place.client
    }

    /// Returns the element type and dimensions.
    pub fn array_type(&self) -> &ArrayType {
        &self.place.array_type
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.place.array_type.element_type()
    }

    /// Returns the sizes of the axes.
    pub fn dims(&self) -> &[i64] {
        self.place.array_type.dims()
    }

    /// Returns the device that the buffer is on.
    pub fn device(&self) -> PjrtDevice {
        PjrtDevice::new(&self.place.client, self.place.device)
    }

    /// Returns the memory that the buffer is in.
    ///
    /// # Errors
    /// [`Error::Status`].
    pub fn memory(&self) -> Result<Memory> {
        let mut args = sys::PJRT_Buffer_Memory_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.place.client.plugin().call(&mut args) }?;
        Ok(Memory::new(&self.place.client, self.place.client.memory_index(args.memory)?))
    }

    /// Returns the size of the buffer on the device, in bytes. Devices pack small types, and
    /// layouts may add padding.
    ///
    /// # Errors
    /// [`Error::Status`], also for a deleted buffer.
    pub fn on_device_size(&self) -> Result<usize> {
        self.check_alive("on-device size")?;
        let mut args = sys::PJRT_Buffer_OnDeviceSizeInBytes_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.place.client.plugin().call(&mut args) }?;
        Ok(args.on_device_size_in_bytes)
    }

    /// Returns the layout of the elements on the device.
    ///
    /// # Errors
    /// [`Error::Status`], also if the plugin does not report layouts.
    pub fn layout(&self) -> Result<BufferLayout> {
        self.check_alive("layout")?;
        let mut args = sys::PJRT_Buffer_GetMemoryLayout_Args::new();
        args.layout.struct_size = size_of::<sys::PJRT_Buffer_MemoryLayout>();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer is alive; `type_` states which member of the union the plugin wrote,
        // and its arrays live as long as the buffer.
        unsafe {
            self.place.client.plugin().call(&mut args)?;
            let layout = &args.layout.__bindgen_anon_1;
            if args.layout.type_ == sys::PJRT_Buffer_MemoryLayout_Type_Strides {
                let strides =
                    api::slice(layout.strides.byte_strides, layout.strides.num_byte_strides);
                return Ok(BufferLayout::Strides { byte_strides: strides.to_vec() });
            }
            let tiled = &layout.tiled;
            let mut tile_dims = tiled.tile_dims;
            let sizes = api::slice(tiled.tile_dim_sizes, tiled.num_tiles);
            let tiles = sizes.iter().map(|&size| {
                let tile = api::slice(tile_dims, size).to_vec();
                tile_dims = tile_dims.add(size);
                tile
            });
            Ok(BufferLayout::Tiled {
                tiles: tiles.collect(),
                minor_to_major: api::slice(tiled.minor_to_major, tiled.minor_to_major_size)
                    .to_vec(),
            })
        }
    }

    /// Returns an event that completes when the buffer's contents are computed. The event carries
    /// the error of a failed computation.
    ///
    /// # Errors
    /// [`Error::Status`], also for a deleted buffer.
    pub fn ready_event(&self) -> Result<Event> {
        self.check_alive("ready event")?;
        let mut args = sys::PJRT_Buffer_ReadyEvent_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer is alive, and the caller owns the event.
        unsafe {
            self.place.client.plugin().call(&mut args)?;
            Event::from_raw(&self.place.client, args.event)
        }
    }

    /// Blocks until the buffer's contents are computed.
    ///
    /// # Errors
    /// [`Error::Status`] if the computation failed or the buffer was deleted.
    pub fn wait(&self) -> Result<()> {
        self.ready_event()?.wait()
    }

    /// Returns true if the contents are gone, because of [`delete`](Self::delete) or because they
    /// were donated to an execution.
    pub fn is_deleted(&self) -> bool {
        if self.deleted.load(Ordering::Acquire) {
            return true;
        }
        let mut args = sys::PJRT_Buffer_IsDeleted_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer's handle is alive, even if its contents were deleted.
        let asked = unsafe { self.place.client.plugin().call(&mut args) };
        if asked.is_ok() && args.is_deleted {
            self.mark_deleted();
        }
        asked.is_ok() && args.is_deleted
    }

    /// Frees the contents now, for every clone of this handle. Executions that use them finish
    /// first.
    ///
    /// # Errors
    /// [`Error::Status`]. Deleting a buffer twice is not an error.
    pub fn delete(&self) -> Result<()> {
        if self.deleted.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mut args = sys::PJRT_Buffer_Delete_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer's handle is alive.
        unsafe { self.place.client.plugin().call(&mut args) }
    }

    /// Copies the buffer to another device of the same client.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the device belongs to another client or another process;
    /// [`Error::Status`].
    pub fn copy_to_device(&self, device: &PjrtDevice) -> Result<PjrtBuffer> {
        self.check_alive("copy to device")?;
        self.check_target("copy to device", device)?;
        let mut args = sys::PJRT_Buffer_CopyToDevice_Args::new();
        args.buffer = self.as_ptr();
        args.dst_device = device.as_ptr();
        // SAFETY: buffer and device are alive and belong to one client; the caller owns the new
        // buffer.
        unsafe {
            self.place.client.plugin().call(&mut args)?;
            let array_type = self.array_type().clone();
            PjrtBuffer::from_raw(&self.place.client, args.dst_buffer, array_type, device.index())
        }
    }

    /// Copies the buffer to a memory of the same client. The device of the copy is the first device
    /// that can access the memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a memory of another client; [`Error::Status`].
    pub fn copy_to_memory(&self, memory: &Memory) -> Result<PjrtBuffer> {
        self.check_alive("copy to memory")?;
        let device = memory.devices().into_iter().next();
        let device = device.ok_or_else(|| {
            Error::invalid("copy to memory", format!("no device reaches {memory:?}"))
        })?;
        self.check_target("copy to memory", &device)?;
        let mut args = sys::PJRT_Buffer_CopyToMemory_Args::new();
        args.buffer = self.as_ptr();
        args.dst_memory = memory.as_ptr();
        // SAFETY: buffer and memory are alive and belong to one client; the caller owns the new
        // buffer.
        unsafe {
            self.place.client.plugin().call(&mut args)?;
            let array_type = self.array_type().clone();
            PjrtBuffer::from_raw(&self.place.client, args.dst_buffer, array_type, device.index())
        }
    }

    fn check_target(&self, operation: &'static str, device: &PjrtDevice) -> Result<()> {
        if device.client() != &self.place.client {
            let message = format!("{device} belongs to another client than the buffer");
            return Err(Error::invalid(operation, message));
        }
        check_addressable(operation, device)
    }

    pub(crate) fn check_alive(&self, operation: &'static str) -> Result<()> {
        if self.deleted.load(Ordering::Acquire) {
            let message = format!("the buffer ({}) was deleted or donated", self.array_type());
            return Err(Error::invalid(operation, message));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn is_marked_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::PJRT_Buffer {
        self.buffer.as_ptr()
    }
}

/// Returns an error for a device that another process drives.
pub(crate) fn check_addressable(operation: &'static str, device: &PjrtDevice) -> Result<()> {
    if device.is_addressable() {
        return Ok(());
    }
    let message = format!("{device} belongs to process {}", device.process_index());
    Err(Error::invalid(operation, message))
}

/// The layout of an array's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BufferLayout {
    /// Axes ordered from the fastest to the slowest, then split into tiles.
    Tiled {
        /// The axes, fastest first; row-major order is `[n-1, .., 0]`.
        minor_to_major: Vec<i64>,
        /// The sizes of each level of tiles; empty on CPU.
        tiles: Vec<Vec<i64>>,
    },
    /// A stride for each axis.
    Strides {
        /// Bytes from one element to the next along each axis.
        byte_strides: Vec<i64>,
    },
}

impl BufferLayout {
    /// Returns true if the elements are in row-major order without tiles.
    pub fn is_row_major(&self) -> bool {
        match self {
            Self::Tiled { minor_to_major, tiles } => {
                tiles.is_empty()
                    && minor_to_major.iter().rev().copied().eq(0..minor_to_major.len() as i64)
            }
            Self::Strides { .. } => false,
        }
    }
}

impl Drop for UniqueBuffer {
    #[inline]
    fn drop(&mut self) {
        let mut args = sys::PJRT_Buffer_Destroy_Args::new();
        args.buffer = self.buffer.as_ptr();
        // SAFETY: `self` owns the buffer.
        unsafe { self.place.client.plugin().release(&mut args) }
    }
}

impl fmt::Debug for PjrtBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for UniqueBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PjrtBuffer({} on {})", self.array_type(), self.device())
    }
}
