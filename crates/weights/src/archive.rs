//! Zip archives, read by ranges of bytes.
//!
//! The crate `zip` 9.4 refuses some valid archives of `torch.save` (the test
//! `views_of_storages_are_gathered` has one). The format is small: APPNOTE 6.3.10, sections 4.3 to
//! 4.5.

use crate::error::{Error, Result, shortened};
use crate::source::{ByteSource, reserved};
use std::collections::BTreeMap;
use std::io::Read as _;

/// Largest compression ratio of deflate. A larger declared size is wrong.
const MAX_RATIO: u64 = 1032;

/// Fixed sizes of the records, and the longest comment of an archive.
const END: usize = 22;
const END_64: u64 = 56;
const LOCATOR_64: u64 = 20;
const HEADER: usize = 46;
const LOCAL: u64 = 30;
const MAX_COMMENT: u64 = 0xffff;

/// The members of an archive by name.
pub(crate) struct Archive {
    pub(crate) members: BTreeMap<String, Member>,
}

/// A member: a range of the file, perhaps compressed.
#[derive(Clone)]
pub(crate) struct Member {
    source: ByteSource,
    offset: u64,
    stored: u64,
    /// The number of bytes without compression.
    pub(crate) size: u64,
    is_deflated: bool,
    /// Bytes at the start, without compression, that do not belong to the member.
    skipped: u64,
}

/// Position, size and number of entries of the central directory.
struct Directory {
    offset: u64,
    size: u64,
    entries: u64,
}

fn damaged(at: u64, message: &str) -> Error {
    Error::new(format!("zip archive, byte {at}: {message}"))
}

fn u16_at(bytes: &[u8], at: usize) -> u64 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u16_at(bytes, at) | u16_at(bytes, at + 2) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at) | u32_at(bytes, at + 4) << 32
}

impl Archive {
    pub(crate) fn open(source: &ByteSource) -> Result<Archive> {
        let directory = Directory::find(source)?;
        let bytes = source
            .read(directory.offset, directory.size)
            .map_err(|error| error.within("zip archive: the central directory"))?;
        let mut members = BTreeMap::new();
        let mut rest = &bytes[..];
        for _ in 0..directory.entries {
            let at = directory.offset + (bytes.len() - rest.len()) as u64;
            if rest.len() < HEADER || !rest.starts_with(b"PK\x01\x02") {
                return Err(damaged(at, "a header of the central directory is expected"));
            }
            let lengths = [28, 30, 32].map(|field| u16_at(rest, field) as usize);
            let [name, extra, _] = lengths;
            let whole = HEADER + lengths.iter().sum::<usize>();
            if rest.len() < whole {
                return Err(damaged(at, "a header exceeds the central directory"));
            }
            let text = String::from_utf8_lossy(&rest[HEADER..HEADER + name]).into_owned();
            let extra = &rest[HEADER + name..HEADER + name + extra];
            let member = Member::parse(source, rest, extra)
                .map_err(|error| error.within(&format!("`{}`", shortened(&text))))?;
            members.insert(text, member);
            rest = &rest[whole..];
        }
        Ok(Archive { members })
    }
}

impl Directory {
    /// Finds the central directory from the end of the file.
    fn find(source: &ByteSource) -> Result<Directory> {
        let size = source.size();
        let start = size.saturating_sub(END as u64 + MAX_COMMENT);
        let tail = source.read(start, size - start)?;
        let is_end = |&at: &usize| {
            let record = &tail[at..];
            record.starts_with(b"PK\x05\x06")
                && END as u64 + u16_at(record, 20) <= record.len() as u64
        };
        let last = (tail.len() + 1).saturating_sub(END);
        let Some(at) = (0..last).rev().find(is_end) else {
            return Err(damaged(size, "the archive has no end of the central directory"));
        };
        let record = &tail[at..];
        let directory = Directory {
            offset: u32_at(record, 16),
            size: u32_at(record, 12),
            entries: u16_at(record, 10),
        };
        // Large archives have a second record, whose position is in front of the first.
        let end = start + at as u64;
        let Some(locator) = end.checked_sub(LOCATOR_64) else { return Ok(directory) };
        let bytes = source.read(locator, LOCATOR_64)?;
        if !bytes.starts_with(b"PK\x06\x07") {
            return Ok(directory);
        }
        let at = u64_at(&bytes, 8);
        let bytes = source.read(at, END_64).map_err(|error| error.within("zip archive"))?;
        if !bytes.starts_with(b"PK\x06\x06") {
            return Err(damaged(at, "a 64-bit end of the central directory is expected"));
        }
        let entries = u64_at(&bytes, 32);
        Ok(Directory { offset: u64_at(&bytes, 48), size: u64_at(&bytes, 40), entries })
    }
}

impl Member {
    /// Reads a header of the central directory, and the local header that it points to.
    fn parse(source: &ByteSource, header: &[u8], extra: &[u8]) -> Result<Member> {
        let mut fields = [24, 20, 42].map(|field| u32_at(header, field));
        // Sizes and offset that need 64 bits are in the extra field of type 1, in this order.
        let mut wide = extra_field(extra, 1).unwrap_or_default();
        for field in fields.iter_mut().filter(|field| **field == 0xffff_ffff) {
            if wide.len() < 8 {
                return Err(Error::new("a 64-bit size is missing"));
            }
            *field = u64_at(wide, 0);
            wide = &wide[8..];
        }
        let [size, stored, at] = fields;
        let is_deflated = match u16_at(header, 10) {
            0 => false,
            8 => true,
            other => return Err(Error::new(format!("the compression {other} is not supported"))),
        };
        if u16_at(header, 8) & 1 == 1 {
            return Err(Error::new("the member is encrypted"));
        }
        let local = source.read(at, LOCAL)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err(damaged(at, "a local header is expected"));
        }
        let offset = at + LOCAL + u16_at(&local, 26) + u16_at(&local, 28);
        let is_inside = offset.checked_add(stored).is_some_and(|end| end <= source.size());
        let fits = match is_deflated {
            false => size == stored,
            true => size <= stored.saturating_mul(MAX_RATIO),
        };
        if !is_inside || !fits {
            let message = format!(
                "{size} bytes in {stored} bytes from byte {offset}, in a file of {}",
                source.size()
            );
            return Err(Error::new(message));
        }
        let source = source.clone();
        Ok(Member { source, offset, stored, size, is_deflated, skipped: 0 })
    }

    /// Returns a member that is a range of a file.
    pub(crate) fn range(source: &ByteSource, offset: u64, bytes: u64) -> Member {
        let source = source.clone();
        Member { source, offset, stored: bytes, size: bytes, is_deflated: false, skipped: 0 }
    }

    /// Returns the part behind the first bytes.
    pub(crate) fn behind(&self, count: u64) -> Member {
        let count = count.min(self.size);
        Member { skipped: self.skipped + count, size: self.size - count, ..self.clone() }
    }

    /// Reads a range. Compressed members are read from their start.
    pub(crate) fn read(&self, offset: u64, count: u64) -> Result<Vec<u8>> {
        let end = offset.checked_add(count).filter(|&end| end <= self.size);
        let Some(end) = end.map(|end| end + self.skipped) else {
            let size = self.size;
            return Err(Error::new(format!("{count} bytes from byte {offset}, of {size} bytes")));
        };
        let offset = offset + self.skipped;
        if !self.is_deflated {
            return self.source.read(self.offset + offset, count);
        }
        let compressed = self.source.read(self.offset, self.stored)?;
        let mut bytes = reserved(end)?;
        let decoder = flate2::read::DeflateDecoder::new(&compressed[..]);
        let read = decoder.take(end).read_to_end(&mut bytes);
        read.map_err(|error| Error::new(format!("after byte {}: {error}", bytes.len())))?;
        if bytes.len() as u64 != end {
            let found = bytes.len();
            return Err(Error::new(format!("{found} bytes after decompression, expected {end}")));
        }
        Ok(bytes.split_off(offset as usize))
    }

    /// Reads all bytes.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>> {
        self.read(0, self.size)
    }

    /// Returns the member as a file.
    pub(crate) fn as_source(&self) -> Result<ByteSource> {
        Ok(ByteSource::memory(self.read_all()?))
    }
}

/// Returns the contents of an extra field.
fn extra_field(mut extra: &[u8], wanted: u64) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let (kind, length) = (u16_at(extra, 0), u16_at(extra, 2) as usize);
        let field = extra.get(4..4 + length)?;
        if kind == wanted {
            return Some(field);
        }
        extra = &extra[4 + length..];
    }
    None
}
