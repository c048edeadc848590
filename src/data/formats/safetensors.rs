//! Safetensors files as data: arrays on the host.

use crate::core::{Aval, DType, Error};
use crate::data::HostArray;
use crate::data::files::File;
use crate::data::record::Record;
use ::safetensors::Dtype;
use ::safetensors::tensor::Metadata;
use std::io;

/// The format's limit for the header, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Reads the arrays of a safetensors file by name, to the host. For models use
/// [`checkpoint::load`](crate::checkpoint::load).
///
/// [`Rows::new`](super::Rows::new) turns them into a source of rows.
///
/// # Errors
/// [`Error::Io`] naming the file and the array if the file is damaged, or has elements narrower
/// than a byte.
///
/// ```no_run
/// use oxidax::data::{self, Rows};
/// let rows = Rows::new(data::safetensors("features.safetensors")?)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn safetensors(file: impl Into<File>) -> Result<Record, Error> {
    let file = file.into();
    let handle = file.open()?;
    let refused =
        |message: String| file.io_error(io::Error::new(io::ErrorKind::InvalidData, message));
    let length = handle.exactly(0, 8, "the length of the header")?;
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    if length > MAX_HEADER_BYTES {
        let message = format!("the header declares {length} bytes, at most {MAX_HEADER_BYTES}");
        return Err(file.damaged(0, message));
    }
    let start = 8 + length;
    let header = handle.exactly(0, start, "the header")?;
    let metadata: Metadata = serde_json::from_slice(&header[8..])
        .map_err(|error| file.damaged(8, format!("the header: {error}")))?;
    let mut tensors: Vec<_> = metadata.tensors().into_iter().collect();
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut record = Record::new();
    let mut end = 0;
    for (name, tensor) in tensors {
        let refused = |message: String| refused(format!("array `{name}`: {message}"));
        let Some(dtype) = dtype(tensor.dtype) else {
            return Err(refused(format!("{:?} has no whole bytes", tensor.dtype)));
        };
        let (from, to) = tensor.data_offsets;
        let dims = tensor.shape.iter();
        let size = dims.copied().try_fold(dtype.host_bytes(), usize::checked_mul);
        // The format demands arrays without gaps or overlaps.
        if from != end || size.is_none() || to.checked_sub(from) != size {
            let shape = &tensor.shape;
            let message = format!("bytes {from} to {to}, after byte {end}, for {dtype}{shape:?}");
            return Err(refused(message));
        }
        end = to;
        let offset = start.saturating_add(from as u64);
        let bytes = handle.exactly(offset, (to - from) as u64, &format!("array `{name}`"))?;
        if let Some(at) = bytes.iter().position(|&byte| byte > 1).filter(|_| dtype.is_bool()) {
            let message = format!("array `{name}`: {} is not a bool", bytes[at]);
            return Err(file.damaged(offset + at as u64, message));
        }
        let array = HostArray::from_bytes(bytes, Aval::new(dtype, &tensor.shape[..]))?;
        record = record.with(name, array);
    }
    if start + end as u64 != handle.len() {
        let found = handle.len() - start;
        return Err(refused(format!("{found} bytes of elements, the header says {end}")));
    }
    Ok(record)
}

/// Returns our dtype for the file's, if its elements are whole bytes.
fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E8M0 => DType::F8E8M0FNU,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::C64 => DType::C64,
        _ => return None,
    })
}
