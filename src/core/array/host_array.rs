//! [`HostArray`]: arrays in host memory, the arguments and results of callbacks.

use crate::core::array::array::Array;
use crate::core::error::loc::Loc;
use crate::core::error::throw;
use crate::core::error::{Error, OpErrorKind};
use crate::core::options::{TransferDirection, TransferRequest, check_transfer, is_outside};
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use crate::core::types::shape::Shape;
use crate::core::types::small_float::small_float;
use num_complex::Complex64;
use std::panic::Location;

/// An array in host memory. No operation applies to it, so it can be used where no program runs,
/// for example inside a callback.
///
/// ```
/// use oxidax::core::HostArray;
/// let x = HostArray::from_slice(&[1.0f32, 2.5], [2])?;
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.5]);
/// assert_eq!(x.to_string(), "[1.  2.5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    aval: Aval,
    bytes: Vec<u8>,
}

impl HostArray {
    /// Copies `elements`, row-major.
    ///
    /// # Errors
    /// `Op` (shape) if the number of elements differs from the size of the shape.
    #[track_caller]
    pub fn from_slice<T: Element>(
        elements: &[T],
        shape: impl Into<Shape>,
    ) -> Result<HostArray, Error> {
        HostArray::from_bytes(T::as_bytes(elements).to_vec(), Aval::new(T::DTYPE, shape))
    }

    /// Takes raw elements, row-major in native byte order. Sub-byte dtypes take one byte per
    /// element.
    ///
    /// # Errors
    /// As [`HostArray::from_slice`].
    #[track_caller]
    pub fn from_bytes(bytes: Vec<u8>, aval: Aval) -> Result<HostArray, Error> {
        let expected = aval.size().saturating_mul(aval.dtype.host_bytes());
        if bytes.len() != expected {
            let message = format!("{aval} takes {expected} bytes, got {}", bytes.len());
            let loc = Loc::caller();
            return Err(throw::op_error(OpErrorKind::Shape, "from_bytes", message, loc));
        }
        Ok(HostArray { aval, bytes })
    }

    /// Returns the type.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// Returns the axis sizes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// Returns the bytes of the elements, row-major. Sub-byte dtypes take one byte per element.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the elements, row-major.
    ///
    /// # Errors
    /// `Op` (dtype) if `T` is not the array's dtype.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::DTYPE != self.dtype() {
            let message = format!("asked for {}, the array is {}", T::DTYPE, self.aval);
            let loc = Loc::caller();
            return Err(throw::op_error(OpErrorKind::DType, "to_vec", message, loc));
        }
        T::read(self.aval.size(), |bytes| {
            bytes.copy_from_slice(&self.bytes);
            Ok(())
        })
    }

    /// Returns the element of an array of size 1.
    ///
    /// # Errors
    /// `Op` if the size is not 1 or `T` is not the array's dtype.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        match self.to_vec::<T>()?[..] {
            [element] => Ok(element),
            _ => {
                let message = format!("needs an array with one element, got {}", self.aval);
                let loc = Loc::caller();
                Err(throw::op_error(OpErrorKind::Shape, "item", message, loc))
            }
        }
    }

    /// Returns the sub-array at `index` of the leading axis.
    pub(crate) fn row(&self, index: usize) -> HostArray {
        let shape = self.aval.shape.remove(0);
        let width = shape.iter().product::<usize>() * self.dtype().host_bytes();
        let bytes = self.bytes[index * width..(index + 1) * width].to_vec();
        HostArray { aval: self.aval.with_shape(shape), bytes }
    }

    /// Stacks arrays of one type along a new leading axis. Returns `None` if `rows` is empty.
    pub(crate) fn stack(rows: &[HostArray]) -> Option<HostArray> {
        let first = rows.first()?;
        let shape = first.aval.shape.insert(0, rows.len());
        let bytes = rows.iter().flat_map(|row| row.bytes.iter().copied()).collect();
        Some(HostArray { aval: first.aval.with_shape(shape), bytes })
    }

    /// Returns every element as a complex double. Integers beyond 2^53 are rounded.
    pub(crate) fn numbers(&self) -> Vec<Complex64> {
        self.iter_numbers().collect()
    }

    /// Iterates over the elements as complex doubles, as [`numbers`](Self::numbers).
    pub(crate) fn iter_numbers(&self) -> impl Iterator<Item = Complex64> {
        let dtype = self.dtype();
        let width = dtype.host_bytes().max(1);
        self.bytes.chunks_exact(width).map(move |bytes| number(dtype, bytes))
    }

    /// Returns every element of an integer or boolean array.
    pub(crate) fn integers(&self) -> Vec<i128> {
        let dtype = self.dtype();
        self.bytes.chunks_exact(dtype.host_bytes()).map(|bytes| integer(dtype, bytes)).collect()
    }
}

impl Array {
    /// Waits for the elements and copies them to the host.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    #[track_caller]
    #[doc(alias = "device_get")]
    pub fn to_host(&self) -> Result<HostArray, Error> {
        let loc = Loc::caller();
        if is_outside(Location::caller()) {
            let direction = TransferDirection::DeviceToHost;
            check_transfer(direction, TransferRequest::Explicit, self.aval(), loc)?;
        }
        self.elements(loc).map_err(|error| error.at(loc))
    }

    /// Reads the elements for the line `loc`, without a location for errors.
    #[track_caller]
    pub(super) fn elements(&self, loc: Loc) -> Result<HostArray, Error> {
        Ok(HostArray { aval: self.aval().clone(), bytes: self.read_bytes(loc)? })
    }
}

fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let bits = dtype.bits() as u32;
    let low_bits = if bits == 64 { unsigned } else { unsigned & ((1 << bits) - 1) };
    let is_negative = dtype.is_signed() && low_bits >> (bits - 1) == 1;
    i128::from(low_bits) - if is_negative { 1i128 << bits } else { 0 }
}

fn number(dtype: DType, bytes: &[u8]) -> Complex64 {
    let f32_at = |start: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[start..start + 4]);
        f64::from(f32::from_le_bytes(word))
    };
    let f64_at = |start: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[start..start + 8]);
        f64::from_le_bytes(word)
    };
    let half = || u16::from_le_bytes([bytes[0], bytes[1]]);
    let real = match dtype {
        DType::C64 => return Complex64::new(f32_at(0), f32_at(4)),
        DType::C128 => return Complex64::new(f64_at(0), f64_at(8)),
        DType::F64 => f64_at(0),
        DType::F32 => f32_at(0),
        DType::F16 => half::f16::from_bits(half()).to_f64(),
        DType::BF16 => half::bf16::from_bits(half()).to_f64(),
        _ if dtype.is_float() => small_float(dtype, bytes[0]),
        _ => integer(dtype, bytes) as f64,
    };
    Complex64::new(real, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_integers_keep_their_sign() {
        assert_eq!(integer(DType::I4, &[0x0F]), -1);
        assert_eq!(integer(DType::I4, &[0xFF]), -1);
        assert_eq!(integer(DType::U4, &[0x0F]), 15);
        assert_eq!(integer(DType::I64, &(-2i64).to_le_bytes()), -2);
        assert_eq!(integer(DType::U64, &u64::MAX.to_le_bytes()), i128::from(u64::MAX));
        assert_eq!(integer(DType::Bool, &[1]), 1);
    }

    #[test]
    fn rows_are_examples() {
        let x = HostArray::from_slice(&[1i32, 2, 3, 4, 5, 6], [3, 2]).unwrap();
        assert_eq!(x.row(1), HostArray::from_slice(&[3i32, 4], [2]).unwrap());
        let text = HostArray::from_slice(&[1i32], [2]).unwrap_err().to_string();
        assert!(
            text.starts_with("error[shape]: from_bytes: i32[2] takes 8 bytes, got 4"),
            "{text}"
        );
    }
}
