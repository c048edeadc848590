//! Safetensors as data: arrays on the host.

use crate::core::{Aval, DType, Error};
use crate::data::HostArray;
use crate::data::files::File;
use crate::data::record::Record;
use ::safetensors::{Dtype, SafeTensors};
use std::io;

/// The format's own bound.
const LONGEST_HEADER: u64 = 100_000_000;

/// The arrays of a safetensors file by name, on the host. (A model's are loaded by
/// [`checkpoint::load`](crate::checkpoint::load).)
///
/// As records, row by row: [`Rows::new`](super::Rows::new).
///
/// # Errors
/// [`Error::Io`] naming the file, and the array if it is one: the file is damaged, or has elements narrower
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
    if length > LONGEST_HEADER {
        let message = format!("the header claims {length} bytes, at most {LONGEST_HEADER}");
        return Err(file.damaged(0, message));
    }
    let start = 8 + length;
    let header = handle.exactly(0, start, "the header")?;
    let (_, metadata) = SafeTensors::read_metadata(&header)
        .map_err(|error| file.damaged(8, format!("the header: {error}")))?;
    let end = metadata.tensors().values().map(|tensor| tensor.data_offsets.1).max().unwrap_or(0);
    if start.checked_add(end as u64) != Some(handle.len()) {
        let found = handle.len() - start;
        return Err(refused(format!("{found} bytes of elements, the header says {end}")));
    }
    let mut record = Record::new();
    for (name, tensor) in metadata.tensors() {
        let Some(dtype) = dtype(tensor.dtype) else {
            let dtype = tensor.dtype;
            return Err(refused(format!("array `{name}` is {dtype:?}, which has no whole bytes")));
        };
        let (from, to) = tensor.data_offsets;
        let offset = start + from as u64;
        let bytes = handle.exactly(offset, (to - from) as u64, &format!("array `{name}`"))?;
        if let Some(at) = bytes.iter().position(|&byte| byte > 1).filter(|_| dtype.is_bool()) {
            let message = format!("array `{name}`: {} is no bool", bytes[at]);
            return Err(file.damaged(offset + at as u64, message));
        }
        let array = HostArray::from_bytes(bytes, Aval::new(dtype, &tensor.shape[..]))
            .map_err(|error| refused(format!("array `{name}`: {error}")))?;
        record = record.with(name, array);
    }
    Ok(record)
}

/// Our dtype for the file's, if its elements are whole bytes.
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
