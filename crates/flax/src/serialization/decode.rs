//! Reading MessagePack.
//!
//! Source: `flax/serialization.py` of Flax 0.12 and the MessagePack specification.

use super::encode::{ARRAY, CHUNKED, dtype_of};
use super::errors::value_error;
use super::state_dict::StateDict;
use oxidax::prelude::*;
use rmp::Marker;
use std::collections::BTreeMap;

/// Extension type of complex numbers.
const COMPLEX: i8 = 2;
/// Extension type of NumPy scalars, which are arrays without axes.
const SCALAR: i8 = 3;
/// The largest number of nested dictionaries.
const MAX_DEPTH: usize = 128;

/// Reads a nested dictionary from MessagePack, as `flax.serialization.msgpack_restore` does.
///
/// # Errors
/// `Op` (value) if the bytes are not what Flax writes.
///
/// ```
/// use oxidax_flax::serialization::{StateDict, msgpack_restore};
/// let dict = msgpack_restore(b"\x81\xa4step\x07")?;
/// assert!(matches!(dict.get("step"), Some(StateDict::Int(7))));
/// assert!(msgpack_restore(b"\x81\xa4st").is_err());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn msgpack_restore(bytes: &[u8]) -> Result<StateDict, Error> {
    let mut reader = Reader { bytes, position: 0 };
    let value = reader.value(0);
    let value = value.and_then(|value| match reader.position == bytes.len() {
        true => Ok(value),
        false => Err(format!("{} bytes follow the value", bytes.len() - reader.position)),
    });
    value.map_err(|problem| {
        value_error("msgpack_restore", format!("byte {}: {problem}", reader.position))
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let end = self.position.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            format!("{count} bytes, but {} are left", self.bytes.len() - self.position)
        })?;
        let taken = &self.bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| "too few bytes".to_owned())
    }

    fn marker(&mut self) -> Read<Marker> {
        Ok(Marker::from_u8(self.array::<1>()?[0]))
    }

    /// Reads the length behind a marker: of 1, 2 or 4 bytes.
    fn length(&mut self, marker: Marker) -> Read<usize> {
        Ok(match marker {
            Marker::FixStr(n) | Marker::FixArray(n) | Marker::FixMap(n) => n.into(),
            Marker::FixExt1 => 1,
            Marker::FixExt2 => 2,
            Marker::FixExt4 => 4,
            Marker::FixExt8 => 8,
            Marker::FixExt16 => 16,
            Marker::Str8 | Marker::Bin8 | Marker::Ext8 => self.array::<1>()?[0].into(),
            Marker::Str16 | Marker::Bin16 | Marker::Ext16 | Marker::Array16 | Marker::Map16 => {
                u16::from_be_bytes(self.array()?).into()
            }
            Marker::Str32 | Marker::Bin32 | Marker::Ext32 | Marker::Array32 | Marker::Map32 => {
                u32::from_be_bytes(self.array()?) as usize
            }
            other => return Err(format!("{other:?} does not have a length")),
        })
    }

    fn text(&mut self, count: usize) -> Read<String> {
        let bytes = self.take(count)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "text is not UTF-8".to_owned())
    }

    fn value(&mut self, depth: usize) -> Read<StateDict> {
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} levels of nesting"));
        }
        let marker = self.marker()?;
        Ok(match marker {
            Marker::Null => StateDict::Nil,
            Marker::True => StateDict::Bool(true),
            Marker::False => StateDict::Bool(false),
            Marker::F32 => StateDict::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => StateDict::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let count = self.length(marker)?;
                StateDict::Text(self.text(count)?)
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let count = self.length(marker)?;
                StateDict::Bytes(self.take(count)?.to_vec())
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                let count = self.length(marker)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(depth + 1)?);
                }
                StateDict::List(items)
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => self.map(marker, depth)?,
            Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32 => self.extension(marker)?,
            Marker::Reserved => return Err("the marker 0xc1 is not used".to_owned()),
            _ => StateDict::Int(self.integer(marker)?),
        })
    }

    fn integer(&mut self, marker: Marker) -> Read<i64> {
        Ok(match marker {
            Marker::FixPos(value) => value.into(),
            Marker::FixNeg(value) => value.into(),
            Marker::U8 => self.array::<1>()?[0].into(),
            Marker::U16 => u16::from_be_bytes(self.array()?).into(),
            Marker::U32 => u32::from_be_bytes(self.array()?).into(),
            Marker::U64 => {
                let value = u64::from_be_bytes(self.array()?);
                i64::try_from(value).map_err(|_| format!("{value} does not fit 64 bits"))?
            }
            Marker::I8 => i8::from_be_bytes(self.array()?).into(),
            Marker::I16 => i16::from_be_bytes(self.array()?).into(),
            Marker::I32 => i32::from_be_bytes(self.array()?).into(),
            Marker::I64 => i64::from_be_bytes(self.array()?),
            other => return Err(format!("{other:?} is not an integer")),
        })
    }

    fn map(&mut self, marker: Marker, depth: usize) -> Read<StateDict> {
        let count = self.length(marker)?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let name = match self.value(depth + 1)? {
                StateDict::Text(text) => text,
                StateDict::Int(value) => value.to_string(),
                _ => return Err("a key is neither text nor an integer".to_owned()),
            };
            entries.insert(name, self.value(depth + 1)?);
        }
        match entries.contains_key(CHUNKED) {
            true => joined(&entries),
            false => Ok(StateDict::Map(entries)),
        }
    }

    fn extension(&mut self, marker: Marker) -> Read<StateDict> {
        let count = self.length(marker)?;
        let kind = self.array::<1>()?[0] as i8;
        let bytes = self.take(count)?;
        let mut inner = Reader { bytes, position: 0 };
        match kind {
            ARRAY | SCALAR => inner.elements(),
            COMPLEX => match inner.value(0)? {
                StateDict::List(parts) => match parts[..] {
                    [StateDict::Float(re), StateDict::Float(im)] => {
                        let bytes = [re.to_le_bytes(), im.to_le_bytes()].concat();
                        array_of(&bytes, DType::C128, &[])
                    }
                    _ => Err("a complex number is not two floats".to_owned()),
                },
                _ => Err("a complex number is not two floats".to_owned()),
            },
            other => Err(format!("the extension type {other} is unknown")),
        }
    }

    /// Reads an array: its shape, the name of its dtype, and its bytes.
    fn elements(&mut self) -> Read<StateDict> {
        let StateDict::List(parts) = self.value(0)? else {
            return Err("an array is not a list".to_owned());
        };
        let [StateDict::List(shape), name, StateDict::Bytes(bytes)] = &parts[..] else {
            return Err("an array is not a shape, a dtype and bytes".to_owned());
        };
        let name = match name {
            StateDict::Text(name) => name.clone(),
            StateDict::Bytes(name) => String::from_utf8_lossy(name).into_owned(),
            _ => return Err("a dtype is not a text".to_owned()),
        };
        let dtype = dtype_of(&name).ok_or_else(|| format!("the dtype `{name}` is unknown"))?;
        array_of(bytes, dtype, &sizes(shape.iter())?)
    }
}

fn array_of(bytes: &[u8], dtype: DType, shape: &[usize]) -> Read<StateDict> {
    let array = Array::from_bytes(bytes, dtype, shape.to_vec());
    array.map(StateDict::Array).map_err(|error| error.to_string())
}

fn sizes<'a>(values: impl Iterator<Item = &'a StateDict>) -> Read<Vec<usize>> {
    let size = |value: &StateDict| match value {
        StateDict::Int(size) => usize::try_from(*size).ok(),
        _ => None,
    };
    values.map(|value| size(value).ok_or_else(|| "an axis size is not a number".into())).collect()
}

/// Joins an array in chunks: `shape` and `chunks` are maps with the keys "0", "1", ….
fn joined(entries: &BTreeMap<String, StateDict>) -> Read<StateDict> {
    let in_order = |name: &str| match entries.get(name) {
        Some(StateDict::Map(entries)) => {
            let item = |index: usize| entries.get(&index.to_string());
            (0..entries.len()).map(item).collect::<Option<Vec<&StateDict>>>()
        }
        _ => None,
    };
    let (Some(shape), Some(chunks)) = (in_order("shape"), in_order("chunks")) else {
        return Err("an array in chunks does not have `shape` or `chunks`".to_owned());
    };
    let arrays: Option<Vec<&Array>> = chunks.into_iter().map(StateDict::as_array).collect();
    let arrays = arrays.ok_or_else(|| "a chunk is not an array".to_owned())?;
    let Some(first) = arrays.first() else {
        return Err("an array does not have a chunk".to_owned());
    };
    let mut bytes = Vec::new();
    for array in &arrays {
        bytes.extend(array.to_bytes().map_err(|error| error.to_string())?);
    }
    array_of(&bytes, first.dtype(), &sizes(shape.into_iter())?)
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    mod on_cpu {
        use super::*;

        #[test]
        fn arrays_in_chunks_are_joined() {
            let array = arange(100).reshape([10, 10]);
            let mut bytes = Vec::new();
            encode::write(&StateDict::Array(array.clone()), 64, &mut bytes).unwrap();
            let restored = msgpack_restore(&bytes).unwrap();
            let restored = restored.as_array().unwrap();
            assert_eq!(restored.shape().dims(), [10, 10]);
            assert_eq!(restored.to_vec::<i32>().unwrap(), array.to_vec::<i32>().unwrap());
        }
    }
}
