//! [`StoredTensor`]: the type of a tensor, and its elements on demand.

use crate::convert::{convert, to_f32};
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::source::ByteSource;
use std::fmt;
use std::sync::Arc;

/// Reads the elements of a tensor: little-endian, in row-major order.
pub(crate) trait ReadElements: Send + Sync {
    fn read(&self) -> Result<Vec<u8>>;
}

/// A tensor of a file. Its elements are read when they are needed. Cloning is cheap.
#[derive(Clone)]
pub struct StoredTensor {
    dtype: WeightDType,
    shape: Vec<usize>,
    elements: Arc<dyn ReadElements>,
    /// The stored names and the steps of rules, for the dry run.
    origin: Option<Arc<str>>,
}

impl StoredTensor {
    pub(crate) fn new(
        dtype: WeightDType,
        shape: Vec<usize>,
        elements: impl ReadElements + 'static,
    ) -> StoredTensor {
        StoredTensor { dtype, shape, elements: Arc::new(elements), origin: None }
    }

    /// Creates a tensor from little-endian elements in row-major order.
    ///
    /// # Errors
    /// If the number of bytes contradicts the type.
    pub fn from_bytes(dtype: WeightDType, shape: &[usize], bytes: Vec<u8>) -> Result<StoredTensor> {
        if dtype.byte_len(shape) != Some(bytes.len() as u64) {
            let found = bytes.len();
            return Err(Error::new(format!("{found} bytes are not a {dtype}{shape:?}")));
        }
        Ok(StoredTensor::new(dtype, shape.to_vec(), Owned(bytes)))
    }

    /// Returns the element type.
    pub fn dtype(&self) -> WeightDType {
        self.dtype
    }

    /// Returns the axis sizes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Reads the elements: little-endian, in row-major order. Elements of four bits take a byte.
    /// Quantized tensors keep the blocks of GGUF.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = self.elements.read()?;
        match self.dtype {
            // Files may leave the high half of a byte undefined.
            WeightDType::I4 => bytes.iter_mut().for_each(|b| *b = ((*b << 4) as i8 >> 4) as u8),
            WeightDType::U4 | WeightDType::F4E2M1FN => bytes.iter_mut().for_each(|b| *b &= 15),
            _ => {}
        }
        if self.dtype.byte_len(&self.shape) != Some(bytes.len() as u64) {
            return Err(Error::new(format!("{} bytes are not a {self}", bytes.len())));
        }
        Ok(bytes)
    }

    /// Reads the elements as `f32`. Quantized ones are dequantized.
    ///
    /// # Errors
    /// As [`read`](StoredTensor::read), and if the elements are complex.
    pub fn read_f32(&self) -> Result<Vec<f32>> {
        to_f32(self.read()?, self.dtype)
    }

    /// Reads the elements and converts them to a float type.
    ///
    /// # Errors
    /// As [`read`](StoredTensor::read), and if the types cannot be converted.
    pub fn read_as(&self, dtype: WeightDType) -> Result<Vec<u8>> {
        convert(self.read()?, self.dtype, dtype)
    }

    /// Returns the stored names of which rules made the tensor, and their steps.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    pub(crate) fn with_origin(mut self, origin: String) -> StoredTensor {
        self.origin = Some(origin.into());
        self
    }
}

impl fmt::Display for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(","))
    }
}

impl fmt::Debug for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTensor({self})")
    }
}

/// Elements in memory.
struct Owned(Vec<u8>);

impl ReadElements for Owned {
    fn read(&self) -> Result<Vec<u8>> {
        Ok(self.0.clone())
    }
}

/// The byte order of stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

/// A range of a file that holds the elements in row-major order.
pub(crate) struct FileRange {
    pub(crate) source: ByteSource,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) order: ByteOrder,
    /// Bytes of the numbers that the order applies to.
    pub(crate) width: usize,
}

impl ReadElements for FileRange {
    fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = self.source.read(self.offset, self.bytes)?;
        to_little_endian(&mut bytes, self.order, self.width);
        Ok(bytes)
    }
}

/// Reverses the bytes of numbers in big-endian order.
pub(crate) fn to_little_endian(bytes: &mut [u8], order: ByteOrder, width: usize) {
    if order == ByteOrder::Big && width > 1 {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}
