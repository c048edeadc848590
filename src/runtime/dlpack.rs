//! Arrays as tensors of DLPack, and back.

use super::client::{runtime_error, runtime_of};
use super::default_device::default_device;
use super::device_buffer::{DeviceBuffer, array_type, dtype_of, element_type};
use super::host_view::{refused, shared_view};
use super::placement::single_device;
use crate::core::host_function::refuse_inside;
use crate::core::{Array, Aval, Buffer, DType, DeviceId, Error};
use oxidax_pjrt::{AlignedBytes, DlpackDevice, DlpackTensor};
use std::sync::Arc;

/// Returns true if DLPack has the dtype.
pub(crate) fn is_dlpack_dtype(dtype: DType) -> bool {
    oxidax_pjrt::is_dlpack_type(element_type(dtype))
}

/// Shares the elements of a concrete array on one device. A copy is made if `copy` is true, or
/// the elements are not row-major in memory, unless `copy` is false.
///
/// # Errors
/// `Runtime` if the array cannot be shared, or its computation failed.
pub(crate) fn to_dlpack(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    copy: Option<bool>,
) -> Result<DlpackTensor, Error> {
    const DOING: &str = "sharing an array by DLPack";
    refuse_inside(DOING)?;
    let failed = |error| runtime_error(DOING, &error);
    let shared = match copy {
        Some(true) if single_device(buffer).is_some() => None,
        _ => match shared_view(buffer, aval) {
            Ok(view) => Some(view),
            Err(error) if copy == Some(false) || single_device(buffer).is_none() => {
                return Err(error);
            }
            Err(error) if super::is_deleted(buffer) => return Err(error),
            // The elements are copied, which reports the error of their computation.
            Err(_) => None,
        },
    };
    if let Some(view) = shared {
        return DlpackTensor::of_view(view).map_err(failed);
    }
    let mut bytes = AlignedBytes::zeroed(aval.size() * aval.dtype.host_bytes());
    buffer.read(&mut bytes)?;
    DlpackTensor::of_copy(bytes, array_type(aval).map_err(failed)?).map_err(failed)
}

/// Creates an array on `device`, or the device of the tensor, or else the default device. It shares
/// the memory of the tensor where it can, unless `copy` is true.
///
/// # Errors
/// `Runtime` if the memory must not be copied and cannot be shared, or cannot be read.
pub(crate) fn from_dlpack(
    tensor: DlpackTensor,
    device: Option<DeviceId>,
    copy: Option<bool>,
) -> Result<Array, Error> {
    const DOING: &str = "taking an array by DLPack";
    refuse_inside(DOING)?;
    let failed = |error| runtime_error(DOING, &error);
    let id = match device {
        Some(id) => id,
        None => device_of(tensor.device())?,
    };
    let runtime = runtime_of(id.1)?;
    let on_device = runtime.device(id)?;
    let array_type = tensor.array_type().clone();
    let dtype = dtype_of(array_type.element_type()).ok_or_else(|| {
        let message = format!("{array_type} has elements that arrays do not have");
        refused(DOING, message, "convert it to another type first")
    })?;
    let dims: Vec<usize> = array_type.dims().iter().map(|&dim| dim as usize).collect();
    let aval = Arc::new(Aval::new(dtype, dims));
    let text = format!("{tensor:?}");
    let shared = match copy {
        Some(true) => Err(tensor),
        _ => runtime.client.buffer_from_dlpack(tensor, on_device).map_err(failed)?,
    };
    let buffer = match shared {
        Ok(buffer) => buffer,
        Err(tensor) if copy == Some(false) && array_type.host_bytes() > 0 => {
            let address = tensor.address();
            return Err(refused(
                DOING,
                format!("{text} at address {address:#x} cannot be shared with {on_device}"),
                "allow a copy; memory is shared if it is on the device, dense and row-major, and \
                 on a CPU aligned to 64 bytes",
            ));
        }
        Err(tensor) => match tensor.to_vec() {
            Ok(bytes) => {
                let dims = array_type.dims();
                let element_type = array_type.element_type();
                runtime.client.buffer_from_host(&bytes, element_type, dims, on_device)
            }
            // Memory of a device is shared with an array there, which is copied.
            Err(error) => return through_device(tensor, id).unwrap_or_else(|| Err(failed(error))),
        }
        .map_err(failed)?,
    };
    let buffer = buffer.into_unique().expect("a new buffer has one owner");
    let buffer = DeviceBuffer::new(buffer, id, device.is_some(), &aval);
    Ok(Array::concrete(aval, Arc::new(buffer)))
}

/// Copies a tensor in the memory of a device; `None` if this process does not have the device.
fn through_device(tensor: DlpackTensor, to: DeviceId) -> Option<Result<Array, Error>> {
    let there = device_of(tensor.device()).ok()?;
    if matches!(tensor.device(), DlpackDevice::Cpu) || !tensor.is_row_major() {
        return None;
    }
    let shared = match from_dlpack(tensor, Some(there), Some(false)) {
        Ok(shared) => shared,
        Err(error) => return Some(Err(error)),
    };
    let target = crate::core::Placement::Device(to);
    if there != to {
        return Some(super::transfer(&shared, &target, shared.aval().memory));
    }
    let copied = |buffer: &Arc<dyn Buffer>| {
        let source = &single_device(buffer).expect("the tensor is on one device").buffer;
        let memory = shared.aval().memory;
        let copy = super::transfer::copy_between(source, memory, to, memory)?;
        let aval = shared.shared_aval().clone();
        let copy = DeviceBuffer::new(copy, to, true, &aval);
        Ok(Array::concrete(aval, Arc::new(copy)))
    };
    match &shared.kind {
        crate::core::Kind::Concrete(buffer) => Some(copied(buffer)),
        crate::core::Kind::Traced { .. } => None,
    }
}

/// Returns the device of this process with a number of DLPack: the default device for host memory.
fn device_of(device: DlpackDevice) -> Result<DeviceId, Error> {
    let default = default_device()?;
    let platform = match device {
        DlpackDevice::Cpu if runtime_of(default.1)?.client.is_cpu() => return Ok(default),
        DlpackDevice::Cpu => "cpu",
        DlpackDevice::Cuda(_) => "cuda",
        DlpackDevice::Rocm(_) => "rocm",
        _ => return Ok(default),
    };
    let runtime = runtime_of(super::client::platform_named(platform)?)?;
    let is_it = |local: &&oxidax_pjrt::PjrtDevice| {
        DlpackDevice::of(local).is_ok_and(|known| known == device)
    };
    match runtime.local.iter().find(is_it) {
        Some(local) => Ok(DeviceId(local.id(), runtime.platform)),
        None => Err(refused(
            "taking an array by DLPack",
            format!("this process does not have the device {device:?}"),
            "pass the `device` to copy to",
        )),
    }
}
