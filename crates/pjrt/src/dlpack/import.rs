//! Buffers that share the memory of tensors.

use std::ffi::c_void;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use super::{DlpackDevice, DlpackTensor, OPERATION};
use crate::aligned::ALIGNMENT;
use crate::api::Args;
use crate::buffer::PjrtBuffer;
use crate::client::Client;
use crate::device::PjrtDevice;
use crate::error::Result;

impl Client {
    /// Creates a buffer that shares the memory of a tensor, and holds it until it is freed. Returns
    /// the tensor if its memory cannot be shared: it is not of the device, dense, row-major, or, on
    /// a CPU, aligned to 64 bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the plugin does not know the element type;
    /// [`Error::Status`](crate::Error::Status).
    pub fn buffer_from_dlpack(
        &self,
        tensor: DlpackTensor,
        device: &PjrtDevice,
    ) -> Result<std::result::Result<PjrtBuffer, DlpackTensor>> {
        let is_here = DlpackDevice::of(device).is_ok_and(|here| here == tensor.device());
        let is_aligned = tensor.address().is_multiple_of(ALIGNMENT);
        let is_empty = tensor.array_type().host_bytes() == 0;
        if !is_here || !tensor.is_row_major() || (self.is_cpu() && !is_aligned) || is_empty {
            return Ok(Err(tensor));
        }
        if !self.is_cpu() {
            return self.view_of_device_memory(tensor, device).map(Ok);
        }
        struct HostBytes(DlpackTensor);
        impl AsRef<[u8]> for HostBytes {
            fn as_ref(&self) -> &[u8] {
                self.0.bytes().unwrap_or_default()
            }
        }
        let array_type = tensor.array_type().clone();
        let owner = Arc::new(HostBytes(tensor));
        self.buffer_from_shared(owner, array_type.element_type(), array_type.dims(), device).map(Ok)
    }

    fn view_of_device_memory(
        &self,
        tensor: DlpackTensor,
        device: &PjrtDevice,
    ) -> Result<PjrtBuffer> {
        unsafe extern "C" fn free(_: *mut c_void, owner: *mut c_void) {
            // SAFETY: the argument is the box leaked below, and the plugin calls back once.
            drop(unsafe { Box::from_raw(owner.cast::<DlpackTensor>()) });
        }
        let array_type = tensor.array_type().clone();
        self.check_element_type(OPERATION, array_type.element_type())?;
        let mut args = sys::PJRT_Client_CreateViewOfDeviceBuffer_Args::new();
        args.client = self.as_ptr();
        args.device_buffer_ptr = tensor.address() as *mut c_void;
        args.dims = array_type.dims().as_ptr();
        args.num_dims = array_type.dims().len();
        args.element_type = array_type.element_type().to_raw();
        args.device = device.as_ptr();
        args.on_delete_callback = Some(free);
        args.on_delete_callback_arg = Box::into_raw(Box::new(tensor)).cast();
        // SAFETY: the memory is of this device, large enough, computed, and lives until the
        // callback. After an error the plugin has dropped the callback or will run it.
        unsafe {
            self.plugin().call(&mut args)?;
            PjrtBuffer::from_raw(self, args.buffer, array_type, device.index())
        }
    }
}
