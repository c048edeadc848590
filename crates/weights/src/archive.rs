//! Zip archives, read by ranges of bytes.

use crate::error::{Error, Result, shortened};
use crate::source::{ByteSource, reserved};
use std::collections::BTreeMap;
use std::io::Read as _;
use zip::{CompressionMethod, ZipArchive};

/// Largest compression ratio of deflate. A larger declared size is wrong.
const MAX_RATIO: u64 = 1032;

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

impl Archive {
    pub(crate) fn open(source: &ByteSource) -> Result<Archive> {
        let refused = |error: zip::result::ZipError| {
            Error::new(format!("zip archive: {}", shortened(&error.to_string())))
        };
        let mut archive = ZipArchive::new(source.cursor(0)).map_err(refused)?;
        let mut members = BTreeMap::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(refused)?;
            let name = entry.name().map_err(refused)?.into_owned();
            let part = format!("member `{}` of the archive", shortened(&name));
            let is_deflated = match entry.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => {
                    let message = format!("{part}: the compression {other:?} is not supported");
                    return Err(Error::new(message));
                }
            };
            let (stored, size) = (entry.compressed_size(), entry.size());
            let offset = entry.data_start().unwrap_or(u64::MAX);
            let is_inside = offset.checked_add(stored).is_some_and(|end| end <= source.size());
            let fits = match is_deflated {
                false => size == stored,
                true => size <= stored.saturating_mul(MAX_RATIO),
            };
            if !is_inside || !fits || entry.encrypted() {
                let message = format!(
                    "{part}: {size} bytes in {stored} bytes from byte {offset}, in a file of {}",
                    source.size()
                );
                return Err(Error::new(message));
            }
            let source = source.clone();
            let member = Member {
                source,
                offset,
                stored,
                size,
                is_deflated,
                skipped: 0,
            };
            members.insert(name, member);
        }
        Ok(Archive { members })
    }
}

impl Member {
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
