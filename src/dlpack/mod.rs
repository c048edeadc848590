//! Arrays in memory that frameworks share, by [DLPack](https://dmlc.github.io/dlpack/latest/).
//!
//! [`to_dlpack`] shares the memory of an array with another framework, and [`from_dlpack`] makes an
//! array of another framework's memory. Neither copies where the memory allows it: see there.
//!
//! A framework outside of Rust takes the pointer of
//! [`DlpackTensor::into_versioned_ptr`], and gives one that
//! [`DlpackTensor::from_versioned_ptr`] takes. In Python they are the contents of a capsule.

pub use crate::runtime::{DlpackDevice, DlpackTensor};

use crate::core::{Array, DType, Device, Error, Loc};
use crate::runtime;

/// Options of [`from_dlpack_with`] and [`to_dlpack_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DlpackOptions {
    /// The device of the new array. By default the device of the tensor; for tensors in host
    /// memory, the default device if it is a CPU.
    pub device: Option<Device>,
    /// `Some(true)` copies always, `Some(false)` never: it is an error if the memory cannot be
    /// shared. By default elements are copied only where they cannot be shared.
    pub copy: Option<bool>,
}

/// Returns an array with the elements of a tensor. It shares the memory of the tensor if that is
/// dense and row-major, on the device of the array, and, on a CPU, aligned to 64 bytes. Otherwise
/// the elements are copied.
///
/// The tensor is released when the last array that shares its memory is dropped. The array does not
/// write to the memory: a program that it is donated to works on a copy.
///
/// # Errors
/// `Runtime` if the tensor has a dtype that arrays do not have, or its memory cannot be read.
///
/// ```
/// use oxidax::dlpack::{from_dlpack, to_dlpack};
/// use oxidax::prelude::*;
/// let x = arange(4);
/// let y = from_dlpack(to_dlpack(&x)?)?;
/// assert_eq!(y.unsafe_buffer_pointer()?, x.unsafe_buffer_pointer()?);
/// assert_eq!(y.to_vec::<i32>()?, [0, 1, 2, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.dlpack.from_dlpack")]
#[doc(alias = "jax.numpy.from_dlpack")]
#[track_caller]
pub fn from_dlpack(tensor: DlpackTensor) -> Result<Array, Error> {
    from_dlpack_with(tensor, DlpackOptions::default())
}

/// As [`from_dlpack`], with options.
///
/// # Errors
/// As [`from_dlpack`], and `Runtime` if the memory cannot be shared and must not be copied.
///
/// ```
/// use oxidax::dlpack::{DlpackOptions, from_dlpack_with, to_dlpack};
/// use oxidax::prelude::*;
/// let x = arange(4);
/// let options = DlpackOptions { copy: Some(true), ..DlpackOptions::default() };
/// let y = from_dlpack_with(to_dlpack(&x)?, options)?;
/// assert_ne!(y.unsafe_buffer_pointer()?, x.unsafe_buffer_pointer()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn from_dlpack_with(tensor: DlpackTensor, options: DlpackOptions) -> Result<Array, Error> {
    let loc = Loc::caller();
    let device = options.device.map(|device| device.id());
    runtime::from_dlpack(tensor, device, options.copy).map_err(|error| error.at(loc))
}

/// Returns a tensor that shares the elements of an array on one device, once they are computed.
///
/// The elements stay alive and unchanged until the tensor is released, also if the array is
/// dropped. While the tensor exists, a program that receives the array as donated works on a copy.
/// Consumers must not write to the tensor, which is marked as read-only. Elements that are not
/// row-major in memory are copied.
///
/// Throws `Tracer` if the array is traced.
///
/// # Errors
/// `Runtime` if the array is on several devices or was donated, its dtype is not
/// [supported](is_supported_dtype), or its computation failed.
///
/// ```
/// use oxidax::dlpack::{DlpackDevice, to_dlpack};
/// use oxidax::prelude::*;
/// let tensor = to_dlpack(&zeros([2, 3]))?;
/// assert_eq!(tensor.device(), DlpackDevice::Cpu);
/// assert_eq!(tensor.strides(), [3, 1]);
/// assert!(tensor.is_read_only());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "__dlpack__")]
#[track_caller]
pub fn to_dlpack(array: &Array) -> Result<DlpackTensor, Error> {
    to_dlpack_with(array, DlpackOptions::default())
}

/// As [`to_dlpack`], with options. The array is moved to the device, if there is one.
///
/// Throws `Tracer` if the array is traced.
///
/// # Errors
/// As [`to_dlpack`], and `Runtime` if the memory cannot be shared and must not be copied.
#[track_caller]
pub fn to_dlpack_with(array: &Array, options: DlpackOptions) -> Result<DlpackTensor, Error> {
    let loc = Loc::caller();
    let buffer = array.buffer("its memory");
    let there = options.device.map(|device| crate::core::Placement::Device(device.id()));
    let target = there.filter(|target| runtime::placement_of(array).as_ref() != Some(target));
    let shared = match target {
        None => runtime::to_dlpack(buffer, array.aval(), options.copy),
        Some(target) => runtime::transfer(array, &target, array.aval().memory).and_then(|moved| {
            runtime::to_dlpack(moved.buffer("its memory"), moved.aval(), options.copy)
        }),
    };
    shared.map_err(|error| error.at(loc))
}

/// Returns true if tensors of DLPack have the dtype: all but those below 8 bits.
///
/// ```
/// use oxidax::dlpack::is_supported_dtype;
/// use oxidax::prelude::*;
/// assert!(is_supported_dtype(DType::BF16));
/// assert!(!is_supported_dtype(DType::I4));
/// ```
#[doc(alias = "jax.dlpack.is_supported_dtype")]
pub fn is_supported_dtype(dtype: DType) -> bool {
    runtime::is_dlpack_dtype(dtype)
}
