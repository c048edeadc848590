//! Reading files that may be gzipped, and saying where they are damaged.

use crate::core::Error;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// A file open for reading, decompressed on the way if it starts like a gzip file.
pub(super) struct Source<'a> {
    path: &'a Path,
    reader: Box<dyn Read>,
    /// Bytes read so far, counted after decompression.
    offset: u64,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Source<'a>, Error> {
        let reader = open(path).map_err(|source| io_error(path, source))?;
        Ok(Source { path, reader, offset: 0 })
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads at most `count` bytes: fewer only at the end of the file.
    pub(super) fn up_to(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match self.reader.by_ref().take(count).read_to_end(&mut bytes) {
            Ok(_) => {
                self.offset += bytes.len() as u64;
                Ok(bytes)
            }
            Err(source) => {
                let offset = self.offset + bytes.len() as u64;
                let message = format!("at byte {offset}: {source}");
                Err(io_error(self.path, io::Error::new(source.kind(), message)))
            }
        }
    }

    /// Reads exactly `count` bytes, which are `what`.
    pub(super) fn exactly(&mut self, count: u64, what: &str) -> Result<Vec<u8>, Error> {
        let start = self.offset;
        let bytes = self.up_to(count)?;
        if (bytes.len() as u64) < count {
            let message = format!(
                "the file ends at byte {}: {what} should take {count} bytes from byte {start}",
                self.offset
            );
            return Err(io_error(self.path, io::Error::new(io::ErrorKind::UnexpectedEof, message)));
        }
        Ok(bytes)
    }

    /// The error that the file's content is wrong at a byte.
    pub(super) fn damaged(&self, offset: u64, message: &str) -> Error {
        let message = format!("at byte {offset}: {message}");
        io_error(self.path, io::Error::new(io::ErrorKind::InvalidData, message))
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic)?;
    file.rewind()?;
    let file = BufReader::new(file);
    Ok(match magic == [0x1f, 0x8b] {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    })
}

pub(super) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
}
