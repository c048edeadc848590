//! [`Cursor`]: reads MLIR's numbers and sections.

use crate::error::{Error, Result};

/// A position in a part of the bytes.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// A part of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    Strings,
    Dialects,
    Entries,
    EntryOffsets,
    Operations,
    DialectVersions,
    Properties,
    /// One that this crate does not read.
    Other,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0, end: bytes.len() }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the length of the file.
    pub(crate) fn file_length(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.at, message))
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Takes bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.end);
        let Some(end) = end else { return self.fail(format!("{length} bytes are beyond the end")) };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Reads a number whose length is the number of zeros below the lowest one of its first byte.
    pub(crate) fn number(&mut self) -> Result<u64> {
        let first = self.byte()?;
        if first == 0 {
            let bytes = self.take(8)?;
            return Ok(u64::from_le_bytes(std::array::from_fn(|index| bytes[index])));
        }
        let more = first.trailing_zeros() as usize;
        let mut value = u64::from(first);
        for (index, byte) in self.take(more)?.iter().enumerate() {
            value |= u64::from(*byte) << (8 * (index + 1));
        }
        Ok(value >> (more + 1))
    }

    /// Reads a number and a flag in its lowest bit.
    pub(crate) fn number_and_flag(&mut self) -> Result<(usize, bool)> {
        let number = self.number()?;
        Ok((usize::try_from(number >> 1).unwrap_or(usize::MAX), number & 1 != 0))
    }

    /// Reads a signed number.
    pub(crate) fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// Reads an index.
    pub(crate) fn index(&mut self) -> Result<usize> {
        Ok(usize::try_from(self.number()?).unwrap_or(usize::MAX))
    }

    /// Reads the number of elements that follow, each of at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = self.index()?;
        if count > self.end - self.at {
            return self.fail(format!("{count} elements do not fit into the rest"));
        }
        Ok(count)
    }

    /// Reads elements after their number.
    pub(crate) fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Takes text up to a zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..self.end];
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return self.fail("a text does not end");
        };
        let at = self.at;
        let text = std::str::from_utf8(self.take(length + 1)?.split_last().map_or(&[], |(_, t)| t));
        text.map_err(|_| Error::at(at, "a text is not UTF-8"))
    }

    /// Takes a part of the rest.
    pub(crate) fn part(&mut self, length: usize) -> Result<Cursor<'a>> {
        let at = self.at;
        self.take(length)?;
        Ok(Cursor { bytes: self.bytes, at, end: self.at })
    }

    /// Takes a section. Bytes between its header and its data align the data.
    pub(crate) fn section(&mut self) -> Result<(Section, Cursor<'a>)> {
        let id = self.byte()?;
        let length = self.index()?;
        if id & 0x80 != 0 {
            let alignment = self.index()?;
            if !alignment.is_power_of_two() || alignment > 1 << 16 {
                return self.fail(format!("the alignment {alignment} is not a small power of 2"));
            }
            self.take(self.at.next_multiple_of(alignment) - self.at)?;
        }
        let section = match id & 0x7f {
            0 => Section::Strings,
            1 => Section::Dialects,
            2 => Section::Entries,
            3 => Section::EntryOffsets,
            4 => Section::Operations,
            7 => Section::DialectVersions,
            8 => Section::Properties,
            _ => Section::Other,
        };
        Ok((section, self.part(length)?))
    }
}
