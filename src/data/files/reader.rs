//! Sequential reading of files, with decompression of gzip.

use super::file::{File, Handle};
use crate::core::Error;
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Packing {
    /// Gzip.
    Gzip,
    /// None.
    Plain,
}

/// A sequential reader of a file.
pub(in crate::data) struct Reader {
    handle: Arc<Handle>,
    packing: Packing,
    reader: Box<dyn BufRead + Send>,
    /// Bytes read so far, after decompression.
    offset: u64,
}

struct InOrder {
    handle: Arc<Handle>,
    offset: u64,
}

impl Read for InOrder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.handle.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Reader {
    /// Opens a file and decompresses it if it begins like a gzip file.
    pub(in crate::data) fn open(file: &File) -> Result<Reader, Error> {
        let handle = Arc::new(file.open()?);
        let start = handle.exactly(0, handle.len().min(3), "the first bytes")?;
        let packing = match start[..] {
            [0x1f, 0x8b, 8] => Packing::Gzip,
            _ => Packing::Plain,
        };
        Ok(Reader::of(handle, packing))
    }

    /// Creates a reader for a file of known compression.
    pub(in crate::data) fn of(handle: Arc<Handle>, packing: Packing) -> Reader {
        let reader = from(&handle, packing, 0);
        Reader { handle, packing, reader, offset: 0 }
    }

    pub(in crate::data) fn file(&self) -> &File {
        self.handle.file()
    }

    /// Returns the number of bytes read so far.
    pub(in crate::data) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of remaining bytes, if the file is not compressed.
    fn left(&self) -> Option<u64> {
        match self.packing {
            Packing::Plain => Some(self.handle.len().saturating_sub(self.offset)),
            Packing::Gzip => None,
        }
    }

    /// Moves to a byte offset. A compressed file is read again from the start.
    pub(in crate::data) fn seek(&mut self, offset: u64) -> Result<(), Error> {
        match self.packing {
            Packing::Plain => {
                self.reader = from(&self.handle, self.packing, offset);
                self.offset = offset;
            }
            Packing::Gzip => {
                self.reader = from(&self.handle, self.packing, 0);
                self.offset = 0;
                let skipped = io::copy(&mut self.reader.by_ref().take(offset), &mut io::sink());
                self.offset = skipped.map_err(|error| self.failed(error))?;
            }
        }
        if self.left().is_some_and(|_| offset > self.handle.len()) || self.offset < offset {
            let end = self.handle.len().min(self.offset);
            Err(self.file().truncated(end, "the remaining part", 0, offset))
        } else {
            Ok(())
        }
    }

    /// Skips `count` bytes, called `what` in errors.
    pub(in crate::data) fn skip(&mut self, count: u64, what: &str) -> Result<(), Error> {
        let start = self.offset;
        if let Some(left) = self.left()
            && left >= count
            && count > self.handle.block() as u64
        {
            return self.seek(start + count);
        }
        let skipped = io::copy(&mut self.reader.by_ref().take(count), &mut io::sink());
        let skipped = skipped.map_err(|error| self.failed(error))?;
        self.offset += skipped;
        if skipped < count {
            Err(self.file().truncated(self.offset, what, count, start))
        } else {
            Ok(())
        }
    }

    /// Reads at most `count` bytes. Returns fewer only at the end of the file.
    pub(in crate::data) fn up_to(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let known = self.left().map_or(0, |left| left.min(count));
        let mut bytes = Vec::with_capacity(usize::try_from(known).unwrap_or(0));
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes);
        let start = self.offset;
        self.offset += bytes.len() as u64;
        match read {
            Ok(_) => Ok(bytes),
            Err(error) => {
                let failed = self.failed(error);
                self.offset = start;
                Err(failed)
            }
        }
    }

    /// Reads exactly `count` bytes, called `what` in errors.
    pub(in crate::data) fn exactly(&mut self, count: u64, what: &str) -> Result<Vec<u8>, Error> {
        let start = self.offset;
        if let Some(left) = self.left().filter(|&left| left < count) {
            return Err(self.file().truncated(start + left, what, count, start));
        }
        if self.packing == Packing::Plain {
            // The file has enough bytes, so the buffer can be allocated at once.
            let mut bytes = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
            return if bytes.is_empty() || self.fill(&mut bytes, what)? {
                Ok(bytes)
            } else {
                Err(self.file().truncated(self.offset, what, count, start))
            };
        }
        let bytes = self.up_to(count)?;
        if (bytes.len() as u64) < count {
            Err(self.file().truncated(self.offset, what, count, start))
        } else {
            Ok(bytes)
        }
    }

    /// Fills a small buffer with `what`. Returns false if the file ends before its first byte.
    pub(in crate::data) fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<bool, Error> {
        let start = self.offset;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => {
                    let count = buffer.len() as u64;
                    return Err(self.file().truncated(self.offset, what, count, start));
                }
                Ok(count) => {
                    filled += count;
                    self.offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(true)
    }

    /// Reads a line with its end into the buffer. Reads nothing at the end of the file.
    pub(in crate::data) fn line(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.clear();
        let read = self.reader.read_until(b'\n', buffer);
        self.offset += buffer.len() as u64;
        read.map(drop).map_err(|error| self.failed(error))
    }

    /// Returns the next bytes that are buffered. Empty at the end of the file.
    pub(in crate::data) fn buffered(&mut self) -> Result<&[u8], Error> {
        // The first borrow would last through the error's arm, so the buffer is filled twice.
        if let Err(error) = self.reader.fill_buf() {
            return Err(self.failed(error));
        }
        self.reader.fill_buf().map_err(|error| self.handle.file().io_error(error))
    }

    /// Consumes bytes of [`Reader::buffered`].
    pub(in crate::data) fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.offset += count as u64;
    }

    fn failed(&self, error: io::Error) -> Error {
        let message = format!("at byte {}: {error}", self.offset);
        self.file().io_error(io::Error::new(error.kind(), message))
    }

    /// Returns the error for wrong content at a byte.
    pub(in crate::data) fn damaged(&self, offset: u64, message: impl fmt::Display) -> Error {
        self.file().damaged(offset, message)
    }
}

fn from(handle: &Arc<Handle>, packing: Packing, offset: u64) -> Box<dyn BufRead + Send> {
    let block = handle.block().min(usize::try_from(handle.len()).unwrap_or(usize::MAX)).max(1);
    let bytes = InOrder { handle: handle.clone(), offset };
    let bytes = BufReader::with_capacity(block, bytes);
    match packing {
        Packing::Plain => Box::new(bytes),
        Packing::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(bytes))),
    }
}
