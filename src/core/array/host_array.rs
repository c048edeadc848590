//! [`HostArray`]: elements in the host's memory, as callbacks get and give them.

use crate::core::array::array::Array;
use crate::core::error::throw;
use crate::core::error::{Error, OpErrorKind};
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use crate::core::types::shape::Shape;
use num_complex::Complex64;
use std::panic::Location;

/// An array whose elements lie in the host's memory. No operation applies to it, so it may be used where
/// no program can run: inside a callback.
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
    /// `Op` (shape) if the number of elements is not that of the shape.
    #[track_caller]
    pub fn from_slice<T: Element>(
        elements: &[T],
        shape: impl Into<Shape>,
    ) -> Result<HostArray, Error> {
        HostArray::from_bytes(T::as_bytes(elements).to_vec(), Aval::new(T::DTYPE, shape))
    }

    /// Takes raw elements: row-major, in the machine's byte order, one byte per element for sub-byte dtypes.
    ///
    /// # Errors
    /// As [`HostArray::from_slice`].
    #[track_caller]
    pub fn from_bytes(bytes: Vec<u8>, aval: Aval) -> Result<HostArray, Error> {
        let expected = aval.size().saturating_mul(aval.dtype.host_bytes());
        if bytes.len() != expected {
            let message = format!("{aval} takes {expected} bytes, got {}", bytes.len());
            let place = Some(Location::caller());
            return Err(throw::op_error(OpErrorKind::Shape, "from_bytes", message, place));
        }
        Ok(HostArray { aval, bytes })
    }

    /// The type.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// The axis sizes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// The elements' bytes, row-major, one byte per element for sub-byte dtypes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// `Op` (dtype) if `T` is not the array's dtype.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::DTYPE != self.dtype() {
            let message = format!("asked for {}, the array is {}", T::DTYPE, self.aval);
            let place = Some(Location::caller());
            return Err(throw::op_error(OpErrorKind::DType, "to_vec", message, place));
        }
        T::read(self.aval.size(), |bytes| {
            bytes.copy_from_slice(&self.bytes);
            Ok(())
        })
    }

    /// The one element of an array of size 1.
    ///
    /// # Errors
    /// `Op` if the array has another size or `T` is not its dtype.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        match self.to_vec::<T>()?[..] {
            [element] => Ok(element),
            _ => {
                let message = format!("needs an array with one element, got {}", self.aval);
                let place = Some(Location::caller());
                Err(throw::op_error(OpErrorKind::Shape, "item", message, place))
            }
        }
    }

    /// The example at `index` of the leading axis.
    pub(crate) fn row(&self, index: usize) -> HostArray {
        let shape = self.aval.shape.remove(0);
        let width = shape.iter().product::<usize>() * self.dtype().host_bytes();
        let bytes = self.bytes[index * width..(index + 1) * width].to_vec();
        HostArray { aval: self.aval.with_shape(shape), bytes }
    }

    /// Arrays of one type along a new leading axis; `None` if there is none.
    pub(crate) fn stack(rows: &[HostArray]) -> Option<HostArray> {
        let first = rows.first()?;
        let shape = first.aval.shape.insert(0, rows.len());
        let bytes = rows.iter().flat_map(|row| row.bytes.iter().copied()).collect();
        Some(HostArray { aval: first.aval.with_shape(shape), bytes })
    }

    /// Every element as a complex double; integers beyond 2^53 are rounded.
    pub(crate) fn numbers(&self) -> Vec<Complex64> {
        let dtype = self.dtype();
        let width = dtype.host_bytes().max(1);
        self.bytes.chunks_exact(width).map(|bytes| number(dtype, bytes)).collect()
    }

    /// Every element of an integer or boolean array.
    pub(crate) fn integers(&self) -> Vec<i128> {
        let dtype = self.dtype();
        self.bytes.chunks_exact(dtype.host_bytes()).map(|bytes| integer(dtype, bytes)).collect()
    }
}

impl Array {
    /// Copies the elements to the host, waiting for them.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    #[track_caller]
    #[doc(alias = "device_get")]
    pub fn to_host(&self) -> Result<HostArray, Error> {
        Ok(HostArray { aval: self.aval().clone(), bytes: self.to_bytes()? })
    }
}

fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let bits = dtype.bits() as u32;
    let kept = if bits == 64 { unsigned } else { unsigned & ((1 << bits) - 1) };
    match dtype.is_signed() && kept >> (bits - 1) == 1 {
        true => i128::from(kept) - (1i128 << bits),
        false => i128::from(kept),
    }
}

fn number(dtype: DType, bytes: &[u8]) -> Complex64 {
    let f32_at = |at: usize| {
        f64::from(f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
    };
    let f64_at = |at: usize| {
        let mut wide = [0; 8];
        wide.copy_from_slice(&bytes[at..at + 8]);
        f64::from_le_bytes(wide)
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

/// The value of a float of eight bits or fewer.
///
/// Reference: OCP 8-bit floating point specification 1.0 and microscaling formats 1.0 (2023); for the
/// FNUZ kinds Noune et al., arXiv:2206.02915.
pub(in crate::core) fn small_float(dtype: DType, byte: u8) -> f64 {
    // Bits of exponent and mantissa, and the exponent's offset.
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        DType::F8E8M0FNU => {
            return if byte == 0xFF { f64::NAN } else { 2f64.powi(i32::from(byte) - 127) };
        }
        DType::F4E2M1FN => (2, 1, 1),
        DType::F8E3M4 => (3, 4, 3),
        DType::F8E4M3 | DType::F8E4M3FN => (4, 3, 7),
        DType::F8E4M3B11FNUZ => (4, 3, 11),
        DType::F8E4M3FNUZ => (4, 3, 8),
        DType::F8E5M2 => (5, 2, 15),
        _ => (5, 2, 16),
    };
    let one_nan = matches!(dtype, DType::F8E4M3B11FNUZ | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ);
    let width = 1 + exponent_bits + mantissa_bits;
    let negative = byte >> (width - 1) & 1 == 1;
    let exponent = i32::from(byte >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let mantissa = i32::from(byte) & ((1 << mantissa_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let magnitude = match dtype {
        _ if one_nan && byte == 0x80 => f64::NAN,
        DType::F8E4M3FN if exponent == top && mantissa == 7 => f64::NAN,
        _ if dtype.has_infinity() && exponent == top => match mantissa {
            0 => f64::INFINITY,
            _ => f64::NAN,
        },
        _ if exponent == 0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if negative { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_have_their_published_extremes() {
        for dtype in DType::all().filter(|dtype| dtype.is_float() && dtype.bits() <= 8) {
            let n = 1u16 << dtype.bits();
            let values: Vec<f64> = (0..n).map(|byte| small_float(dtype, byte as u8)).collect();
            let finite = values.iter().copied().filter(|x| x.is_finite());
            assert_eq!(finite.fold(0.0, f64::max), dtype.float_max(), "{dtype}");
            assert_eq!(values.iter().any(|x| x.is_infinite()), dtype.has_infinity(), "{dtype}");
            let one = values.iter().position(|x| *x == 1.0).unwrap();
            assert_eq!(values[one + 1] - 1.0, dtype.epsilon(), "{dtype}");
        }
    }

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
