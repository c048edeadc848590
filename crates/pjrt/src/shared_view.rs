//! Owned views of a buffer's memory, for callers that share buffers in their own types.

use std::fmt;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::api::Args;
use crate::buffer::UniqueBuffer;
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::types::ArrayType;

/// The memory of a computed buffer, which stays where it is as long as the view exists: it is
/// neither freed nor passed to an execution. An execution that receives the buffer as donated works
/// on a copy, and deleting the buffer is an error of the plugin.
///
/// Unlike [`HostView`](crate::HostView) it owns a share of the buffer's owner, so it can be stored
/// and sent to other threads.
pub struct SharedView {
    /// Borrowed from the owner.
    buffer: &'static UniqueBuffer,
    start: *mut u8,
    /// The number of bytes that the host may read: 0 for memory of a device.
    len: usize,
    /// Dropped after the reference to the buffer is released.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: the view only reads memory that no code writes to, and buffers are used on any thread.
unsafe impl Send for SharedView {}
// SAFETY: as above.
unsafe impl Sync for SharedView {}

impl SharedView {
    /// Waits for the buffer that `buffer_of` finds in `owner`, and holds its memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer was deleted or donated, or its memory is not dense and
    /// row-major; [`Error::Status`] if the computation failed.
    pub fn new<O: Send + Sync + 'static>(
        owner: Arc<O>,
        buffer_of: impl for<'a> FnOnce(&'a O) -> &'a UniqueBuffer,
    ) -> Result<Self> {
        const OPERATION: &str = "view of a buffer";
        let owner_address = Arc::as_ptr(&owner);
        // SAFETY: the view holds the `Arc`, so the owner stays where it is and is not borrowed
        // mutably: the borrow is valid for as long as the view exists, and does not leave it.
        let buffer: &'static UniqueBuffer = buffer_of(unsafe { &*owner_address });
        buffer.check_alive(OPERATION)?;
        if buffer.is_deleted() {
            let message = format!("the buffer ({}) was deleted or donated", buffer.array_type());
            return Err(Error::invalid(OPERATION, message));
        }
        if !buffer.is_row_major() {
            let message = format!("{buffer:?} is not dense and row-major in its memory; copy it");
            return Err(Error::invalid(OPERATION, message));
        }
        let mut args = sys::PJRT_Buffer_IncreaseExternalReferenceCount_Args::new();
        args.buffer = buffer.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { buffer.client().plugin().call(&mut args) }?;
        // From here on dropping the view releases the reference.
        let mut view = Self { buffer, start: std::ptr::null_mut(), len: 0, _owner: owner };
        buffer.wait()?;
        let mut args = sys::PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
        args.buffer = buffer.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { buffer.client().plugin().call(&mut args) }?;
        view.start = args.device_memory_ptr.cast::<u8>();
        if buffer.client().is_cpu() && !view.start.is_null() {
            view.len = buffer.array_type().host_bytes();
        }
        Ok(view)
    }

    /// Returns the address of the first element, in the memory of [`device`](Self::device). An
    /// empty array may have none.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Returns the elements, row-major; `None` if the host cannot read the device's memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        if self.buffer.array_type().host_bytes() == 0 {
            return Some(&[]);
        }
        if self.len == 0 {
            return None;
        }
        // SAFETY: the memory is host memory, holds the dense array, is computed, and is neither
        // freed nor passed to another execution while the external reference is held.
        Some(unsafe { std::slice::from_raw_parts(self.start.cast_const(), self.len) })
    }

    /// Returns the type of the array.
    pub fn array_type(&self) -> &ArrayType {
        self.buffer.array_type()
    }

    /// Returns the device that the memory belongs to.
    pub fn device(&self) -> PjrtDevice {
        self.buffer.device()
    }
}

impl Drop for SharedView {
    fn drop(&mut self) {
        let mut args = sys::PJRT_Buffer_DecreaseExternalReferenceCount_Args::new();
        args.buffer = self.buffer.as_ptr();
        // SAFETY: the owner keeps the buffer alive, and the reference was taken in `new`.
        unsafe { self.buffer.client().plugin().release(&mut args) }
    }
}

impl fmt::Debug for SharedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedView").field(&self.buffer).finish()
    }
}

impl UniqueBuffer {
    /// Returns the address of the contents in the memory of the buffer's device, once they are
    /// computed. It is valid until the buffer is freed, deleted or donated.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer was deleted or donated; [`Error::Status`];
    /// [`Error::Missing`].
    pub fn address(&self) -> Result<usize> {
        self.check_alive("address of a buffer")?;
        self.wait()?;
        let mut args = sys::PJRT_Buffer_UnsafePointer_Args::new();
        args.buffer = self.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client().plugin().call(&mut args) }?;
        Ok(args.buffer_pointer)
    }

    /// Returns true if the contents are dense and row-major in memory, with at least one byte per
    /// element.
    fn is_row_major(&self) -> bool {
        let element_type = self.element_type();
        element_type.bits() >= 8
            && (self.dims().len() < 2 || self.layout().is_ok_and(|layout| layout.is_row_major()))
    }
}
