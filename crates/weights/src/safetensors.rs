//! Safetensors files: a JSON header with types and offsets, then the elements.
//!
//! Source: the format's description in the repository of `safetensors` 0.8.

use crate::convert::is_convertible;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::metadata::WeightMetadata;
use crate::source::ByteSource;
use crate::tensor::{ByteOrder, FileRange, ReadElements, StoredTensor};
use crate::weights::Contents;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Longest header, in bytes, which is also the limit of the format's own library.
const MAX_HEADER: u64 = 100_000_000;

/// The key of the file's metadata among the names.
pub(crate) const METADATA: &str = "__metadata__";

/// Names of the format and our types. Six-bit floats are left out, because their packing is not
/// specified.
const DTYPES: [(&str, WeightDType); 20] = [
    ("BOOL", WeightDType::Bool),
    ("F4", WeightDType::F4E2M1FN),
    ("F8_E5M2", WeightDType::F8E5M2),
    ("F8_E4M3", WeightDType::F8E4M3FN),
    ("F8_E8M0", WeightDType::F8E8M0FNU),
    ("F8_E4M3FNUZ", WeightDType::F8E4M3FNUZ),
    ("F8_E5M2FNUZ", WeightDType::F8E5M2FNUZ),
    ("I8", WeightDType::I8),
    ("I16", WeightDType::I16),
    ("I32", WeightDType::I32),
    ("I64", WeightDType::I64),
    ("U8", WeightDType::U8),
    ("U16", WeightDType::U16),
    ("U32", WeightDType::U32),
    ("U64", WeightDType::U64),
    ("BF16", WeightDType::BF16),
    ("F16", WeightDType::F16),
    ("F32", WeightDType::F32),
    ("F64", WeightDType::F64),
    ("C64", WeightDType::C64),
];

/// Returns the format's name of a type, if it has one whose elements take whole bytes.
pub(crate) fn name_of(dtype: WeightDType) -> Option<&'static str> {
    let pair = DTYPES.iter().find(|pair| pair.1 == dtype && dtype != WeightDType::F4E2M1FN);
    pair.map(|pair| pair.0)
}

/// Returns true if the first bytes can be those of a safetensors file of this size.
pub(crate) fn is_safetensors(first: &[u8], size: u64) -> bool {
    header_len(first).is_some_and(|length| length <= size.saturating_sub(8))
        && first.get(8) == Some(&b'{')
}

fn header_len(first: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(first.get(..8)?.try_into().ok()?))
}

/// Reads the header.
pub(crate) fn read(source: &ByteSource) -> Result<Contents> {
    let first = source.read_up_to(0, 8)?;
    let size = source.size();
    let length = header_len(&first).filter(|&length| length <= MAX_HEADER.min(size - 8));
    let Some(length) = length else {
        return Err(Error::new(format!(
            "safetensors, byte 0: the header does not fit into the file of {size} bytes"
        )));
    };
    let text = source.read(8, length)?;
    let header: Header = serde_json::from_slice(&text)
        .map_err(|error| damaged(8, &shortened(&error.to_string())))?;
    let mut entries = header.tensors;
    entries.sort_by_key(|entry| entry.1.data_offsets);
    let mut contents = Contents::default();
    let start = 8 + length;
    let mut end = 0;
    for (name, entry) in entries {
        let tensor = tensor(source, start, &entry, &mut end)
            .map_err(|error| error.within(&format!("tensor `{}`", shortened(&name))))?;
        contents.insert(name, tensor)?;
    }
    if start + end != size {
        let left = size - start;
        return Err(damaged(start, &format!("{left} bytes of elements, the header states {end}")));
    }
    let metadata = header.metadata.into_iter();
    contents.metadata = metadata.map(|(key, text)| (key, WeightMetadata::Text(text))).collect();
    Ok(contents)
}

fn damaged(at: u64, message: &str) -> Error {
    Error::new(format!("safetensors, byte {at}: {message}"))
}

/// Returns the tensor of an entry, which begins where the one before it ends.
fn tensor(source: &ByteSource, start: u64, entry: &Entry, end: &mut u64) -> Result<StoredTensor> {
    let (from, to) = entry.data_offsets;
    let Some(&(_, dtype)) = DTYPES.iter().find(|pair| pair.0 == entry.dtype) else {
        let name = shortened(&entry.dtype);
        return Err(Error::new(format!("the type `{name}` is not supported")));
    };
    let shape = &entry.shape;
    let elements = dtype.byte_len(shape);
    let bytes = match dtype {
        WeightDType::F4E2M1FN => elements.filter(|n| n.is_multiple_of(2)).map(|n| n / 2),
        _ => elements,
    };
    let fits = from == *end && bytes.is_some() && to.checked_sub(from) == bytes;
    let (true, Some(bytes)) = (fits && to <= source.size() - start, bytes) else {
        return Err(damaged(
            start.saturating_add(from),
            &format!("bytes {from} to {to}, behind byte {end}, for {}{shape:?}", entry.dtype),
        ));
    };
    *end = to;
    let range = FileRange {
        source: source.clone(),
        offset: start + from,
        bytes,
        order: ByteOrder::Little,
        width: 1,
    };
    Ok(match dtype {
        WeightDType::F4E2M1FN => StoredTensor::new(dtype, shape.clone(), Packed(range)),
        _ => StoredTensor::new(dtype, shape.clone(), range),
    })
}

/// Elements of four bits, two in a byte, the first in the low half.
struct Packed(FileRange);

impl ReadElements for Packed {
    fn read(&self) -> Result<Vec<u8>> {
        let bytes = self.0.read()?;
        Ok(bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect())
    }
}

#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

struct Header {
    metadata: BTreeMap<String, String>,
    tensors: Vec<(String, Entry)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { metadata: BTreeMap::new(), tensors: Vec::new() };
                let mut seen = BTreeSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` appears twice")));
                    }
                    if name == METADATA {
                        header.metadata = map.next_value::<Option<_>>()?.unwrap_or_default();
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

/// Returns the type in which a tensor is written: its own, or `f32` if the format lacks it.
pub(crate) fn written_dtype(dtype: WeightDType) -> Result<WeightDType> {
    match dtype {
        _ if name_of(dtype).is_some() => Ok(dtype),
        WeightDType::I4 => Ok(WeightDType::I8),
        WeightDType::U4 => Ok(WeightDType::U8),
        _ if is_convertible(dtype, WeightDType::F32) => Ok(WeightDType::F32),
        _ => Err(Error::new(format!(
            "safetensors cannot hold {dtype}; a rule `cast` converts it, or drop it"
        ))),
    }
}
