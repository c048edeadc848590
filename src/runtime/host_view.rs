//! Views of buffers without a copy, and buffers that share host memory.

use super::client::{runtime_error, runtime_of};
use super::default_device::default_device;
use super::device_buffer::{DeviceBuffer, element_type};
use super::placement::{shards, single_device};
use crate::core::host_function::refuse_inside;
use crate::core::options::{TransferDirection, TransferRequest, check_transfer};
use crate::core::spans::{Details, EventKind, Span};
use crate::core::{Array, Aval, Buffer, Error, Loc};
use oxidax_pjrt::SharedView;
use std::sync::Arc;

/// Waits for the elements of a concrete array on one device, and holds their memory.
///
/// # Errors
/// A message of `Runtime` if the array is on several devices, was donated, or its memory is not
/// row-major; `Runtime` if its computation failed.
pub(crate) fn shared_view(buffer: &Arc<dyn Buffer>, aval: &Aval) -> Result<SharedView, Error> {
    const DOING: &str = "viewing an array";
    refuse_inside(DOING)?;
    if single_device(buffer).is_none() {
        let sharding = shards(buffer).sharding().clone();
        return Err(refused(
            DOING,
            format!("{aval} is on several devices: {sharding:?}"),
            "view each of `addressable_shards()`, or copy it to one device with `device_put`",
        ));
    }
    let owner = Arc::new(buffer.clone());
    let view = SharedView::new(owner, |buffer: &Arc<dyn Buffer>| {
        &single_device(buffer).expect("the buffer is on one device").buffer
    });
    view.map_err(|error| runtime_error(DOING, &error))
}

/// Returns the address of the elements of a concrete array on one device.
///
/// # Errors
/// As [`shared_view`].
pub(crate) fn buffer_address(buffer: &Arc<dyn Buffer>, aval: &Aval) -> Result<usize, Error> {
    const DOING: &str = "finding the address of an array";
    refuse_inside(DOING)?;
    let Some(on_device) = single_device(buffer) else {
        return Err(refused(
            DOING,
            format!("{aval} is on several devices"),
            "each of `addressable_shards()` has an address",
        ));
    };
    on_device.buffer.address().map_err(|error| runtime_error(DOING, &error))
}

/// Creates an array on the default device that shares the memory of `owner`, if the device can and
/// the memory is aligned to 64 bytes, and copies it otherwise.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(crate) fn put_shared<T: AsRef<[u8]> + Send + Sync + 'static>(
    owner: Arc<T>,
    aval: &Aval,
) -> Result<Array, Error> {
    const DOING: &str = "copying an array to the device";
    refuse_inside(DOING)?;
    let direction = TransferDirection::HostToDevice;
    check_transfer(direction, TransferRequest::Explicit, aval, Loc::UNKNOWN)?;
    let bytes = (*owner).as_ref().len();
    let _span = Span::within(EventKind::ToDevice, || Details::new("", "bytes", bytes));
    let device = default_device()?;
    let runtime = runtime_of(device.1)?;
    let dims: Vec<i64> = aval.shape.iter().map(|&dim| dim as i64).collect();
    let on_device = runtime.device(device)?;
    let buffer =
        runtime.client.buffer_from_shared(owner, element_type(aval.dtype), &dims, on_device);
    let buffer = buffer.map_err(|error| runtime_error(DOING, &error))?;
    let buffer = buffer.into_unique().expect("a new buffer has one owner");
    let aval = Arc::new(aval.clone());
    let buffer = DeviceBuffer::new(buffer, device, false, &aval);
    Ok(Array::concrete(aval, Arc::new(buffer)))
}

/// Returns an error with a remedy.
pub(super) fn refused(doing: &str, message: String, help: &'static str) -> Error {
    Error::Runtime {
        doing: doing.to_owned(),
        code: None,
        loc: Loc::UNKNOWN,
        message,
        help: Some(help.into()),
    }
}
