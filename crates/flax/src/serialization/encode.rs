//! Writing MessagePack.
//!
//! Source: `flax/serialization.py` of Flax 0.12 and the MessagePack specification.

use super::errors::value_error;
use super::state_dict::StateDict;
use oxidax::prelude::*;
use rmp::encode;
use std::io;

/// Extension type of arrays.
pub(super) const ARRAY: i8 = 1;
/// The key that marks an array in chunks.
pub(super) const CHUNKED: &str = "__msgpack_chunked_array__";
/// Arrays of more bytes are written in chunks of this size, because an object of MessagePack has
/// 4 GiB at most.
const CHUNK_BYTES: usize = 1 << 30;

/// Writes a nested dictionary as MessagePack, as `flax.serialization.msgpack_serialize` does.
///
/// # Errors
/// `Runtime` if the computation of an array failed; `Op` (value) for a dtype that NumPy does not
/// have.
#[track_caller]
pub fn msgpack_serialize(dict: &StateDict) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write(dict, CHUNK_BYTES, &mut bytes)?;
    Ok(bytes)
}

#[track_caller]
pub(super) fn write(dict: &StateDict, chunk_bytes: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let written = match dict {
        StateDict::Map(entries) => {
            length(encode::write_map_len(out, entries.len() as u32))?;
            for (name, value) in entries {
                length(encode::write_str(out, name))?;
                write(value, chunk_bytes, out)?;
            }
            return Ok(());
        }
        StateDict::List(items) => {
            length(encode::write_array_len(out, items.len() as u32))?;
            for item in items {
                write(item, chunk_bytes, out)?;
            }
            return Ok(());
        }
        StateDict::Array(array) => return write_array(array, chunk_bytes, out),
        StateDict::Int(value) => encode::write_sint(out, *value).map(drop),
        StateDict::Float(value) => encode::write_f64(out, *value),
        StateDict::Text(text) => encode::write_str(out, text),
        StateDict::Bytes(bytes) => encode::write_bin(out, bytes),
        StateDict::Bool(value) => return plain(encode::write_bool(out, *value)),
        StateDict::Nil => return plain(encode::write_nil(out)),
    };
    length(written)
}

/// Writes one array, or chunks of a large one.
#[track_caller]
fn write_array(array: &Array, chunk_bytes: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let bytes = array.to_bytes()?;
    let name = numpy_name(array.dtype()).ok_or_else(|| {
        let problem = format!("NumPy does not have the dtype of {}", array.aval());
        value_error("msgpack_serialize", problem)
    })?;
    if bytes.len() <= chunk_bytes {
        return extension(array.shape().dims(), name, &bytes, out);
    }
    let width = bytes.len() / array.size().max(1);
    let chunk = (chunk_bytes / width.max(1)).max(1) * width.max(1);
    length(encode::write_map_len(out, 3))?;
    length(encode::write_str(out, CHUNKED))?;
    plain(encode::write_bool(out, true))?;
    length(encode::write_str(out, "shape"))?;
    length(encode::write_map_len(out, array.rank() as u32))?;
    for (axis, &size) in array.shape().dims().iter().enumerate() {
        length(encode::write_str(out, &axis.to_string()))?;
        length(encode::write_uint(out, size as u64).map(drop))?;
    }
    length(encode::write_str(out, "chunks"))?;
    length(encode::write_map_len(out, bytes.len().div_ceil(chunk) as u32))?;
    for (index, bytes) in bytes.chunks(chunk).enumerate() {
        length(encode::write_str(out, &index.to_string()))?;
        extension(&[bytes.len() / width.max(1)], name, bytes, out)?;
    }
    Ok(())
}

/// Writes the extension of an array: its shape, the name of its dtype, and its bytes.
#[track_caller]
fn extension(shape: &[usize], name: &str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut body = Vec::with_capacity(bytes.len() + 64);
    length(encode::write_array_len(&mut body, 3))?;
    length(encode::write_array_len(&mut body, shape.len() as u32))?;
    for &size in shape {
        length(encode::write_uint(&mut body, size as u64).map(drop))?;
    }
    length(encode::write_str(&mut body, name))?;
    length(encode::write_bin(&mut body, bytes))?;
    length(encode::write_ext_meta(out, body.len() as u32, ARRAY).map(drop))?;
    out.extend_from_slice(&body);
    Ok(())
}

#[track_caller]
fn length<E: encode::RmpWriteErr>(
    written: Result<impl Sized, encode::ValueWriteError<E>>,
) -> Result<(), Error> {
    written.map(drop).map_err(|error| value_error("msgpack_serialize", error.to_string()))
}

#[track_caller]
fn plain(written: Result<(), io::Error>) -> Result<(), Error> {
    written.map_err(|error| value_error("msgpack_serialize", error.to_string()))
}

/// The dtypes that NumPy and `ml_dtypes` have, with their names there.
const NAMES: &[(DType, &str)] = &[
    (DType::Bool, "bool"),
    (DType::I8, "int8"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::U8, "uint8"),
    (DType::U16, "uint16"),
    (DType::U32, "uint32"),
    (DType::U64, "uint64"),
    (DType::F16, "float16"),
    (DType::BF16, "bfloat16"),
    (DType::F32, "float32"),
    (DType::F64, "float64"),
    (DType::C64, "complex64"),
    (DType::C128, "complex128"),
    (DType::F8E4M3FN, "float8_e4m3fn"),
    (DType::F8E5M2, "float8_e5m2"),
    (DType::F8E4M3FNUZ, "float8_e4m3fnuz"),
    (DType::F8E5M2FNUZ, "float8_e5m2fnuz"),
    (DType::F8E4M3B11FNUZ, "float8_e4m3b11fnuz"),
    (DType::F8E4M3, "float8_e4m3"),
    (DType::F8E3M4, "float8_e3m4"),
    (DType::F8E8M0FNU, "float8_e8m0fnu"),
];

fn numpy_name(dtype: DType) -> Option<&'static str> {
    NAMES.iter().find(|(other, _)| *other == dtype).map(|(_, name)| *name)
}

/// Returns the dtype of a name of NumPy.
pub(super) fn dtype_of(name: &str) -> Option<DType> {
    NAMES.iter().find(|(_, other)| *other == name).map(|(dtype, _)| *dtype)
}
