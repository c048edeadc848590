//! Concrete arrays: buffers on a device.

use super::client::runtime_error;
use crate::core::{Array, Aval, Buffer, DType, Error, Kind};
use std::any::Any;
use std::sync::Arc;

/// A PJRT buffer under an [`Array`].
#[derive(Debug)]
pub(super) struct DeviceBuffer(pub(super) oxidax_pjrt::Buffer);

impl Buffer for DeviceBuffer {
    fn read(&self, dst: &mut [u8]) -> Result<(), Error> {
        self.0.read(dst).map_err(|error| runtime_error("reading an array", error))
    }
    fn ready(&self) -> Result<(), Error> {
        self.0.ready().map_err(|error| runtime_error("waiting for an array", error))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Wraps a buffer.
pub(super) fn wrap(aval: Aval, buffer: oxidax_pjrt::Buffer) -> Array {
    Array::concrete(aval, Arc::new(DeviceBuffer(buffer)))
}

/// The buffer under a concrete array.
pub(super) fn device_buffer(array: &Array) -> Option<&DeviceBuffer> {
    match &array.kind {
        Kind::Concrete(buffer) => (**buffer).as_any().downcast_ref(),
        Kind::Traced { .. } => None,
    }
}

/// How many owners the buffer under an array has; 0 for traced arrays.
pub(crate) fn strong_count(array: &Array) -> usize {
    match &array.kind {
        Kind::Concrete(buffer) => Arc::strong_count(buffer),
        Kind::Traced { .. } => 0,
    }
}

/// Whether an array's buffer has been donated.
pub(crate) fn is_deleted(array: &Array) -> bool {
    device_buffer(array).is_some_and(|buffer| buffer.0.is_deleted())
}

/// The number of a dtype in PJRT.
pub(super) fn element_type(dtype: DType) -> u32 {
    match dtype {
        DType::Bool => 1,
        DType::I8 => 2,
        DType::I16 => 3,
        DType::I32 => 4,
        DType::I64 => 5,
        DType::U8 => 6,
        DType::U16 => 7,
        DType::U32 => 8,
        DType::U64 => 9,
        DType::F16 => 10,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::BF16 => 13,
        DType::C64 => 14,
        DType::C128 => 15,
        DType::F8E5M2 => 16,
        DType::F8E4M3FN => 17,
        DType::F8E4M3B11FNUZ => 18,
        DType::F8E5M2FNUZ => 19,
        DType::F8E4M3FNUZ => 20,
        DType::I4 => 21,
        DType::U4 => 22,
        DType::I2 => 24,
        DType::U2 => 25,
        DType::F8E4M3 => 26,
        DType::F8E3M4 => 27,
        DType::F8E8M0FNU => 28,
        DType::F4E2M1FN => 29,
    }
}
