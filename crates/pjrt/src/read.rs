//! Transfers from a device to host memory.

use std::ffi::c_void;
use std::ops::Deref;

use oxidax_pjrt_sys as sys;

use crate::api::Args;
use crate::buffer::{PjrtBuffer, UniqueBuffer};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::types::{Dims, ElementType};

impl UniqueBuffer {
    /// Copies the contents into `destination`, dense and row-major, once they are computed. Types
    /// below eight bits take one byte per element; signed ones are sign-extended to an `i8`.
    ///
    /// On a CPU device the bytes are copied directly from the buffer's memory. For a scalar this is
    /// two orders of magnitude faster than PJRT's own transfer.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `destination` has another size or the buffer was deleted;
    /// [`Error::Status`] if the computation failed.
    pub fn to_host(&self, destination: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "buffer to host";
        self.check_alive(OPERATION)?;
        let needed = self.array_type().host_bytes();
        if destination.len() != needed {
            let message = format!(
                "{} takes {needed} bytes, got room for {}",
                self.array_type(),
                destination.len()
            );
            return Err(Error::invalid(OPERATION, message));
        }
        if needed == 0 {
            return self.wait();
        }
        if self.is_host_readable() {
            let hold = Hold::on(self)?;
            destination.copy_from_slice(hold.bytes("buffer to host")?);
            return Ok(());
        }
        self.transfer(destination)?;
        extend_signs(self.element_type(), destination);
        Ok(())
    }

    /// Copies the contents as [`to_host`](Self::to_host) does, dense, with the axes in the order
    /// `major_to_minor`, slowest first. With the order in which the device stores them, nothing is
    /// transposed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `destination` has another size, the order is not one of the axes, or
    /// the buffer was deleted; [`Error::Status`] if the computation failed.
    pub fn to_host_in_order(&self, destination: &mut [u8], major_to_minor: &[usize]) -> Result<()> {
        const OPERATION: &str = "buffer to host";
        self.check_alive(OPERATION)?;
        let (needed, rank) = (self.array_type().host_bytes(), self.dims().len());
        let mut axes = major_to_minor.to_vec();
        axes.sort_unstable();
        if destination.len() != needed || !axes.into_iter().eq(0..rank) {
            let message = format!(
                "{} in order {major_to_minor:?} does not fit into {} bytes",
                self.array_type(),
                destination.len()
            );
            return Err(Error::invalid(OPERATION, message));
        }
        if needed == 0 {
            return self.wait();
        }
        let minor_to_major: Dims = major_to_minor.iter().rev().map(|&axis| axis as i64).collect();
        // SAFETY: the destination is borrowed until the copy is done.
        unsafe { self.start_transfer_in_order(destination, &minor_to_major) }?.wait()?;
        extend_signs(self.element_type(), destination);
        Ok(())
    }

    /// Starts to copy the contents to host memory and returns at once. The result is `None` if the
    /// contents are in host memory already, where [`to_host`](Self::to_host) reads them.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer was deleted; [`Error::Status`] if the plugin cannot copy.
    pub fn start_to_host(&self) -> Result<Option<HostCopy>> {
        self.check_alive("buffer to host")?;
        if self.array_type().host_bytes() == 0 || self.is_host_readable() {
            return Ok(None);
        }
        self.start_copy().map(Some)
    }

    /// Starts a copy with PJRT's own transfer.
    fn start_copy(&self) -> Result<HostCopy> {
        let mut bytes = vec![0; self.array_type().host_bytes()];
        // SAFETY: the copy owns the bytes, which it frees only after the event.
        let event = unsafe { self.start_transfer(&mut bytes) }?;
        Ok(HostCopy { bytes, event: Some(event), element_type: self.element_type() })
    }

    /// Copies the contents into a new vector, as [`to_host`](Self::to_host) does.
    ///
    /// # Errors
    /// The errors of [`to_host`](Self::to_host).
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.array_type().host_bytes()];
        self.to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// Copies `destination.len()` bytes, starting at `offset`, in the representation of the device:
    /// packed, in the device's layout. The total size is [`on_device_size`](Self::on_device_size).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the range is not inside the buffer; [`Error::Status`];
    /// [`Error::Missing`].
    pub fn copy_raw(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "raw copy to host";
        let size = self.on_device_size()?;
        if offset.checked_add(destination.len()).is_none_or(|end| end > size) {
            let message = format!(
                "{} bytes from offset {offset} are not inside {size} bytes",
                destination.len()
            );
            return Err(Error::invalid(OPERATION, message));
        }
        if destination.is_empty() {
            return self.wait();
        }
        let mut args = sys::PJRT_Buffer_CopyRawToHost_Args::new();
        args.buffer = self.as_ptr();
        args.dst = destination.as_mut_ptr().cast::<c_void>();
        // Both are at most the buffer's size, which fits into an `i64`.
        args.offset = offset as i64;
        args.transfer_size = destination.len() as i64;
        // SAFETY: the buffer is alive, the range is inside it, and the destination is borrowed
        // until the copy is done.
        unsafe {
            self.client().plugin().call(&mut args)?;
            Event::from_raw(self.client(), args.event)?.wait()
        }
    }

    /// Copies the contents with PJRT's own transfer, in row-major order.
    fn transfer(&self, destination: &mut [u8]) -> Result<()> {
        // SAFETY: the destination is borrowed until the copy is done.
        unsafe { self.start_transfer(destination) }?.wait()
    }

    /// Starts a copy with PJRT's own transfer, in row-major order.
    ///
    /// # Safety
    /// The destination stays in place until the event has completed.
    unsafe fn start_transfer(&self, destination: &mut [u8]) -> Result<Event> {
        let rank = self.dims().len() as i64;
        let minor_to_major: Dims = (0..rank).rev().collect();
        // SAFETY: as the caller guarantees.
        unsafe { self.start_transfer_in_order(destination, &minor_to_major) }
    }

    /// Starts a copy with PJRT's own transfer, with the axes in this order.
    ///
    /// # Safety
    /// The destination stays in place until the event has completed.
    unsafe fn start_transfer_in_order(
        &self,
        destination: &mut [u8],
        minor_to_major: &[i64],
    ) -> Result<Event> {
        let mut layout = sys::PJRT_Buffer_MemoryLayout {
            struct_size: size_of::<sys::PJRT_Buffer_MemoryLayout>(),
            type_: sys::PJRT_Buffer_MemoryLayout_Type_Tiled,
            ..Default::default()
        };
        layout.__bindgen_anon_1.tiled = sys::PJRT_Buffer_MemoryLayout_Tiled {
            struct_size: size_of::<sys::PJRT_Buffer_MemoryLayout_Tiled>(),
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_size: minor_to_major.len(),
            ..Default::default()
        };
        let mut args = sys::PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = self.as_ptr();
        args.host_layout = &raw mut layout;
        args.dst = destination.as_mut_ptr().cast::<c_void>();
        args.dst_size = destination.len();
        // SAFETY: the buffer is alive, the layout is borrowed for the call, and the destination is
        // large enough; the caller keeps it until the copy is done.
        unsafe {
            self.client().plugin().call(&mut args)?;
            Event::from_raw(self.client(), args.event)
        }
    }

    /// Returns true if the contents are in host memory, dense and row-major.
    fn is_host_readable(&self) -> bool {
        let element_type = self.element_type();
        self.client().is_cpu()
            && !element_type.is_packed()
            && element_type != ElementType::Token
            && self.client().plugin().can_view_buffers()
            && (self.dims().len() < 2 || self.layout().is_ok_and(|layout| layout.is_row_major()))
    }
}

/// A copy of a buffer's contents that is under way or complete. Made by
/// [`UniqueBuffer::start_to_host`].
#[derive(Debug)]
pub struct HostCopy {
    bytes: Vec<u8>,
    /// Completes when the plugin no longer writes to the bytes. `None` while it is dropped.
    event: Option<Event>,
    element_type: ElementType,
}

impl HostCopy {
    /// Waits for the copy and writes it to `destination`, as [`UniqueBuffer::to_host`] does.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `destination` has another size; [`Error::Status`] if the computation
    /// failed.
    pub fn read(&self, destination: &mut [u8]) -> Result<()> {
        if destination.len() != self.bytes.len() {
            let message =
                format!("the copy has {} bytes, the room {}", self.bytes.len(), destination.len());
            return Err(Error::invalid("buffer to host", message));
        }
        self.event.iter().try_for_each(Event::wait)?;
        destination.copy_from_slice(&self.bytes);
        extend_signs(self.element_type, destination);
        Ok(())
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        let (bytes, event) = (std::mem::take(&mut self.bytes), self.event.take());
        let Some(event) = event.filter(|event| !event.is_ready().unwrap_or(false)) else { return };
        // The plugin still writes to the bytes: the event frees them.
        let owner = std::sync::Arc::new(bytes);
        let held = owner.clone();
        if event.on_ready(move |_| drop(held)).is_err() {
            std::mem::forget(owner);
        }
    }
}

/// Sign-extends each byte. Plugins leave the bits above a small signed integer at zero.
fn extend_signs(element_type: ElementType, bytes: &mut [u8]) {
    if !matches!(element_type, ElementType::S1 | ElementType::S2 | ElementType::S4) {
        return;
    }
    let spare = 8 - element_type.bits();
    for byte in bytes {
        *byte = ((*byte << spare).cast_signed() >> spare).cast_unsigned();
    }
}

impl PjrtBuffer {
    /// Returns a view of the contents without a copy, once they are computed. While the view
    /// exists, an execution that receives the buffer as donated works on a copy. Only CPU devices
    /// support this, for types of at least eight bits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer was deleted, or its memory is not host memory or not
    /// row-major; [`Error::Status`] if the computation failed.
    pub fn host_view(&self) -> Result<HostView<'_>> {
        const OPERATION: &str = "host view";
        self.check_alive(OPERATION)?;
        if !self.is_host_readable() {
            let message = format!(
                "{self:?} does not lie in host memory as the host would lay it out; copy it"
            );
            return Err(Error::invalid(OPERATION, message));
        }
        let hold = Hold::on(self)?;
        let bytes = hold.bytes(OPERATION)?;
        let (start, len) = (bytes.as_ptr(), bytes.len());
        // From here on the view holds the reference, and with it the buffer.
        std::mem::forget(hold);
        // SAFETY: the bytes are readable while the reference is held, and the view holds it until
        // it is dropped.
        let bytes = unsafe { std::slice::from_raw_parts(start, len) };
        Ok(HostView { buffer: self.clone(), bytes })
    }
}

/// An external reference to a buffer. While it is held, the contents are neither freed nor passed
/// to an execution.
struct Hold<'a>(&'a UniqueBuffer);

impl<'a> Hold<'a> {
    fn on(buffer: &'a UniqueBuffer) -> Result<Self> {
        let mut args = sys::PJRT_Buffer_IncreaseExternalReferenceCount_Args::new();
        args.buffer = buffer.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { buffer.client().plugin().call(&mut args) }?;
        Ok(Self(buffer))
    }

    /// Returns the contents of a host-readable buffer, once they are computed.
    fn bytes(&self, operation: &'static str) -> Result<&[u8]> {
        let Self(buffer) = self;
        buffer.wait()?;
        let mut args = sys::PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
        args.buffer = buffer.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { buffer.client().plugin().call(&mut args) }?;
        let len = buffer.array_type().host_bytes();
        if len == 0 {
            return Ok(&[]);
        }
        if args.device_memory_ptr.is_null() {
            return Err(Error::invalid(operation, "the plugin gave no address"));
        }
        let start = args.device_memory_ptr.cast::<u8>();
        // SAFETY: the memory is host memory, holds the dense array, is computed, and is neither
        // freed nor passed to another execution while the external reference is held.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference was taken when the hold was created.
        unsafe { let_go(self.0) }
    }
}

/// # Safety
/// An external reference to the buffer was taken and is not used afterwards.
unsafe fn let_go(buffer: &UniqueBuffer) {
    let mut args = sys::PJRT_Buffer_DecreaseExternalReferenceCount_Args::new();
    args.buffer = buffer.as_ptr();
    // SAFETY: the buffer is alive; the caller guarantees the rest.
    unsafe { buffer.client().plugin().release(&mut args) }
}

/// A buffer's contents, borrowed without a copy. See [`PjrtBuffer::host_view`].
#[derive(Debug)]
pub struct HostView<'a> {
    /// A separate handle: a view that is forgotten instead of dropped leaks the buffer. Plugins do
    /// not support freeing a buffer that has external references.
    buffer: PjrtBuffer,
    bytes: &'a [u8],
}

impl Deref for HostView<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for HostView<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference was taken when the view was created.
        unsafe { let_go(&self.buffer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_signed_integers_keep_their_sign() {
        let extended = |element_type, mut bytes: Vec<u8>| {
            extend_signs(element_type, &mut bytes);
            bytes.into_iter().map(u8::cast_signed).collect::<Vec<_>>()
        };
        assert_eq!(extended(ElementType::S4, vec![0, 7, 8, 15, 0xF9]), [0, 7, -8, -1, -7]);
        assert_eq!(extended(ElementType::S2, vec![0, 1, 2, 3]), [0, 1, -2, -1]);
        assert_eq!(extended(ElementType::S1, vec![0, 1]), [0, -1]);
        assert_eq!(extended(ElementType::U4, vec![8, 15]), [8, 15]);
    }
}
