//! From host memory to a device.

use std::ffi::c_void;
use std::sync::Arc;

use oxidax_pjrt_sys as sys;

use crate::aligned::AlignedBytes;
use crate::api::Args;
use crate::buffer::{Buffer, check_addressable};
use crate::client::Client;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::Memory;
use crate::types::{ArrayType, ElementType};

/// Where a buffer is to be put.
#[derive(Clone, Copy, Debug)]
pub enum Placement<'a> {
    /// In the device's default memory.
    Device(&'a Device),
    /// In this memory.
    Memory(&'a Memory),
}

impl<'a> From<&'a Device> for Placement<'a> {
    fn from(device: &'a Device) -> Self {
        Self::Device(device)
    }
}

impl<'a> From<&'a Memory> for Placement<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self::Memory(memory)
    }
}

/// A placement in the C API's terms: device, memory, and the device's position in the client's
/// list.
type RawPlacement = (*mut sys::PJRT_Device, *mut sys::PJRT_Memory, usize);

impl Placement<'_> {
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

/// What a transfer of host memory needs to know.
struct Source<'a> {
    operation: &'static str,
    data: *const u8,
    array_type: ArrayType,
    byte_strides: Option<&'a [i64]>,
    semantics: sys::PJRT_HostBufferSemantics,
}

impl Client {
    /// Copies a dense, row-major array from host memory to a device. The bytes may be reused as
    /// soon as this returns. Types below eight bits take one byte per element.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the number of bytes does not fit the type, the plugin does not know
    /// the element type, or the placement is another client's; [`Error::Status`].
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
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer> {
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
        // keep them.
        unsafe { self.transfer(source, placement.into()) }.map(|(buffer, _)| buffer)
    }

    /// Copies an array with any spacing of its elements, such as a transposed or broadcast view.
    /// `byte_strides` holds the bytes from one element to the next along each axis, none of them
    /// negative.
    ///
    /// # Errors
    /// As for [`buffer_from_host`](Self::buffer_from_host); also if an element would lie outside
    /// `bytes`.
    pub fn buffer_from_host_strided<'a>(
        &self,
        bytes: &[u8],
        element_type: ElementType,
        dims: &[i64],
        byte_strides: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer> {
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
        // keep them.
        unsafe { self.transfer(source, placement.into()) }.map(|(buffer, _)| buffer)
    }

    /// Makes a buffer that shares host memory where the device can, and copies it otherwise. The
    /// owner is kept until the plugin needs the bytes no more: at the latest when the buffer is
    /// freed.
    ///
    /// CPU devices share memory that is aligned to 64 bytes, as [`AlignedBytes`] is, and copy
    /// everything else. The bytes are never written to: an execution that is given the buffer as
    /// donated copies it first.
    ///
    /// # Errors
    /// As for [`buffer_from_host`](Self::buffer_from_host).
    pub fn buffer_from_shared<'a, T: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        owner: Arc<T>,
        element_type: ElementType,
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer> {
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
        // SAFETY: the owner, and with it the bytes, is kept until the event below says that they
        // are not needed. While this `Arc` exists nobody can get at the owner mutably, just as if
        // the slice were still borrowed.
        let (buffer, done) = unsafe { self.transfer(source, placement.into()) }?;
        let keep = Arc::clone(&owner);
        if let Err(error) = done.on_ready(move |_| drop(keep)) {
            // Without the callback nobody would know when the bytes are free, so they are never
            // freed.
            std::mem::forget(owner);
            return Err(error);
        }
        Ok(buffer)
    }

    /// Makes a buffer out of host memory that it takes over, never with a copy, and frees with it.
    /// Only CPU devices can do this. An execution that is given the buffer as donated works on a
    /// copy.
    ///
    /// # Errors
    /// As for [`buffer_from_host`](Self::buffer_from_host); the bytes are gone then.
    pub fn buffer_from_owned(
        &self,
        bytes: AlignedBytes,
        element_type: ElementType,
        dims: &[i64],
        device: &Device,
    ) -> Result<Buffer> {
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
        let (device, _, index) = Placement::Device(device).resolve(OPERATION, self)?;
        let owner = Box::into_raw(Box::new(bytes));

        unsafe extern "C" fn free(_: *mut c_void, owner: *mut c_void) {
            // SAFETY: the argument is the box leaked above, and the plugin calls back once.
            drop(unsafe { Box::from_raw(owner.cast::<AlignedBytes>()) });
        }

        let mut args = sys::PJRT_Client_CreateViewOfDeviceBuffer_Args::new();
        args.client = self.as_ptr();
        // SAFETY: the box was leaked just now and is not freed before the plugin's callback.
        args.device_buffer_ptr = unsafe { (*owner).as_mut_ptr() }.cast::<c_void>();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.element_type = element_type.to_raw();
        args.device = device;
        args.on_delete_callback = Some(free);
        args.on_delete_callback_arg = owner.cast::<c_void>();
        // SAFETY: the memory is ours alone, aligned, large enough, and lives until the callback;
        // after an error the plugin has dropped the callback or will run it, so the box is left to
        // it.
        unsafe {
            self.plugin().call(&mut args)?;
            Buffer::from_raw(self, args.buffer, array_type, index)
        }
    }

    /// Allocates a buffer on a device whose contents are arbitrary until something is copied or
    /// computed into it. Only its memory is useful: donate it.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`buffer_from_host`](Self::buffer_from_host); [`Error::Status`],
    /// for instance when there is not enough memory; [`Error::Missing`].
    pub fn uninitialized_buffer<'a>(
        &self,
        element_type: ElementType,
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer> {
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
        // SAFETY: client, device and memory are alive and belong together; the new buffer is ours.
        unsafe {
            self.plugin().call(&mut args)?;
            Buffer::from_raw(self, args.buffer, array_type, index)
        }
    }

    /// # Safety
    /// The source's data is readable in full, for as long as its semantics demand.
    unsafe fn transfer(
        &self,
        source: Source<'_>,
        placement: Placement<'_>,
    ) -> Result<(Buffer, Event)> {
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
        // SAFETY: client and placement are alive and belong together, the type is known to the
        // plugin, the caller vouches for the data, and buffer and event are ours.
        unsafe {
            self.plugin().call(&mut args)?;
            let done = Event::from_raw(self, args.done_with_host_buffer)?;
            let buffer = Buffer::from_raw(self, args.buffer, source.array_type, index)?;
            Ok((buffer, done))
        }
    }

    /// Refuses element types that cannot be made on the host, or that the plugin is too old to
    /// know: a number that it does not know would abort the process.
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
