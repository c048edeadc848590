//! What the beginning of a safetensors file says.
//!
//! Reference: the format's own description, <https://github.com/huggingface/safetensors>: eight bytes of
//! length, a JSON object, and the elements of all arrays one behind the other, without gaps.

use super::dtypes::{form, from_file, shape_of_noted};
use super::fault::abridged;
use crate::core::{Aval, DType, Shape};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The format's own bound of a header's bytes.
pub(super) const LONGEST_HEADER: u64 = 100_000_000;
/// Names and axes beyond these are damage: nobody's arrays have as many.
const LONGEST_NAME: usize = 4096;
const MOST_AXES: usize = 64;

/// The metadata's key under which dtypes that the format cannot name stand, as a JSON object.
pub(super) const NOTED: &str = "oxidax.dtypes";
/// The header's key that is no array.
const METADATA: &str = "__metadata__";

/// One array of a file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The file's element type.
    pub(super) file: Dtype,
    /// Our element type, if there is one.
    pub(super) dtype: Option<DType>,
    /// The axis sizes, as ours.
    pub(super) shape: Shape,
    /// Where the bytes begin, behind the header, and how many there are.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl Entry {
    /// The type, if arrays can be of it.
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

/// The header's object as it stands there.
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
                    if name.len() > LONGEST_NAME {
                        return Err(A::Error::custom(format!("a name of {} bytes", name.len())));
                    }
                    if !seen.insert(name.clone()) {
                        let message = format!("`{}` stands there twice", abridged(&name));
                        return Err(A::Error::custom(message));
                    }
                    match name == METADATA {
                        true => {
                            let metadata = map.next_value::<Option<BTreeMap<_, _>>>()?;
                            raw.metadata = metadata.unwrap_or_default();
                        }
                        false => raw.arrays.push((name, map.next_value()?)),
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The arrays of a header, which must cover the `available` bytes behind it exactly.
pub(super) fn parse(json: &[u8], available: u64) -> Result<BTreeMap<String, Entry>, String> {
    let text = std::str::from_utf8(json).map_err(|error| format!("the header: {error}"))?;
    let Raw { metadata, mut arrays } = serde_json::from_str(text)
        .map_err(|error| format!("the header: {}", abridged(&error.to_string())))?;
    let mut noted = noted_dtypes(&metadata)?;
    arrays.sort_by_key(|array| array.1.data_offsets);
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (name, info) in arrays {
        let entry = entry(&info, noted.remove(&name), end)
            .map_err(|message| format!("array `{}`: {message}", abridged(&name)))?;
        end += entry.bytes;
        entries.insert(name, entry);
    }
    if let Some(name) = noted.keys().next() {
        return Err(format!("the metadata speaks of `{}`, which is not there", abridged(name)));
    }
    if end != available {
        return Err(format!("{available} bytes of elements, the header says {end}"));
    }
    Ok(entries)
}

fn noted_dtypes(metadata: &BTreeMap<String, String>) -> Result<BTreeMap<String, DType>, String> {
    let Some(noted) = metadata.get(NOTED) else { return Ok(BTreeMap::new()) };
    serde_json::from_str(noted)
        .map_err(|error| format!("the metadata `{NOTED}`: {}", abridged(&error.to_string())))
}

fn entry(info: &TensorInfo, noted: Option<DType>, end: u64) -> Result<Entry, String> {
    let TensorInfo { dtype, shape, data_offsets: (from, to) } = info;
    if shape.len() > MOST_AXES {
        return Err(format!("{} axes, at most {MOST_AXES}", shape.len()));
    }
    let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &dim| bits.checked_mul(dim));
    let bytes = bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8);
    // One behind the other, as the format has it: arrays that share bytes would be copied each.
    let fits = *from as u64 == end && bytes.is_some() && to.checked_sub(*from) == bytes;
    let (Some(bytes), true) = (bytes, fits) else {
        let shape = Shape::new(shape);
        return Err(format!("bytes {from} to {to}, behind byte {end}, for {dtype}{shape}"));
    };
    let (ours, shape) = match noted {
        None => (from_file(*dtype), shape.clone()),
        Some(noted) => match shape_of_noted(noted, *dtype, shape) {
            Some(shape) => (Some(noted), shape),
            None => {
                let shape = Shape::new(shape);
                return Err(format!("the metadata says {noted}, the header {dtype}{shape}"));
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

/// The header of arrays that will stand in this order: eight bytes of length and the JSON text.
pub(super) fn write<'a>(arrays: impl Iterator<Item = (&'a str, DType, &'a [usize])>) -> Vec<u8> {
    let mut noted = BTreeMap::new();
    let mut object = Vec::new();
    let mut end = 0;
    for (name, dtype, shape) in arrays {
        let form = form(dtype, shape);
        let bytes = form.shape.iter().product::<usize>() * form.dtype.bitsize() / 8;
        noted.extend(form.noted.map(|dtype| (name, dtype)));
        let info =
            TensorInfo { dtype: form.dtype, shape: form.shape, data_offsets: (end, end + bytes) };
        end += bytes;
        object.push(format!("{}:{}", json(&name), json(&info)));
    }
    if !noted.is_empty() {
        let noted = BTreeMap::from([(NOTED, json(&noted))]);
        object.insert(0, format!("{}:{}", json(&METADATA), json(&noted)));
    }
    let mut text = format!("{{{}}}", object.join(",")).into_bytes();
    // Blanks, so that the elements begin at a multiple of eight.
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
    fn a_written_header_is_read_back() {
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
    fn headers_that_contradict_themselves_are_refused() {
        let array = r#""a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
        assert!(parse(format!("{{{array}}}").as_bytes(), 8).is_ok());
        refused(
            &format!("{{{array},{array}}}"),
            8,
            expect!["the header: `a` stands there twice at line 1 column 57"],
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
        let noted = r#"{"__metadata__":{"oxidax.dtypes":"{\"a\":\"i4\"}"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        refused(noted, 4, expect!["array `a`: the metadata says i4, the header F32[1]"]);
        let absent = r#"{"__metadata__":{"oxidax.dtypes":"{\"a\":\"i4\"}"}}"#;
        refused(absent, 0, expect!["the metadata speaks of `a`, which is not there"]);
        let kind = r#"{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}"#;
        assert!(parse(kind.as_bytes(), 4).unwrap_err().contains("unknown variant `F33`"));
    }
}
