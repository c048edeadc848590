//! Concrete arrays: buffers on a device.

use super::client::runtime_error;
use crate::core::callback::refuse_inside;
use crate::core::{Array, Aval, Buffer, DType, Error, Kind};
use oxidax_pjrt::{ArrayType, ElementType};
use std::any::Any;
use std::sync::Arc;

/// A PJRT buffer under an [`Array`].
#[derive(Debug)]
pub(super) struct DeviceBuffer(pub(super) oxidax_pjrt::Buffer);

impl Buffer for DeviceBuffer {
    fn read(&self, dst: &mut [u8]) -> Result<(), Error> {
        refuse_inside("reading an array")?;
        self.0.to_host(dst).map_err(|error| runtime_error("reading an array", &error))
    }
    fn ready(&self) -> Result<(), Error> {
        refuse_inside("waiting for an array")?;
        self.0.wait().map_err(|error| runtime_error("waiting for an array", &error))
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

/// The type of an array as PJRT knows it.
///
/// # Errors
/// If a size does not fit PJRT's integers.
pub(super) fn array_type(aval: &Aval) -> oxidax_pjrt::Result<ArrayType> {
    let dims: Vec<i64> = aval.shape.iter().map(|&dim| dim as i64).collect();
    ArrayType::new(element_type(aval.dtype), &dims)
}

/// A dtype as PJRT knows it.
pub(super) fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
        DType::I2 => ElementType::S2,
        DType::I4 => ElementType::S4,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U2 => ElementType::U2,
        DType::U4 => ElementType::U4,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F4E2M1FN => ElementType::F4E2M1FN,
        DType::F8E3M4 => ElementType::F8E3M4,
        DType::F8E4M3 => ElementType::F8E4M3,
        DType::F8E4M3B11FNUZ => ElementType::F8E4M3B11FNUZ,
        DType::F8E4M3FN => ElementType::F8E4M3FN,
        DType::F8E4M3FNUZ => ElementType::F8E4M3FNUZ,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::F8E5M2FNUZ => ElementType::F8E5M2FNUZ,
        DType::F8E8M0FNU => ElementType::F8E8M0FNU,
        DType::BF16 => ElementType::Bf16,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
    }
}
