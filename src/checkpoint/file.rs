//! An open safetensors file, read array by array.

use super::dtypes::{invalid_byte, unpack};
use super::fault::{Read, abridged, damaged, io_error, unread};
use super::header::{Entry, MAX_HEADER_BYTES, parse};
use crate::core::Error;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An open file and its parsed header. Elements are read on demand.
pub(super) struct ArrayFile {
    path: PathBuf,
    file: File,
    /// Offset of the elements.
    start: u64,
    header_crc: u32,
    entries: BTreeMap<String, Entry>,
    len: u64,
}

/// Opens an ordinary file. A pipe is refused, because opening it would wait for a writer.
pub(super) fn open_file(path: &Path) -> io::Result<(File, u64)> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is not a file"));
    }
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

impl ArrayFile {
    pub(super) fn open(path: &Path) -> Read<ArrayFile> {
        let (file, len) = open_file(path).map_err(|error| unread(path, error))?;
        let malformed = |why: String| {
            damaged(path, format!("the {len} bytes are not a whole safetensors file: {why}"))
        };
        let mut length = [0; 8];
        if len < 8 {
            return Err(malformed("the header's length takes 8 bytes".into()));
        }
        file.read_exact_at(&mut length, 0).map_err(|error| unread(path, error))?;
        let bytes = u64::from_le_bytes(length);
        if bytes > MAX_HEADER_BYTES || bytes > len - 8 {
            let most = MAX_HEADER_BYTES.min(len - 8);
            return Err(malformed(format!("a header of {bytes} bytes, at most {most}")));
        }
        let mut json = vec![0; bytes as usize];
        file.read_exact_at(&mut json, 8).map_err(|error| unread(path, error))?;
        let start = 8 + bytes;
        let entries = parse(&json, len - start).map_err(malformed)?;
        let header_crc = crc32c::crc32c_append(crc32c::crc32c(&length), &json);
        Ok(ArrayFile { path: path.to_path_buf(), file, start, header_crc, entries, len })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the CRC-32C of the header with its length.
    pub(super) fn header_crc(&self) -> u32 {
        self.header_crc
    }

    pub(super) fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Reads an array's elements as host bytes, and compares their CRC-32C with `crc`.
    pub(super) fn read(&self, name: &str, entry: &Entry, crc: Option<u32>) -> Read<Vec<u8>> {
        let size = usize::try_from(entry.bytes).map_err(|_| {
            let message = format!("array `{}` has {} bytes", abridged(name), entry.bytes);
            io_error(&self.path, io::Error::new(io::ErrorKind::OutOfMemory, message))
        })?;
        let mut bytes = vec![0; size];
        self.file
            .read_exact_at(&mut bytes, self.start + entry.start)
            .map_err(|error| unread(&self.path, error))?;
        if let Some(expected) = crc {
            let found = crc32c::crc32c(&bytes);
            if found != expected {
                return Err(damaged(
                    &self.path,
                    format!(
                        "array `{}` ({entry}) was changed: its {} bytes have the CRC-32C {found:08x}, \
                         {expected:08x} when it was written",
                        abridged(name),
                        entry.bytes
                    ),
                ));
            }
        }
        let bytes = unpack(bytes, entry.file);
        if let Some((index, byte)) = entry.dtype.and_then(|dtype| invalid_byte(&bytes, dtype)) {
            let message = format!(
                "array `{}`: element {index} of {entry} has the invalid byte {byte}",
                abridged(name)
            );
            return Err(damaged(&self.path, message));
        }
        Ok(bytes)
    }
}

/// Makes changes of a folder's entries durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| io_error(folder, e))
}
