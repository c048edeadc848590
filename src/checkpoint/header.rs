//! The header of a safetensors file.
//!
//! Reference: <https://github.com/huggingface/safetensors>. The file holds eight bytes of header
//! length, a JSON object, and the elements of all arrays without gaps.

use super::dtypes::{from_file, recorded_shape, stored_form};
use super::fault::abridged;
use crate::core::{Aval, DType, Shape};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The format's limit for the header, in bytes.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Longer names and more axes are treated as damage.
const MAX_NAME_BYTES: usize = 4096;
const MAX_AXES: usize = 64;

/// The metadata key that records dtypes without a name in the format, as a JSON object.
pub(super) const RECORDED_DTYPES: &str = "oxidax.dtypes";
/// The header key that is not an array.
const METADATA: &str = "__metadata__";

/// One array of a file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The file's element type.
    pub(super) file: Dtype,
    /// Our element type, if there is one.
    pub(super) dtype: Option<DType>,
    /// The axis sizes of our dtype.
    pub(super) shape: Shape,
    /// Offset of the bytes after the header, and their number.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl Entry {
    /// Returns the type, if arrays can have it.
    pub(super) fn aval(&self) -> Option<Aval> {
        self.dtype.map(|dtype| Aval::new(dtype, self.shape.clone()))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}{}", self.shape),
            None => write!(f, "{}{}", self.file, self.shape),
        }
    }
}

/// The header's JSON object.
struct Raw {
    metadata: BTreeMap<String, String>,
    arrays: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arrays")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw { metadata: BTreeMap::new(), arrays: Vec::new() };
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name.len() > MAX_NAME_BYTES {
                        return Err(A::Error::custom(format!("a name of {} bytes", name.len())));
                    }
                    if !seen.insert(name.clone()) {
                        let message = format!("`{}` appears twice", abridged(&name));
                        return Err(A::Error::custom(message));
                    }
                    if name == METADATA {
                        let metadata = map.next_value::<Option<BTreeMap<_, _>>>()?;
                        raw.metadata = metadata.unwrap_or_default();
                    } else {
                        raw.arrays.push((name, map.next_value()?))
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Parses a header. Its arrays must cover the `available` bytes after it exactly.
pub(super) fn parse(json: &[u8], available: u64) -> Result<BTreeMap<String, Entry>, String> {
    let text = std::str::from_utf8(json).map_err(|error| format!("the header: {error}"))?;
    let Raw { metadata, mut arrays } = serde_json::from_str(text)
        .map_err(|error| format!("the header: {}", abridged(&error.to_string())))?;
    let mut recorded = recorded_dtypes(&metadata)?;
    arrays.sort_by_key(|array| array.1.data_offsets);
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (name, info) in arrays {
        let entry = entry(&info, recorded.remove(&name), end)
            .map_err(|message| format!("array `{}`: {message}", abridged(&name)))?;
        end += entry.bytes;
        entries.insert(name, entry);
    }
    if let Some(name) = recorded.keys().next() {
        return Err(format!("the metadata names `{}`, which is missing", abridged(name)));
    }
    if end != available {
        return Err(format!("{available} bytes of elements, the header says {end}"));
    }
    Ok(entries)
}

fn recorded_dtypes(metadata: &BTreeMap<String, String>) -> Result<BTreeMap<String, DType>, String> {
    let Some(recorded) = metadata.get(RECORDED_DTYPES) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(recorded).map_err(|error| {
        format!("the metadata `{RECORDED_DTYPES}`: {}", abridged(&error.to_string()))
    })
}

fn entry(info: &TensorInfo, recorded: Option<DType>, end: u64) -> Result<Entry, String> {
    let TensorInfo { dtype, shape, data_offsets: (from, to) } = info;
    if shape.len() > MAX_AXES {
        return Err(format!("{} axes, at most {MAX_AXES}", shape.len()));
    }
    let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &dim| bits.checked_mul(dim));
    let bytes = bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8);
    // The format demands arrays without gaps or overlaps.
    let fits = *from as u64 == end && bytes.is_some() && to.checked_sub(*from) == bytes;
    let (Some(bytes), true) = (bytes, fits) else {
        let shape = Shape::new(shape);
        return Err(format!("bytes {from} to {to}, behind byte {end}, for {dtype}{shape}"));
    };
    let (ours, shape) = match recorded {
        None => (from_file(*dtype), shape.clone()),
        Some(recorded) => match recorded_shape(recorded, *dtype, shape) {
            Some(shape) => (Some(recorded), shape),
            None => {
                let shape = Shape::new(shape);
                return Err(format!("the metadata says {recorded}, the header {dtype}{shape}"));
            }
        },
    };
    Ok(Entry {
        file: *dtype,
        dtype: ours,
        shape: Shape::new(&shape),
        start: end,
        bytes: bytes as u64,
    })
}

/// Returns the header of arrays stored in this order: eight bytes of length and the JSON text.
pub(super) fn write<'a>(arrays: impl Iterator<Item = (&'a str, DType, &'a [usize])>) -> Vec<u8> {
    let mut recorded = BTreeMap::new();
    let mut object = Vec::new();
    let mut end = 0;
    for (name, dtype, shape) in arrays {
        let stored = stored_form(dtype, shape);
        let bytes = stored.shape.iter().product::<usize>() * stored.dtype.bitsize() / 8;
        recorded.extend(stored.recorded.map(|dtype| (name, dtype)));
        let info = TensorInfo {
            dtype: stored.dtype,
            shape: stored.shape,
            data_offsets: (end, end + bytes),
        };
        end += bytes;
        object.push(format!("{}:{}", json(&name), json(&info)));
    }
    if !recorded.is_empty() {
        let recorded = BTreeMap::from([(RECORDED_DTYPES, json(&recorded))]);
        object.insert(0, format!("{}:{}", json(&METADATA), json(&recorded)));
    }
    let mut text = format!("{{{}}}", object.join(",")).into_bytes();
    // Padding with blanks aligns the elements to eight bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    header
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and lists of them are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn refused(json: &str, available: u64, expected: Expect) {
        expected.assert_eq(&parse(json.as_bytes(), available).unwrap_err());
    }

    #[test]
    fn written_headers_are_parsed_again() {
        let arrays = [
            ("c", DType::C128, &[2usize, 3][..]),
            ("\"é\"\n", DType::F32, &[]),
            ("i", DType::I4, &[5]),
            ("empty", DType::F64, &[0, 4]),
        ];
        let bytes = write(arrays.into_iter());
        assert!(bytes.len().is_multiple_of(8));
        let entries = parse(&bytes[8..], 96 + 4 + 5).unwrap();
        for (name, dtype, shape) in arrays {
            assert_eq!(entries[name].aval(), Some(Aval::new(dtype, shape)));
        }
        assert_eq!((entries["i"].start, entries["i"].bytes), (100, 5));
    }

    #[test]
    fn contradictory_headers_are_refused() {
        let array = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
        assert!(parse(format!("{{{array}}}").as_bytes(), 8).is_ok());
        refused(
            &format!("{{{array},{array}}}"),
            8,
            expect!["the header: `a` appears twice at line 1 column 57"],
        );
        refused(&format!("{{{array}}}"), 12, expect!["12 bytes of elements, the header says 8"]);
        let gap = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
        refused(gap, 12, expect!["array `a`: bytes 4 to 12, behind byte 0, for F32[2]"]);
        let huge = r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
        refused(
            huge,
            0,
            expect!["array `a`: bytes 0 to 0, behind byte 0, for F32[4294967296,4294967296]"],
        );
        let recorded = concat!(
            r#"{"__metadata__":{"oxidax.dtypes":"{\"a\":\"i4\"}"},"#,
            r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#
        );
        refused(recorded, 4, expect!["array `a`: the metadata says i4, the header F32[1]"]);
        let absent = r#"{"__metadata__":{"oxidax.dtypes":"{\"a\":\"i4\"}"}}"#;
        refused(absent, 0, expect!["the metadata names `a`, which is missing"]);
        let kind = r#"{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}"#;
        assert!(parse(kind.as_bytes(), 4).unwrap_err().contains("unknown variant `F33`"));
    }
}
