//! Reads FlatBuffers: tables, vectors and strings, with every offset checked.
//!
//! The format is described in <https://flatbuffers.dev/internals/>. The accessors of the crate
//! `flatbuffers` are unsafe and expect code from its compiler.

use crate::error::{Error, Result};
use std::cell::Cell;

/// The bytes of a buffer, and how much may still be read from it.
///
/// Offsets can point to one place many times, so a short buffer can describe a huge value. Each
/// table and each copied byte is counted, and a buffer that describes more than [`SHARING`] times
/// its length is refused.
pub(crate) struct Buffer<'a> {
    bytes: &'a [u8],
    left: Cell<usize>,
}

/// The largest number of times that a byte of a buffer may be read on average.
const SHARING: usize = 4;

/// A table: fields that may be absent.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    buffer: &'a Buffer<'a>,
    at: usize,
    /// The position of the table of field offsets, and its length in bytes.
    fields: (usize, usize),
}

/// A vector of elements of one size.
#[derive(Clone, Copy)]
pub(crate) struct Vector<'a> {
    buffer: &'a Buffer<'a>,
    /// The position of the first element.
    at: usize,
    length: usize,
}

impl<'a> Buffer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Buffer<'a> {
        Buffer { bytes, left: Cell::new(bytes.len().saturating_mul(SHARING)) }
    }

    /// Returns the root table.
    pub(crate) fn root(&'a self) -> Result<Table<'a>> {
        self.table(self.offset(0)?)
    }

    fn spend(&self, at: usize, bytes: usize) -> Result<()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| Error::at(at, "its parts are shared too often"))?);
        Ok(())
    }

    fn slice(&self, at: usize, length: usize) -> Result<&'a [u8]> {
        let end = at.checked_add(length);
        let found = end.and_then(|end| self.bytes.get(at..end));
        found.ok_or_else(|| Error::at(at, format!("{length} bytes are beyond its end")))
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        self.slice(at, N).map(|bytes| std::array::from_fn(|index| bytes[index]))
    }

    fn u16(&self, at: usize) -> Result<usize> {
        Ok(u16::from_le_bytes(self.array(at)?).into())
    }

    /// Returns the position to which an offset points.
    fn offset(&self, at: usize) -> Result<usize> {
        let offset = u32::from_le_bytes(self.array(at)?) as usize;
        at.checked_add(offset).ok_or_else(|| Error::at(at, "an offset is too large"))
    }

    fn table(&'a self, at: usize) -> Result<Table<'a>> {
        self.spend(at, 4)?;
        let back = i64::from(i32::from_le_bytes(self.array(at)?));
        let fields = i64::try_from(at).ok().and_then(|at| at.checked_sub(back));
        let fields = fields.and_then(|fields| usize::try_from(fields).ok());
        let fields = fields.ok_or_else(|| Error::at(at, "its fields are before the buffer"))?;
        Ok(Table { buffer: self, at, fields: (fields, self.u16(fields)?) })
    }

    fn vector(&'a self, at: usize, element: usize) -> Result<Vector<'a>> {
        let length = u32::from_le_bytes(self.array(at)?) as usize;
        let first = at + 4;
        let bytes = length.checked_mul(element);
        let bytes = bytes.ok_or_else(|| Error::at(at, "a vector is too long"))?;
        self.slice(first, bytes)?;
        Ok(Vector { buffer: self, at: first, length })
    }

    fn bytes(&'a self, at: usize) -> Result<&'a [u8]> {
        let vector = self.vector(at, 1)?;
        self.spend(at, vector.length)?;
        self.slice(vector.at, vector.length)
    }

    fn text(&'a self, at: usize) -> Result<String> {
        let text = std::str::from_utf8(self.bytes(at)?);
        text.map(str::to_owned).map_err(|_| Error::at(at, "text is not UTF-8"))
    }
}

impl<'a> Table<'a> {
    /// Returns the position of the table, for errors.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns a value that is read from this buffer, with what it costs to copy it.
    pub(crate) fn costed<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
        let before = self.buffer.left.get();
        let value = read()?;
        Ok((value, before - self.buffer.left.get()))
    }

    /// Copies a value that was read before.
    pub(crate) fn copy<T: Clone>(&self, (value, cost): &(T, usize)) -> Result<T> {
        self.buffer.spend(self.at, *cost)?;
        Ok(value.clone())
    }

    /// Returns the position of a field; `None` if it is absent.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let (fields, length) = self.fields;
        let entry = 4 + 2 * number;
        if entry + 2 > length {
            return Ok(None);
        }
        let offset = self.buffer.u16(fields + entry)?;
        Ok((offset != 0).then_some(self.at + offset))
    }

    /// Returns an 8-bit number; 0 if it is absent.
    pub(crate) fn u8(&self, number: usize) -> Result<u8> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        self.buffer.array::<1>(at).map(|[byte]| byte)
    }

    /// Returns a 16-bit number; 0 if it is absent.
    pub(crate) fn u16(&self, number: usize) -> Result<u16> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        self.buffer.array(at).map(u16::from_le_bytes)
    }

    /// Returns a 32-bit number, if it is present.
    pub(crate) fn u32(&self, number: usize) -> Result<Option<u32>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        self.buffer.array(at).map(|bytes| Some(u32::from_le_bytes(bytes)))
    }

    fn pointee(&self, number: usize) -> Result<Option<usize>> {
        self.field(number)?.map(|at| self.buffer.offset(at)).transpose()
    }

    /// Returns text, if it is present.
    pub(crate) fn text(&self, number: usize) -> Result<Option<String>> {
        self.pointee(number)?.map(|at| self.buffer.text(at)).transpose()
    }

    /// Returns bytes, if they are present.
    pub(crate) fn bytes(&self, number: usize) -> Result<Option<&'a [u8]>> {
        self.pointee(number)?.map(|at| self.buffer.bytes(at)).transpose()
    }

    /// Returns a table, if it is present.
    pub(crate) fn table(&self, number: usize) -> Result<Option<Table<'a>>> {
        self.pointee(number)?.map(|at| self.buffer.table(at)).transpose()
    }

    /// Returns the value of each element of a vector; none if it is absent.
    fn vector<T>(
        &self,
        number: usize,
        element: usize,
        read: impl Fn(Vector<'a>, usize) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Some(at) = self.pointee(number)? else { return Ok(Vec::new()) };
        let vector = self.buffer.vector(at, element)?;
        self.buffer.spend(at, vector.length.saturating_mul(element))?;
        (0..vector.length).map(|index| read(vector, vector.at + element * index)).collect()
    }

    /// Returns the tables of a vector.
    pub(crate) fn tables(&self, number: usize) -> Result<Vec<Table<'a>>> {
        self.vector(number, 4, |vector, at| vector.buffer.table(vector.buffer.offset(at)?))
    }

    /// Returns the texts of a vector.
    pub(crate) fn texts(&self, number: usize) -> Result<Vec<String>> {
        self.vector(number, 4, |vector, at| vector.buffer.text(vector.buffer.offset(at)?))
    }

    /// Returns the 16-bit numbers of a vector.
    pub(crate) fn u16s(&self, number: usize) -> Result<Vec<u16>> {
        self.vector(number, 2, |vector, at| vector.buffer.array(at).map(u16::from_le_bytes))
    }

    /// Returns the 32-bit numbers of a vector.
    pub(crate) fn u32s(&self, number: usize) -> Result<Vec<u32>> {
        self.vector(number, 4, |vector, at| vector.buffer.array(at).map(u32::from_le_bytes))
    }
}
