//! [DLPack](https://dmlc.github.io/dlpack/latest/): arrays that several frameworks share in memory.
//!
//! The layout of the structs, and the numbers of devices and types, are those of `dlpack.h`,
//! version 1.1.

mod import;
mod raw;

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use self::raw::{
    DlpackVersion, RawDevice, RawTensor, RawType, Unversioned, Versioned, element_type_of, type_of,
};
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::shared_view::SharedView;
use crate::types::{ArrayType, Dims, ElementType};

const OPERATION: &str = "DLPack";
const VERSION: DlpackVersion = DlpackVersion { major: 1, minor: 1 };
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const ROCM: i32 = 10;
const CUDA_MANAGED: i32 = 13;

/// An array in memory that frameworks share by DLPack's protocol. Dropping it releases the memory
/// to its producer.
///
/// [`into_versioned_ptr`](Self::into_versioned_ptr) gives it to another framework, and
/// [`from_versioned_ptr`](Self::from_versioned_ptr) takes it from one. A `DLManagedTensor` without
/// version, which older frameworks exchange, has [`into_ptr`](Self::into_ptr) and
/// [`from_ptr`](Self::from_ptr).
pub struct DlpackTensor {
    managed: Managed,
    array_type: ArrayType,
    /// The number of elements, not bytes, from one to the next along each axis.
    strides: Dims,
    device: DlpackDevice,
}

enum Managed {
    Versioned(NonNull<Versioned>),
    Unversioned(NonNull<Unversioned>),
}

/// The device of a [`DlpackTensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DlpackDevice {
    /// Host memory.
    Cpu,
    /// Memory of the CUDA device of this number.
    Cuda(i32),
    /// Memory of the ROCm device of this number.
    Rocm(i32),
    /// Another device: its type and number in `dlpack.h`.
    Other(i32, i32),
}

/// The arrays of a tensor that this crate produces. The pointers of the tensor refer to it.
struct Produced {
    shape: Dims,
    strides: Dims,
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: a tensor is owned, its memory is only read, and those who construct one from a pointer
// guarantee that the producer's deleter may run on any thread.
unsafe impl Send for DlpackTensor {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for DlpackTensor {}

impl DlpackTensor {
    /// Takes a `DLManagedTensorVersioned`, as the capsules named `dltensor_versioned` hold it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for null, another major version than 1, and a type that PJRT does not
    /// have. The tensor is released, unless it is null.
    ///
    /// # Safety
    /// - The pointer is null, or that of a tensor that the caller owns and does not use any more.
    /// - Its fields describe memory that stays readable until its deleter runs, and that nothing
    ///   writes to until then. Work that computes it on a device is complete.
    /// - The deleter may be called on any thread.
    pub unsafe fn from_versioned_ptr(tensor: *mut c_void) -> Result<Self> {
        let tensor = NonNull::new(tensor.cast::<Versioned>())
            .ok_or_else(|| Error::invalid(OPERATION, "the tensor is null"))?;
        // SAFETY: every version begins with version, manager and deleter.
        let version = unsafe { (*tensor.as_ptr()).version };
        if version.major != VERSION.major {
            // SAFETY: the deleter's place is the same in every version.
            unsafe { release(&Managed::Versioned(tensor)) };
            let DlpackVersion { major, minor } = version;
            let message = format!("the tensor has version {major}.{minor}, not 1.x");
            return Err(Error::invalid(OPERATION, message));
        }
        // SAFETY: the version is known, and the caller guarantees the fields.
        unsafe { Self::new(Managed::Versioned(tensor), (*tensor.as_ptr()).tensor) }
    }

    /// Takes a `DLManagedTensor`, as the capsules named `dltensor` hold it.
    ///
    /// # Errors
    /// As [`from_versioned_ptr`](Self::from_versioned_ptr).
    ///
    /// # Safety
    /// As [`from_versioned_ptr`](Self::from_versioned_ptr).
    pub unsafe fn from_ptr(tensor: *mut c_void) -> Result<Self> {
        let tensor = NonNull::new(tensor.cast::<Unversioned>())
            .ok_or_else(|| Error::invalid(OPERATION, "the tensor is null"))?;
        // SAFETY: the caller guarantees the fields.
        unsafe { Self::new(Managed::Unversioned(tensor), (*tensor.as_ptr()).tensor) }
    }

    /// # Safety
    /// The tensor is owned by the caller, and `raw` are its valid fields.
    unsafe fn new(managed: Managed, raw: RawTensor) -> Result<Self> {
        // SAFETY: the caller guarantees the fields.
        match unsafe { described(&raw) } {
            Ok((array_type, strides)) => {
                let device = DlpackDevice::from_raw(raw.device);
                Ok(Self { managed, array_type, strides, device })
            }
            Err(error) => {
                // SAFETY: the tensor is not used any more.
                unsafe { release(&managed) };
                Err(error)
            }
        }
    }

    /// Returns the tensor for another framework, which must call the deleter of the
    /// `DLManagedTensorVersioned` once. Not calling it leaks the memory.
    pub fn into_versioned_ptr(self) -> *mut c_void {
        if let Managed::Versioned(tensor) = &self.managed {
            let tensor = tensor.as_ptr().cast();
            std::mem::forget(self);
            return tensor;
        }
        let flags = self.flags();
        let (tensor, produced) = self.into_parts();
        let tensor = Versioned {
            version: VERSION,
            manager: Box::into_raw(produced).cast(),
            deleter: Some(delete_versioned),
            flags,
            tensor,
        };
        Box::into_raw(Box::new(tensor)).cast()
    }

    /// Returns the tensor for another framework as a `DLManagedTensor` without version, whose
    /// deleter it must call once.
    pub fn into_ptr(self) -> *mut c_void {
        if let Managed::Unversioned(tensor) = &self.managed {
            let tensor = tensor.as_ptr().cast();
            std::mem::forget(self);
            return tensor;
        }
        let (tensor, produced) = self.into_parts();
        let manager = Box::into_raw(produced).cast();
        let tensor = Unversioned { tensor, manager, deleter: Some(delete_unversioned) };
        Box::into_raw(Box::new(tensor)).cast()
    }

    /// Shares the memory of a buffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an element type or a device that DLPack does not have.
    pub fn of_view(view: SharedView) -> Result<Self> {
        let device = DlpackDevice::of(&view.device())?;
        let (array_type, start) = (view.array_type().clone(), view.as_ptr());
        Self::produce(Arc::new(view), start, array_type, device, READ_ONLY)
    }

    /// Shares a dense, row-major copy of an array in host memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an element type that DLPack does not have, and another number of
    /// bytes than the type takes.
    pub fn of_copy(bytes: crate::AlignedBytes, array_type: ArrayType) -> Result<Self> {
        if bytes.len() != array_type.host_bytes() {
            let message = format!("{array_type} does not take {} bytes", bytes.len());
            return Err(Error::invalid(OPERATION, message));
        }
        let start = bytes.as_ptr().cast_mut();
        let (device, owner) = (DlpackDevice::Cpu, Arc::new(bytes));
        Self::produce(owner, start, array_type, device, READ_ONLY | IS_COPIED)
    }

    fn produce(
        owner: Arc<dyn Send + Sync>,
        start: *mut u8,
        array_type: ArrayType,
        device: DlpackDevice,
        flags: u64,
    ) -> Result<Self> {
        let dtype = type_of(array_type.element_type()).ok_or_else(|| {
            let message = format!("{} has no type in DLPack", array_type.element_type());
            Error::invalid(OPERATION, message)
        })?;
        let shape = Dims::from_slice(array_type.dims());
        let strides = row_major(&shape);
        let mut produced = Box::new(Produced { shape, strides: strides.clone(), _owner: owner });
        let tensor = RawTensor {
            data: start.cast(),
            device: device.to_raw(),
            ndim: produced.shape.len() as i32,
            dtype,
            shape: produced.shape.as_mut_ptr(),
            strides: produced.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let managed = Box::new(Versioned {
            version: VERSION,
            manager: Box::into_raw(produced).cast(),
            deleter: Some(delete_versioned),
            flags,
            tensor,
        });
        let managed = Managed::Versioned(NonNull::from(Box::leak(managed)));
        Ok(Self { managed, array_type, strides, device })
    }

    /// Moves the tensor into the owner of another one with the same fields.
    fn into_parts(self) -> (RawTensor, Box<Produced>) {
        let raw = self.raw();
        let (shape, strides) = (Dims::from_slice(self.array_type.dims()), self.strides.clone());
        let mut produced = Box::new(Produced { shape, strides, _owner: Arc::new(self) });
        let shape = produced.shape.as_mut_ptr();
        let strides = produced.strides.as_mut_ptr();
        (RawTensor { shape, strides, ..raw }, produced)
    }

    fn raw(&self) -> RawTensor {
        // SAFETY: the tensor is owned, and its fields do not change.
        unsafe {
            match &self.managed {
                Managed::Versioned(tensor) => (*tensor.as_ptr()).tensor,
                Managed::Unversioned(tensor) => (*tensor.as_ptr()).tensor,
            }
        }
    }

    fn flags(&self) -> u64 {
        match &self.managed {
            // SAFETY: the tensor is owned.
            Managed::Versioned(tensor) => unsafe { (*tensor.as_ptr()).flags },
            Managed::Unversioned(_) => 0,
        }
    }

    /// Returns the element type and the dimensions.
    pub fn array_type(&self) -> &ArrayType {
        &self.array_type
    }

    /// Returns the number of elements, not bytes, from one to the next along each axis.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Returns the device.
    pub fn device(&self) -> DlpackDevice {
        self.device
    }

    /// Returns true if the producer forbids its consumers to write to the memory. A tensor without
    /// version does not tell.
    pub fn is_read_only(&self) -> bool {
        self.flags() & READ_ONLY != 0
    }

    /// Returns true if the producer states that it copied the array for this tensor.
    pub fn is_copied(&self) -> bool {
        self.flags() & IS_COPIED != 0
    }

    /// Returns true if the elements are dense and row-major.
    pub fn is_row_major(&self) -> bool {
        let dims = self.array_type.dims();
        let expected = row_major(dims);
        let axes = dims.iter().zip(self.strides.iter().zip(&expected));
        self.array_type.host_bytes() == 0
            || axes.into_iter().all(|(&dim, (stride, expected))| dim == 1 || stride == expected)
    }

    /// Returns the address of the first element.
    pub fn address(&self) -> usize {
        let raw = self.raw();
        (raw.data as usize).wrapping_add(raw.byte_offset as usize)
    }

    /// Returns true if the host can read the memory.
    pub fn is_on_host(&self) -> bool {
        matches!(self.device, DlpackDevice::Cpu)
            || matches!(self.device, DlpackDevice::Other(CUDA_HOST | CUDA_MANAGED, _))
    }

    /// Returns the elements without a copy, if they are in host memory, dense and row-major.
    pub fn bytes(&self) -> Option<&[u8]> {
        let len = self.array_type.host_bytes();
        if !self.is_on_host() || !self.is_row_major() {
            return None;
        }
        if len == 0 {
            return Some(&[]);
        }
        // SAFETY: the producer guarantees that the memory holds the array, and is only read.
        Some(unsafe { std::slice::from_raw_parts(self.address() as *const u8, len) })
    }

    /// Copies the elements in row-major order.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the host cannot read the memory.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        if let Some(bytes) = self.bytes() {
            return Ok(bytes.to_vec());
        }
        if !self.is_on_host() {
            let message = format!("the host cannot read memory of {:?}", self.device);
            return Err(Error::invalid(OPERATION, message));
        }
        let (dims, size) = (self.array_type.dims(), self.array_type.element_type().host_size());
        let mut bytes = Vec::with_capacity(self.array_type.host_bytes());
        let mut index = vec![0_i64; dims.len()];
        let start = self.address() as *const u8;
        loop {
            let steps = index.iter().zip(&self.strides);
            let offset: i64 = steps.map(|(&index, &stride)| index * stride).sum();
            // SAFETY: the producer guarantees that every element is inside the memory.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(start.offset(offset as isize * size as isize), size)
            });
            let Some(axis) = (0..dims.len()).rev().find(|&axis| index[axis] + 1 < dims[axis])
            else {
                return Ok(bytes);
            };
            index[axis] += 1;
            index[axis + 1..].fill(0);
        }
    }
}

impl DlpackDevice {
    fn from_raw(device: RawDevice) -> Self {
        match device.device_type {
            CPU => Self::Cpu,
            CUDA => Self::Cuda(device.device_id),
            ROCM => Self::Rocm(device.device_id),
            other => Self::Other(other, device.device_id),
        }
    }

    fn to_raw(self) -> RawDevice {
        let (device_type, device_id) = match self {
            Self::Cpu => (CPU, 0),
            Self::Cuda(id) => (CUDA, id),
            Self::Rocm(id) => (ROCM, id),
            Self::Other(device_type, id) => (device_type, id),
        };
        RawDevice { device_type, device_id }
    }

    /// Returns the device under its number in DLPack.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a device that DLPack does not have.
    pub fn of(device: &PjrtDevice) -> Result<Self> {
        let platform = device.client().platform_name().to_lowercase();
        let id = device.local_hardware_id().unwrap_or_else(|| device.id());
        match platform.as_str() {
            _ if device.client().is_cpu() => Ok(Self::Cpu),
            "cuda" | "gpu" => Ok(Self::Cuda(id)),
            "rocm" => Ok(Self::Rocm(id)),
            _ => Err(Error::invalid(OPERATION, format!("a {platform} device has no number"))),
        }
    }
}

/// # Safety
/// The fields are valid.
unsafe fn described(raw: &RawTensor) -> Result<(ArrayType, Dims)> {
    let element_type = element_type_of(raw.dtype).ok_or_else(|| {
        let RawType { code, bits, lanes } = raw.dtype;
        let message =
            format!("type code {code} with {bits} bits and {lanes} lanes is not supported");
        Error::invalid(OPERATION, message)
    })?;
    let rank = usize::try_from(raw.ndim)
        .map_err(|_| Error::invalid(OPERATION, format!("the tensor has {} axes", raw.ndim)))?;
    if rank > 0 && raw.shape.is_null() {
        return Err(Error::invalid(OPERATION, "the tensor has no shape"));
    }
    // SAFETY: the caller guarantees the lengths.
    let dims = unsafe { crate::api::slice(raw.shape.cast_const(), rank) };
    let array_type = ArrayType::new(element_type, dims)?;
    if raw.data.is_null() && array_type.host_bytes() > 0 {
        return Err(Error::invalid(OPERATION, "the tensor has no address"));
    }
    let strides = match raw.strides.is_null() {
        true => row_major(dims),
        // SAFETY: as above.
        false => Dims::from_slice(unsafe { crate::api::slice(raw.strides.cast_const(), rank) }),
    };
    Ok((array_type, strides))
}

fn row_major(dims: &[i64]) -> Dims {
    let mut strides: Dims = dims.iter().map(|_| 1).collect();
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis].max(1));
    }
    strides
}

/// Returns true if DLPack has the element type.
pub fn is_dlpack_type(element_type: ElementType) -> bool {
    type_of(element_type).is_some()
}

/// Calls the deleter.
///
/// # Safety
/// The tensor is owned and not used afterwards.
unsafe fn release(managed: &Managed) {
    // SAFETY: the caller guarantees the tensor.
    unsafe {
        match managed {
            Managed::Versioned(tensor) => {
                if let Some(deleter) = (*tensor.as_ptr()).deleter {
                    deleter(tensor.as_ptr());
                }
            }
            Managed::Unversioned(tensor) => {
                if let Some(deleter) = (*tensor.as_ptr()).deleter {
                    deleter(tensor.as_ptr());
                }
            }
        }
    }
}

impl Drop for DlpackTensor {
    fn drop(&mut self) {
        // SAFETY: the tensor is owned by this value.
        unsafe { release(&self.managed) }
    }
}

/// # Safety
/// A tensor of this crate, which is not used afterwards.
unsafe extern "C" fn delete_versioned(tensor: *mut Versioned) {
    // SAFETY: both boxes were leaked when the tensor was made.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.manager.cast::<Produced>()));
    }
}

/// # Safety
/// A tensor of this crate, which is not used afterwards.
unsafe extern "C" fn delete_unversioned(tensor: *mut Unversioned) {
    // SAFETY: both boxes were leaked when the tensor was made.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.manager.cast::<Produced>()));
    }
}

impl fmt::Debug for DlpackTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DlpackTensor({} on {:?}", self.array_type, self.device)?;
        if !self.is_row_major() {
            write!(f, ", strides {:?}", self.strides.as_slice())?;
        }
        f.write_str(")")
    }
}
