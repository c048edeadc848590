//! [`Element`]: host types of array elements.

use crate::core::types::dtype::DType;
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

mod sealed {
    pub trait Sealed {}
}

/// A host type with the memory layout of one dtype: `f32`, `i32`, `bool`, `half::bf16`, ….
///
/// 8-bit floats and sub-byte integers have no host type. Convert them on the device, or use
/// [`Array::to_bytes`](crate::Array::to_bytes).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the host type of an array element",
    note = "element types are bool, i8 to i64, u8 to u64, half::f16, half::bf16, f32, f64, Complex<f32>, Complex<f64>"
)]
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The dtype.
    const DTYPE: DType;
    /// Returns the bytes of a slice in native byte order.
    fn as_bytes(elements: &[Self]) -> &[u8];
    /// Views bytes in native byte order as elements. Returns `None` if the bytes are not aligned
    /// for the type, their number is not a multiple of its size, or they are not values of the
    /// type.
    fn from_bytes(bytes: &[u8]) -> Option<&[Self]>;
    /// As [`from_bytes`](Self::from_bytes), for writing. Bytes that are not values of the type are
    /// changed to ones that are.
    fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;
    /// Returns `count` elements whose bytes `fill` writes.
    ///
    /// # Errors
    /// Errors of `fill`.
    fn read<E>(count: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>)
    -> Result<Vec<Self>, E>;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn as_bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }
            fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
                // The address of an empty slice need not be aligned.
                if bytes.is_empty() {
                    return Some(&[]);
                }
                bytemuck::try_cast_slice(bytes).ok()
            }
            fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
                if bytes.is_empty() {
                    return Some(&mut []);
                }
                bytemuck::try_cast_slice_mut(bytes).ok()
            }
            fn read<E>(
                count: usize,
                fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Vec<Self>, E> {
                let mut elements = vec![bytemuck::Zeroable::zeroed(); count];
                fill(bytemuck::cast_slice_mut::<Self, u8>(&mut elements))?;
                Ok(elements)
            }
        }
    )*};
}

elements!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    bf16 => BF16, f16 => F16, f32 => F32, f64 => F64, Complex32 => C64, Complex64 => C128
);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn as_bytes(elements: &[Self]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }
    fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
        bytemuck::checked::try_cast_slice(bytes).ok()
    }
    fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
        for byte in bytes.iter_mut() {
            *byte = u8::from(*byte != 0);
        }
        bytemuck::checked::try_cast_slice_mut(bytes).ok()
    }
    fn read<E>(
        count: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let mut bytes = vec![0u8; count];
        fill(&mut bytes)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }
}
