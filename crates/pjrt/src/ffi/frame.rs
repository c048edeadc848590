//! The call frame: arguments, results and attributes that a handler receives.

use std::ffi::c_void;
use std::marker::PhantomData;

use oxidax_pjrt_sys as sys;

use super::attribute::Attribute;
use super::device::Driver;
use crate::api;
use crate::types::ElementType;

const OUT_OF_REACH: &str = "the call's buffers lie in memory of a device that is out of reach";

/// The memory in which arguments and results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Host memory, which is directly accessible.
    Host,
    /// Memory of an NVIDIA GPU, which can be copied.
    Cuda,
    /// Memory of another device.
    Unknown,
}

/// One call of a handler: its arguments, results and attributes.
#[derive(Debug)]
pub struct CallFrame<'a> {
    raw: &'a sys::XLA_FFI_CallFrame,
    memory: Memory,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentBuffer<'a> {
    element_type: ElementType,
    dims: &'a [i64],
    bytes: &'a [u8],
}

/// A result of a call, to be written by the handler.
#[derive(Debug)]
pub struct ResultBuffer<'a> {
    element_type: ElementType,
    dims: &'a [i64],
    bytes: &'a mut [u8],
}

impl<'a> ArgumentBuffer<'a> {
    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the sizes of the axes.
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }

    /// Returns the elements in row-major order. Types below eight bits are packed, as on the
    /// device.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> ResultBuffer<'a> {
    /// Returns the elements for writing, as [`bytes_mut`](Self::bytes_mut), for as long as the
    /// frame is borrowed.
    pub fn into_bytes_mut(self) -> &'a mut [u8] {
        self.bytes
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Returns the sizes of the axes.
    pub fn dims(&self) -> &[i64] {
        self.dims
    }

    /// Returns the elements in row-major order, packed as in [`ArgumentBuffer::bytes`].
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the elements for writing, in row-major order and packed as in
    /// [`ArgumentBuffer::bytes`].
    /// Elements that are not written have arbitrary values.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// Arguments, each `None` if it shares memory with a result, and results.
pub type FrameBuffers<'a> = (Vec<Option<ArgumentBuffer<'a>>>, Vec<ResultBuffer<'a>>);

/// The type and memory of an argument or a result.
struct Place<'a> {
    element_type: ElementType,
    dims: &'a [i64],
    start: *mut u8,
    len: usize,
    _frame: PhantomData<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// # Safety
    /// `buffer` is null or a buffer of a running call.
    unsafe fn new(buffer: *mut std::ffi::c_void) -> Result<Self, String> {
        // SAFETY: the caller guarantees the buffer.
        let buffer = unsafe { buffer.cast::<sys::XLA_FFI_Buffer>().as_ref() };
        let buffer = buffer.ok_or("the call has an absent buffer")?;
        let element_type = ElementType::from_primitive(buffer.dtype)
            .ok_or_else(|| format!("the call has a buffer of XLA type {}", buffer.dtype))?;
        let rank = usize::try_from(buffer.rank).map_err(|error| error.to_string())?;
        // SAFETY: the number of dimensions equals the buffer's rank.
        let dims = unsafe { api::slice(buffer.dims, rank) };
        let elements = dims
            .iter()
            .try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?));
        let bits = elements.and_then(|elements| elements.checked_mul(element_type.bits()));
        let len = bits.ok_or("the call has a buffer without a size")?.div_ceil(8);
        let start = buffer.data.cast::<u8>();
        if start.is_null() && len > 0 {
            return Err("the call has a buffer without an address".to_owned());
        }
        Ok(Self { element_type, dims, start, len, _frame: PhantomData })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (start, other_start) = (self.start as usize, other.start as usize);
        self.len > 0
            && other.len > 0
            && start < other_start + other.len
            && other_start < start + self.len
    }

    /// # Safety
    /// The memory is not written to while the argument exists.
    unsafe fn as_argument<'b>(&self) -> ArgumentBuffer<'b>
    where
        'a: 'b,
    {
        // SAFETY: the memory holds `len` bytes for the duration of the call.
        let bytes = unsafe { api::slice(self.start.cast_const(), self.len) };
        ArgumentBuffer { element_type: self.element_type, dims: self.dims, bytes }
    }

    /// # Safety
    /// No other code reads or writes the memory while the result exists.
    unsafe fn as_result<'b>(&self) -> ResultBuffer<'b>
    where
        'a: 'b,
    {
        let bytes: &mut [u8] = if self.len == 0 {
            &mut []
        } else {
            // SAFETY: the memory holds `len` bytes for the duration of the call, and XLA leaves it
            // to the handler.
            unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
        };
        ResultBuffer { element_type: self.element_type, dims: self.dims, bytes }
    }
}

impl<'a> CallFrame<'a> {
    /// # Safety
    /// The frame belongs to a running call, in its execution stage, and its buffers are in
    /// `memory`.
    pub(super) unsafe fn new(raw: &'a sys::XLA_FFI_CallFrame, memory: Memory) -> Self {
        Self { raw, memory }
    }

    /// Returns the number of arguments.
    pub fn argument_count(&self) -> usize {
        self.raw.args.size as usize
    }

    /// Returns the number of results.
    pub fn result_count(&self) -> usize {
        self.raw.rets.size as usize
    }

    /// Returns all arguments and all results.
    ///
    /// # Errors
    /// A text in two cases:
    /// - The buffers are in device memory. Use [`read`](Self::read) and [`write`](Self::write),
    ///   which copy.
    /// - A result shares memory with an argument, because the call has `output_operand_aliases`.
    ///   Use [`argument`](Self::argument) and [`result`](Self::result) one at a time.
    pub fn buffers(&mut self) -> Result<(Vec<ArgumentBuffer<'_>>, Vec<ResultBuffer<'_>>), String> {
        self.expect_host()?;
        let arguments = self.argument_places()?;
        let results = self.result_places()?;
        for (index, result) in results.iter().enumerate() {
            let others = results[..index].iter().chain(&arguments);
            if others.into_iter().any(|other| other.overlaps(result)) {
                return Err(format!(
                    "result {index} shares memory with another buffer of the call"
                ));
            }
        }
        // SAFETY: no result overlaps anything, and the frame is borrowed while the slices exist.
        let results = results.iter().map(|place| unsafe { place.as_result() }).collect();
        // SAFETY: as above.
        let arguments = arguments.iter().map(|place| unsafe { place.as_argument() }).collect();
        Ok((arguments, results))
    }

    /// Returns all arguments and all results, of a call that may have `output_operand_aliases`: an
    /// argument that shares memory with a result is `None`, and its elements are the initial
    /// contents of the result.
    ///
    /// # Errors
    /// A text if the buffers are in device memory, or two results share memory.
    pub fn buffers_in_place(&mut self) -> Result<FrameBuffers<'_>, String> {
        self.expect_host()?;
        let arguments = self.argument_places()?;
        let results = self.result_places()?;
        for (index, result) in results.iter().enumerate() {
            if results[..index].iter().any(|other| other.overlaps(result)) {
                return Err(format!("result {index} shares memory with another result"));
            }
        }
        let mut apart = Vec::with_capacity(arguments.len());
        for place in &arguments {
            let is_apart = !results.iter().any(|result| result.overlaps(place));
            // SAFETY: no result overlaps it, and the frame is borrowed while the slice exists.
            apart.push(is_apart.then(|| unsafe { place.as_argument() }));
        }
        // SAFETY: no result overlaps another, or an argument that was returned.
        let results = results.iter().map(|place| unsafe { place.as_result() }).collect();
        Ok((apart, results))
    }

    /// Returns for each argument the index of the result that shares its memory, if there is one.
    ///
    /// # Errors
    /// A text if the call has an argument or a result that is not a buffer.
    pub fn aliases(&self) -> Result<Vec<Option<usize>>, String> {
        let results = self.result_places()?;
        let shared = |place: &Place<'_>| results.iter().position(|result| result.overlaps(place));
        Ok(self.argument_places()?.iter().map(shared).collect())
    }

    /// Returns true if the buffers are in host memory.
    pub fn is_on_host(&self) -> bool {
        self.memory == Memory::Host
    }

    /// Returns an argument.
    ///
    /// # Errors
    /// A text if there is no such argument, or if it is in device memory.
    pub fn argument(&self, index: usize) -> Result<ArgumentBuffer<'_>, String> {
        self.expect_host()?;
        let place = self.argument_place(index)?;
        // SAFETY: results can be written only through a mutable borrow of the frame, which this
        // borrow excludes.
        Ok(unsafe { place.as_argument() })
    }

    /// Returns a result, to be written by the handler.
    ///
    /// # Errors
    /// A text if there is no such result, or if it is in device memory.
    pub fn result(&mut self, index: usize) -> Result<ResultBuffer<'_>, String> {
        self.expect_host()?;
        let place = self.result_place(index)?;
        // SAFETY: the frame is borrowed mutably, so no other slice of its buffers exists.
        Ok(unsafe { place.as_result() })
    }

    /// Returns the element type and the axis sizes of an argument in any memory.
    ///
    /// # Errors
    /// A text if there is no such argument.
    pub fn argument_type(&self, index: usize) -> Result<(ElementType, &[i64]), String> {
        self.argument_place(index).map(|place| (place.element_type, place.dims))
    }

    /// Returns the element type and the axis sizes of a result in any memory.
    ///
    /// # Errors
    /// A text if there is no such result.
    pub fn result_type(&self, index: usize) -> Result<(ElementType, &[i64]), String> {
        self.result_place(index).map(|place| (place.element_type, place.dims))
    }

    /// Copies an argument's elements to the host, in row-major order. Waits for the device if the
    /// argument is in device memory.
    ///
    /// # Errors
    /// A text if there is no such argument, or the error of the device's driver.
    pub fn read(&self, index: usize) -> Result<Vec<u8>, String> {
        let place = self.argument_place(index)?;
        match self.memory {
            // SAFETY: as in `argument`.
            Memory::Host => Ok(unsafe { place.as_argument() }.bytes.to_vec()),
            _ if place.len == 0 => Ok(Vec::new()),
            // SAFETY: the memory holds `len` bytes on the device of this call's stream.
            Memory::Cuda => unsafe {
                Driver::get()?.read(place.start.cast_const(), place.len, self.stream()?)
            },
            Memory::Unknown => Err(OUT_OF_REACH.to_owned()),
        }
    }

    /// Writes all elements of a result from host bytes in row-major order. Waits for the device if
    /// the result is in device memory.
    ///
    /// # Errors
    /// A text if there is no such result or it has another number of bytes, or the error of the
    /// device's driver.
    pub fn write(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let place = self.result_place(index)?;
        if place.len != bytes.len() {
            return Err(format!("result {index} has {} bytes, got {}", place.len, bytes.len()));
        }
        match self.memory {
            Memory::Host => {
                // SAFETY: as in `result`.
                unsafe { place.as_result() }.bytes.copy_from_slice(bytes);
                Ok(())
            }
            _ if bytes.is_empty() => Ok(()),
            // SAFETY: the memory has space for these bytes on the device of this call's stream.
            Memory::Cuda => unsafe { Driver::get()?.write(place.start, bytes, self.stream()?) },
            Memory::Unknown => Err(OUT_OF_REACH.to_owned()),
        }
    }

    fn expect_host(&self) -> Result<(), String> {
        match self.memory {
            Memory::Host => Ok(()),
            _ => Err(
                "the call's buffers lie in the device's memory: copy them with `read` and `write`"
                    .to_owned(),
            ),
        }
    }

    /// Returns the stream of the call.
    fn stream(&self) -> Result<*mut c_void, String> {
        let mut args = sys::XLA_FFI_Stream_Get_Args {
            struct_size: size_of::<sys::XLA_FFI_Stream_Get_Args>(),
            extension_start: std::ptr::null_mut(),
            ctx: self.raw.ctx,
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the table is valid, and the function exists in its oldest version.
        let get = unsafe { (*self.raw.api).XLA_FFI_Stream_Get };
        let get = get.ok_or("XLA does not tell which stream the call is on")?;
        // SAFETY: the context belongs to the call.
        let error = unsafe { get(&raw mut args) };
        if self.dropped(error) {
            return Err("XLA does not tell which stream the call is on".to_owned());
        }
        Ok(args.stream)
    }

    /// Frees an error of XLA. Returns true if there was one.
    fn dropped(&self, error: *mut sys::XLA_FFI_Error) -> bool {
        if error.is_null() {
            return false;
        }
        let mut destroy = sys::XLA_FFI_Error_Destroy_Args {
            struct_size: size_of::<sys::XLA_FFI_Error_Destroy_Args>(),
            extension_start: std::ptr::null_mut(),
            error,
        };
        // SAFETY: the table is valid, and XLA passed ownership of the error.
        unsafe {
            if let Some(function) = (*self.raw.api).XLA_FFI_Error_Destroy {
                function(&raw mut destroy);
            }
        }
        true
    }

    /// Returns the attribute with this name in the call's `backend_config`.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        self.attributes().into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Returns the attributes in the call's `backend_config`, sorted by name.
    pub fn attributes(&self) -> Vec<(String, Attribute)> {
        // SAFETY: the attributes are valid for the call.
        unsafe { Attribute::list(&self.raw.attrs) }
    }

    /// Returns the index of the device that the program runs on, among the client's devices; `None`
    /// if XLA is too old to report it.
    pub fn device_ordinal(&self) -> Option<i32> {
        let end =
            std::mem::offset_of!(sys::XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get) + size_of::<usize>();
        // SAFETY: the table is valid and begins with its size.
        let api = unsafe { &*self.raw.api };
        if api.struct_size < end {
            return None;
        }
        let mut args = sys::XLA_FFI_DeviceOrdinal_Get_Args {
            struct_size: size_of::<sys::XLA_FFI_DeviceOrdinal_Get_Args>(),
            extension_start: std::ptr::null_mut(),
            ctx: self.raw.ctx,
            device_ordinal: 0,
        };
        // SAFETY: the table includes this function, and the context belongs to the call.
        let error = unsafe { api.XLA_FFI_DeviceOrdinal_Get?(&raw mut args) };
        (!self.dropped(error)).then_some(args.device_ordinal)
    }

    fn argument_place(&self, index: usize) -> Result<Place<'_>, String> {
        self.argument_places()?.into_iter().nth(index).ok_or_else(|| {
            format!("the call has no argument {index}, only {}", self.argument_count())
        })
    }

    fn result_place(&self, index: usize) -> Result<Place<'_>, String> {
        self.result_places()?
            .into_iter()
            .nth(index)
            .ok_or_else(|| format!("the call has no result {index}, only {}", self.result_count()))
    }

    fn argument_places(&self) -> Result<Vec<Place<'_>>, String> {
        // SAFETY: the frame holds as many types and addresses as it states.
        let (kinds, places) = unsafe {
            (
                api::slice(self.raw.args.types, self.argument_count()),
                api::slice(self.raw.args.args, self.argument_count()),
            )
        };
        if kinds.iter().any(|&kind| kind != sys::XLA_FFI_ArgType_BUFFER) {
            return Err("the call has an argument that is not a buffer".to_owned());
        }
        // SAFETY: each address is that of a buffer.
        places.iter().map(|&place| unsafe { Place::new(place) }).collect()
    }

    fn result_places(&self) -> Result<Vec<Place<'_>>, String> {
        // SAFETY: the frame holds as many types and addresses as it states.
        let (kinds, places) = unsafe {
            (
                api::slice(self.raw.rets.types, self.result_count()),
                api::slice(self.raw.rets.rets, self.result_count()),
            )
        };
        if kinds.iter().any(|&kind| kind != sys::XLA_FFI_RetType_BUFFER) {
            return Err("the call has a result that is not a buffer".to_owned());
        }
        // SAFETY: each address is that of a buffer.
        places.iter().map(|&place| unsafe { Place::new(place) }).collect()
    }
}
