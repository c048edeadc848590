//! Files of `flax.serialization`: nested maps in MessagePack, with arrays as extension types.
//!
//! Source: `flax/serialization.py` of Flax 0.12 and the MessagePack specification.

use crate::archive::Member;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::metadata::WeightMetadata;
use crate::names::{Budget, MAX_DEPTH};
use crate::source::{ByteSource, Cursor, reserved};
use crate::strided::MAX_AXES;
use crate::tensor::{ByteOrder, FileRange, ReadElements, StoredTensor};
use crate::weights::Contents;
use rmp::Marker;

/// Extension types of arrays, complex numbers and NumPy scalars.
const ARRAY: i8 = 1;
const COMPLEX: i8 = 2;
const SCALAR: i8 = 3;

/// The key that marks an array in chunks, because MessagePack limits objects to 4 GiB.
const CHUNKED: &str = "__msgpack_chunked_array__";

/// Reads the types of all arrays. Elements stay in the file.
pub(crate) fn read(source: &ByteSource) -> Result<Contents> {
    let mut reader = Reader {
        source,
        cursor: source.cursor(0),
        budget: Budget::new(source.size(), source.size()),
        contents: Contents::default(),
    };
    let at = |reader: &Reader<'_>| format!("msgpack, byte {}", reader.cursor.position());
    let value = reader.value(0).map_err(|error| error.within(&at(&reader)))?;
    if reader.cursor.left() > 0 {
        let message = format!("{} bytes follow the value", reader.cursor.left());
        return Err(Error::new(message).within(&at(&reader)));
    }
    reader.flatten(value, "")?;
    Ok(reader.contents)
}

/// A value of the file, without the elements of arrays.
enum Value {
    Nil,
    Scalar(WeightMetadata),
    Bytes,
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    Tensor(StoredTensor, Member),
}

struct Reader<'a> {
    source: &'a ByteSource,
    cursor: Cursor,
    budget: Budget,
    contents: Contents,
}

impl Reader<'_> {
    fn marker(&mut self) -> Result<Marker> {
        Ok(Marker::from_u8(self.cursor.array::<1>()?[0]))
    }

    fn u8(&mut self) -> Result<u64> {
        Ok(self.cursor.array::<1>()?[0].into())
    }

    fn u16(&mut self) -> Result<u64> {
        Ok(u16::from_be_bytes(self.cursor.array()?).into())
    }

    fn u32(&mut self) -> Result<u64> {
        Ok(u32::from_be_bytes(self.cursor.array()?).into())
    }

    fn text(&mut self, count: u64) -> Result<String> {
        let text = String::from_utf8(self.cursor.read_bytes(count)?);
        text.map_err(|_| Error::new("text is not UTF-8"))
    }

    /// Reads a value.
    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(Error::new(format!("more than {MAX_DEPTH} levels of nesting")));
        }
        let marker = self.marker()?;
        Ok(match marker {
            Marker::Null => Value::Nil,
            Marker::True | Marker::False => {
                Value::Scalar(WeightMetadata::Bool(marker == Marker::True))
            }
            Marker::F32 => {
                let value = f32::from_be_bytes(self.cursor.array()?);
                Value::Scalar(WeightMetadata::Float(value.into()))
            }
            Marker::F64 => {
                Value::Scalar(WeightMetadata::Float(f64::from_be_bytes(self.cursor.array()?)))
            }
            Marker::FixStr(count) => Value::Scalar(WeightMetadata::Text(self.text(count.into())?)),
            Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let count = self.length(marker)?;
                Value::Scalar(WeightMetadata::Text(self.text(count)?))
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let count = self.length(marker)?;
                self.cursor.skip(count)?;
                Value::Bytes
            }
            Marker::FixArray(count) => self.list(count.into(), depth)?,
            Marker::Array16 | Marker::Array32 => {
                let count = self.length(marker)?;
                self.list(count, depth)?
            }
            Marker::FixMap(count) => self.map(count.into(), depth)?,
            Marker::Map16 | Marker::Map32 => {
                let count = self.length(marker)?;
                self.map(count, depth)?
            }
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => {
                let count = self.length(marker)?;
                self.extension(count)?
            }
            Marker::Reserved => return Err(Error::new("the marker 0xc1 is not used")),
            _ => Value::Scalar(self.integer(marker)?),
        })
    }

    /// Reads the length behind a marker.
    fn length(&mut self, marker: Marker) -> Result<u64> {
        match marker {
            Marker::Str8 | Marker::Bin8 | Marker::Ext8 => self.u8(),
            Marker::Str16 | Marker::Bin16 | Marker::Ext16 | Marker::Array16 | Marker::Map16 => {
                self.u16()
            }
            _ => self.u32(),
        }
    }

    fn integer(&mut self, marker: Marker) -> Result<WeightMetadata> {
        Ok(WeightMetadata::Int(match marker {
            Marker::FixPos(value) => value.into(),
            Marker::FixNeg(value) => value.into(),
            Marker::U8 => self.u8()? as i64,
            Marker::U16 => self.u16()? as i64,
            Marker::U32 => self.u32()? as i64,
            Marker::U64 => {
                let value = u64::from_be_bytes(self.cursor.array()?);
                match i64::try_from(value) {
                    Ok(value) => value,
                    Err(_) => return Ok(WeightMetadata::Unsigned(value)),
                }
            }
            Marker::I8 => i8::from_be_bytes(self.cursor.array()?).into(),
            Marker::I16 => i16::from_be_bytes(self.cursor.array()?).into(),
            Marker::I32 => i32::from_be_bytes(self.cursor.array()?).into(),
            Marker::I64 => i64::from_be_bytes(self.cursor.array()?),
            _ => return Err(Error::new(format!("{marker:?} is not an integer"))),
        }))
    }

    fn list(&mut self, count: u64, depth: usize) -> Result<Value> {
        // Every value takes a byte at least, so a longer list is wrong before it is allocated.
        self.expect_left(count)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, count: u64, depth: usize) -> Result<Value> {
        self.expect_left(count.saturating_mul(2))?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let name = match self.value(depth + 1)? {
                Value::Scalar(WeightMetadata::Text(text)) => text,
                Value::Scalar(WeightMetadata::Int(value)) => value.to_string(),
                _ => return Err(Error::new("a key is neither text nor an integer")),
            };
            pairs.push((name, self.value(depth + 1)?));
        }
        match pairs.iter().any(|(name, _)| name == CHUNKED) {
            true => self.chunked(pairs),
            false => Ok(Value::Map(pairs)),
        }
    }

    fn expect_left(&self, count: u64) -> Result<()> {
        let left = self.cursor.left();
        match count <= left {
            true => Ok(()),
            false => Err(Error::new(format!("{count} values, but {left} bytes are left"))),
        }
    }

    /// Reads an extension of `count` bytes.
    fn extension(&mut self, count: u64) -> Result<Value> {
        let [kind] = self.cursor.array()?;
        let kind = kind as i8;
        let end = self.cursor.position() + count;
        self.expect_left(count)?;
        let value = match kind {
            ARRAY | SCALAR => self.array()?,
            COMPLEX => {
                self.cursor.skip(count)?;
                Value::Bytes
            }
            other => return Err(Error::new(format!("the extension type {other} is unknown"))),
        };
        if self.cursor.position() != end {
            return Err(Error::new(format!("an array does not end at byte {end}")));
        }
        Ok(value)
    }

    /// Reads an array: its shape, the name of its dtype, and its bytes.
    fn array(&mut self) -> Result<Value> {
        match self.marker()? {
            Marker::FixArray(3) => {}
            other => return Err(Error::new(format!("{other:?} instead of three values"))),
        }
        let rank = match self.marker()? {
            Marker::FixArray(count) => count.into(),
            marker @ (Marker::Array16 | Marker::Array32) => self.length(marker)?,
            other => return Err(Error::new(format!("{other:?} instead of a shape"))),
        };
        if rank > MAX_AXES as u64 {
            return Err(Error::new(format!("{rank} axes, at most {MAX_AXES}")));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            let marker = self.marker()?;
            let size = self.integer(marker)?;
            shape.push(size.as_usize().ok_or_else(|| Error::new("an axis size is negative"))?);
        }
        let dtype = match self.value(MAX_DEPTH)? {
            Value::Scalar(WeightMetadata::Text(name)) => {
                let named = WeightDType::of_numpy(&name);
                let name = shortened(&name);
                named.ok_or_else(|| Error::new(format!("the dtype `{name}` is not supported")))?
            }
            _ => return Err(Error::new("an array has no dtype")),
        };
        let bytes = match self.marker()? {
            marker @ (Marker::Bin8 | Marker::Bin16 | Marker::Bin32) => self.length(marker)?,
            other => return Err(Error::new(format!("{other:?} instead of elements"))),
        };
        if dtype.byte_len(&shape) != Some(bytes) {
            return Err(Error::new(format!("{bytes} bytes are not a {dtype}{shape:?}")));
        }
        let offset = self.cursor.position();
        self.cursor.skip(bytes)?;
        let source = self.source.clone();
        let range = FileRange { source, offset, bytes, order: ByteOrder::Little, width: 1 };
        let member = Member::range(self.source, offset, bytes);
        Ok(Value::Tensor(StoredTensor::new(dtype, shape, range), member))
    }

    /// Joins an array in chunks: `shape` and `chunks` are maps with the keys "0", "1", ….
    fn chunked(&mut self, pairs: Vec<(String, Value)>) -> Result<Value> {
        let (mut shape, mut chunks) = (None, None);
        for (name, value) in pairs {
            match name.as_str() {
                "shape" => shape = Some(in_order(value)?),
                "chunks" => chunks = Some(in_order(value)?),
                _ => {}
            }
        }
        let (Some(shape), Some(chunks)) = (shape, chunks) else {
            return Err(Error::new("an array in chunks has no `shape` or `chunks`"));
        };
        if shape.len() > MAX_AXES {
            return Err(Error::new(format!("{} axes, at most {MAX_AXES}", shape.len())));
        }
        let size = |value: &Value| match value {
            Value::Scalar(size) => size.as_usize(),
            _ => None,
        };
        let shape: Option<Vec<usize>> = shape.iter().map(size).collect();
        let shape = shape.ok_or_else(|| Error::new("an axis size is not a number"))?;
        let mut dtype = None;
        let mut members = Vec::new();
        for chunk in chunks {
            let Value::Tensor(tensor, member) = chunk else {
                return Err(Error::new("a chunk is not an array"));
            };
            if *dtype.get_or_insert(tensor.dtype()) != tensor.dtype() {
                return Err(Error::new("chunks have different dtypes"));
            }
            members.push(member);
        }
        let bytes: u64 = members.iter().map(|member| member.size).sum();
        let dtype = dtype.ok_or_else(|| Error::new("an array has no chunks"))?;
        if dtype.byte_len(&shape) != Some(bytes) {
            return Err(Error::new(format!("chunks of {bytes} bytes are not a {dtype}{shape:?}")));
        }
        let member = Member::range(self.source, 0, 0);
        Ok(Value::Tensor(StoredTensor::new(dtype, shape, Chunks { members, bytes }), member))
    }

    fn flatten(&mut self, value: Value, path: &str) -> Result<()> {
        match value {
            Value::Nil => {}
            Value::Scalar(value) => {
                let path = self.budget.join("", path)?;
                self.contents.metadata.insert(path, value);
            }
            Value::Bytes => {
                let line = self.budget.join("", &format!("`{path}` is bytes"))?;
                self.contents.skipped.push(line);
            }
            Value::List(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    let path = self.budget.join(path, &index.to_string())?;
                    self.flatten(item, &path)?;
                }
            }
            Value::Map(pairs) => {
                for (name, value) in pairs {
                    let path = self.budget.join(path, &name)?;
                    self.flatten(value, &path)?;
                }
            }
            Value::Tensor(tensor, _) => {
                let name = if path.is_empty() { "array" } else { path };
                self.contents.insert(name.to_owned(), tensor)?;
            }
        }
        Ok(())
    }
}

/// Returns the values of a map with the keys "0", "1", … in order.
fn in_order(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::List(items) => Ok(items),
        Value::Map(mut pairs) => {
            let key = |name: &str| name.parse::<u64>().ok();
            pairs.sort_by_key(|(name, _)| key(name));
            let is_counted =
                |(index, (name, _)): (usize, &(String, Value))| key(name) == Some(index as u64);
            match pairs.iter().enumerate().all(is_counted) {
                true => Ok(pairs.into_iter().map(|pair| pair.1).collect()),
                false => Err(Error::new("the parts of an array are not numbered from 0")),
            }
        }
        _ => Err(Error::new("the parts of an array are not a map")),
    }
}

/// The elements of an array in chunks.
struct Chunks {
    members: Vec<Member>,
    bytes: u64,
}

impl ReadElements for Chunks {
    fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = reserved(self.bytes)?;
        for member in &self.members {
            bytes.extend(member.read_all()?);
        }
        Ok(bytes)
    }
}
