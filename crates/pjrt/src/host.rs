//! Transfers from host memory to a device.

use std::ffi::c_void;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::aligned::AlignedBytes;
use crate::api::Args;
use crate::buffer::{PjrtBuffer, check_addressable};
use crate::client::Client;
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::Memory;
use crate::types::{ArrayType, ElementType};

/// The memory in which a new buffer is stored.
#[derive(Clone, Copy, Debug)]
pub enum BufferPlacement<'a> {
    /// The device's default memory.
    Device(&'a PjrtDevice),
    /// A specific memory.
    Memory(&'a Memory),
}

impl<'a> From<&'a PjrtDevice> for BufferPlacement<'a> {
    fn from(device: &'a PjrtDevice) -> Self {
        Self::Device(device)
    }
}

impl<'a> From<&'a Memory> for BufferPlacement<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self::Memory(memory)
    }
}

/// A placement in the C API's terms: device, memory, and the device's index in the client's list.
type RawPlacement = (*mut sys::PJRT_Device, *mut sys::PJRT_Memory, usize);

impl BufferPlacement<'_> {
    fn resolve(self, operation: &'static str, client: &Client) -> Result<RawPlacement> {
        let (owner, device) = match self {
            Self::Device(device) => (device.client(), Some(device.clone())),
            Self::Memory(memory) => (memory.client(), memory.devices().into_iter().next()),
        };
        if owner != client {
            return Err(Error::invalid(operation, format!("{self:?} belongs to another client")));
        }
        let device = device
            .ok_or_else(|| Error::invalid(operation, format!("no device reaches {self:?}")))?;
        check_addressable(operation, &device)?;
        Ok(match self {
            Self::Device(device) => (device.as_ptr(), std::ptr::null_mut(), device.index()),
            Self::Memory(memory) => (std::ptr::null_mut(), memory.as_ptr(), device.index()),
        })
    }
}

/// The arguments of a transfer from host memory.
struct Source<'a> {
    operation: &'static str,
    data: *const u8,
    array_type: ArrayType,
    byte_strides: Option<&'a [i64]>,
    semantics: sys::PJRT_HostBufferSemantics,
}

impl Client {
    /// Copies a dense, row-major array from host memory to a device. The bytes may be reused as
    /// soon as the call returns. Types below eight bits take one byte per element.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the number of bytes does not match the type, the plugin does not know
    /// the element type, or the placement belongs to another client; [`Error::Status`].
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Client, ElementType, Plugin};
    /// # let client = Client::new(Plugin::load("plugin.so".as_ref())?, &[])?;
    /// let device = &client.addressable_devices()[0];
    /// let bytes: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    /// let buffer = client.buffer_from_host(&bytes, ElementType::F32, &[2], device)?;
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn buffer_from_host<'a>(
        &self,
        bytes: &[u8],
        element_type: ElementType,
        dims: &[i64],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<PjrtBuffer> {
        const OPERATION: &str = "buffer from host";
        let array_type = ArrayType::new(element_type, dims)?;
        check_size(OPERATION, bytes.len(), &array_type)?;
        let source = Source {
            operation: OPERATION,
            data: bytes.as_ptr(),
            array_type,
            byte_strides: None,
            semantics: sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
        };
        // SAFETY: the bytes are borrowed for the call, and with these semantics the plugin does not
        // retain them.
        unsafe { self.transfer(source, placement.into()) }.map(|(buffer, _)| buffer)
    }

    /// Copies an array with arbitrary strides, such as a transposed or broadcast view.
    /// `byte_strides` holds the number of bytes from one element to the next along each axis. No
    /// stride may be negative.
    ///
    /// # Errors
    /// The errors of [`buffer_from_host`](Self::buffer_from_host); also [`Error::Invalid`] if an
    /// element is outside `bytes`.
    pub fn buffer_from_host_strided<'a>(
        &self,
        bytes: &[u8],
        element_type: ElementType,
        dims: &[i64],
        byte_strides: &[i64],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<PjrtBuffer> {
        const OPERATION: &str = "strided buffer from host";
        let array_type = ArrayType::new(element_type, dims)?;
        check_strides(OPERATION, bytes.len(), &array_type, byte_strides)?;
        let source = Source {
            operation: OPERATION,
            data: bytes.as_ptr(),
            array_type,
            byte_strides: Some(byte_strides),
            semantics: sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
        };
        // SAFETY: the bytes are borrowed for the call, and with these semantics the plugin does not
        // retain them.
        unsafe { self.transfer(source, placement.into()) }.map(|(buffer, _)| buffer)
    }

    /// Creates a buffer that shares host memory if the device supports it, and copies the memory
    /// otherwise. The owner is held until the plugin no longer needs the bytes, at the latest until
    /// the buffer is freed.
    ///
    /// CPU devices share memory that is aligned to 64 bytes, as [`AlignedBytes`] is, and copy all
    /// other memory. The bytes are never written to: an execution that receives the buffer as
    /// donated copies it first.
    ///
    /// # Errors
    /// The errors of [`buffer_from_host`](Self::buffer_from_host).
    pub fn buffer_from_shared<'a, T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        element_type: ElementType,
        dims: &[i64],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<PjrtBuffer> {
        const OPERATION: &str = "buffer from shared memory";
        let bytes: &[u8] = (*owner).as_ref();
        let array_type = ArrayType::new(element_type, dims)?;
        check_size(OPERATION, bytes.len(), &array_type)?;
        let source = Source {
            operation: OPERATION,
            data: bytes.as_ptr(),
            array_type,
            byte_strides: None,
            semantics: sys::PJRT_HostBufferSemantics_kImmutableZeroCopy,
        };
        // SAFETY: the owner, and with it the bytes, is held until the event below reports that they
        // are no longer needed. While this `Arc` exists, no code has mutable access to the owner,
        // as if the slice were still borrowed.
        let (buffer, done) = unsafe { self.transfer(source, placement.into()) }?;
        let keep = Arc::clone(&owner);
        if let Err(error) = done.on_ready(move |_| drop(keep)) {
            // Without the callback it is unknown when the bytes are free, so they are leaked.
            std::mem::forget(owner);
            return Err(error);
        }
        Ok(buffer)
    }

    /// Creates a buffer that takes ownership of host memory without a copy and frees it with the
    /// buffer. Only CPU devices support this. An execution that receives the buffer as donated
    /// works on a copy.
    ///
    /// # Errors
    /// The errors of [`buffer_from_host`](Self::buffer_from_host). The bytes are lost on error.
    pub fn buffer_from_owned(
        &self,
        bytes: AlignedBytes,
        element_type: ElementType,
        dims: &[i64],
        device: &PjrtDevice,
    ) -> Result<PjrtBuffer> {
        const OPERATION: &str = "buffer from owned memory";
        let array_type = ArrayType::new(element_type, dims)?;
        check_size(OPERATION, bytes.len(), &array_type)?;
        self.check_element_type(OPERATION, element_type)?;
        if element_type.is_packed() || element_type == ElementType::Token {
            let message =
                format!("{element_type} lies on the device as it does not on the host; copy it");
            return Err(Error::invalid(OPERATION, message));
        }
        if !self.is_cpu() {
            let message =
                format!("a {} device cannot use host memory; copy it", self.platform_name());
            return Err(Error::invalid(OPERATION, message));
        }
        let (device, _, index) = BufferPlacement::Device(device).resolve(OPERATION, self)?;
        let owner = Box::into_raw(Box::new(bytes));

        unsafe extern "C" fn free(_: *mut c_void, owner: *mut c_void) {
            // SAFETY: the argument is the box leaked above, and the plugin calls back once.
            drop(unsafe { Box::from_raw(owner.cast::<AlignedBytes>()) });
        }

        let mut args = sys::PJRT_Client_CreateViewOfDeviceBuffer_Args::new();
        args.client = self.as_ptr();
        // SAFETY: the box was just leaked and is not freed before the plugin's callback.
        args.device_buffer_ptr = unsafe { (*owner).as_mut_ptr() }.cast::<c_void>();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.element_type = element_type.to_raw();
        args.device = device;
        args.on_delete_callback = Some(free);
        args.on_delete_callback_arg = owner.cast::<c_void>();
        // SAFETY: the memory has a single owner, is aligned and large enough, and lives until the
        // callback. After an error the plugin has dropped the callback or will run it, so the
        // callback frees the box.
        unsafe {
            self.plugin().call(&mut args)?;
            PjrtBuffer::from_raw(self, args.buffer, array_type, index)
        }
    }

    /// Allocates a buffer on a device with arbitrary contents. The contents stay arbitrary until an
    /// operation copies or computes data into the buffer. Only its memory is useful: donate it.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`buffer_from_host`](Self::buffer_from_host); [`Error::Status`],
    /// for instance if there is not enough memory; [`Error::Missing`].
    pub fn uninitialized_buffer<'a>(
        &self,
        element_type: ElementType,
        dims: &[i64],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<PjrtBuffer> {
        const OPERATION: &str = "uninitialized buffer";
        let array_type = ArrayType::new(element_type, dims)?;
        self.check_element_type(OPERATION, element_type)?;
        let (device, memory, index) = placement.into().resolve(OPERATION, self)?;
        let mut args = sys::PJRT_Client_CreateUninitializedBuffer_Args::new();
        args.client = self.as_ptr();
        args.shape_dims = dims.as_ptr();
        args.shape_num_dims = dims.len();
        args.shape_element_type = element_type.to_raw();
        args.device = device;
        args.memory = memory;
        // SAFETY: client, device and memory are alive and belong together; the caller owns the new
        // buffer.
        unsafe {
            self.plugin().call(&mut args)?;
            PjrtBuffer::from_raw(self, args.buffer, array_type, index)
        }
    }

    /// # Safety
    /// The source's data is fully readable, for as long as its semantics require.
    unsafe fn transfer(
        &self,
        source: Source<'_>,
        placement: BufferPlacement<'_>,
    ) -> Result<(PjrtBuffer, Event)> {
        let element_type = source.array_type.element_type();
        self.check_element_type(source.operation, element_type)?;
        let (device, memory, index) = placement.resolve(source.operation, self)?;
        let mut args = sys::PJRT_Client_BufferFromHostBuffer_Args::new();
        args.client = self.as_ptr();
        args.data = source.data.cast::<c_void>();
        args.type_ = element_type.to_raw();
        args.dims = source.array_type.dims().as_ptr();
        args.num_dims = source.array_type.dims().len();
        if let Some(byte_strides) = source.byte_strides {
            args.byte_strides = byte_strides.as_ptr();
            args.num_byte_strides = byte_strides.len();
        }
        args.host_buffer_semantics = source.semantics;
        args.device = device;
        args.memory = memory;
        // SAFETY: client and placement are alive and belong together, the plugin knows the type,
        // the caller guarantees the data, and this function owns buffer and event.
        unsafe {
            self.plugin().call(&mut args)?;
            let done = Event::from_raw(self, args.done_with_host_buffer)?;
            let buffer = PjrtBuffer::from_raw(self, args.buffer, source.array_type, index)?;
            Ok((buffer, done))
        }
    }

    /// Returns an error for element types that cannot be created on the host, and for types newer
    /// than the plugin. A plugin aborts the process on an unknown type number.
    pub(crate) fn check_element_type(
        &self,
        operation: &'static str,
        element_type: ElementType,
    ) -> Result<()> {
        if element_type == ElementType::Token {
            let message =
                "tokens carry no data; pass a pred[0] array where a program takes a token";
            return Err(Error::invalid(operation, message));
        }
        let version = self.plugin().api_version();
        let needs = element_type.first_api_minor();
        if version.minor < needs {
            let message = format!(
                "plugin {} (API {version}) does not know {element_type}, which came with API 0.{needs}",
                self.plugin()
            );
            return Err(Error::invalid(operation, message));
        }
        Ok(())
    }
}

fn check_size(operation: &'static str, size: usize, array_type: &ArrayType) -> Result<()> {
    let needed = array_type.host_bytes();
    if size == needed {
        return Ok(());
    }
    Err(Error::invalid(operation, format!("{array_type} takes {needed} bytes, got {size}")))
}

fn check_strides(
    operation: &'static str,
    size: usize,
    array_type: &ArrayType,
    byte_strides: &[i64],
) -> Result<()> {
    let dims = array_type.dims();
    if byte_strides.len() != dims.len() {
        let message = format!("{array_type} needs {} strides, got {byte_strides:?}", dims.len());
        return Err(Error::invalid(operation, message));
    }
    if byte_strides.iter().any(|&stride| stride < 0) {
        let message = format!("strides must not be negative, got {byte_strides:?}");
        return Err(Error::invalid(operation, message));
    }
    if array_type.host_bytes() == 0 {
        return Ok(());
    }
    let steps = dims.iter().zip(byte_strides);
    let last =
        steps.fold(0_i128, |sum, (&dim, &stride)| sum + i128::from(dim - 1) * i128::from(stride));
    let needed = last + array_type.element_type().host_size() as i128;
    if needed > size as i128 {
        let message = format!(
            "{array_type} with strides {byte_strides:?} reaches over {needed} bytes, got {size}"
        );
        return Err(Error::invalid(operation, message));
    }
    Ok(())
}
