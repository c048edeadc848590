//! A stored safetensors file, read array by array or slice by slice.

use super::dtypes::{invalid_byte, unpack};
use super::fault::{Read, abridged, damaged, io_error, unread};
use super::header::{Entry, MAX_HEADER_BYTES, parse};
use super::storage::{SharedStorage, StoredFile};
use crate::core::Shape;
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file with its parsed header. Elements are read on demand.
pub(super) struct ArrayFile {
    storage: SharedStorage,
    path: PathBuf,
    /// The open file, unless a checkpoint has so many that each is opened when it is read.
    file: Option<Box<dyn StoredFile>>,
    /// Offset of the elements.
    start: u64,
    header_crc: u32,
    entries: BTreeMap<String, Entry>,
    len: u64,
}

/// The recorded checksums of an array.
#[derive(Clone, Copy)]
pub(super) struct Checksums<'a> {
    /// CRC-32C of all bytes.
    pub(super) whole: u32,
    /// Length of the array's parts, and the CRC-32C of each.
    pub(super) chunks: Option<(u64, &'a [u32])>,
}

/// Length of the parts that are read of an array without checksums, in bytes.
const PART_BYTES: u64 = 4 << 20;

impl ArrayFile {
    pub(super) fn open(storage: &SharedStorage, path: &Path) -> Read<ArrayFile> {
        let file = storage.open(path).map_err(|error| unread(path, error))?;
        let len = file.len();
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
        Ok(ArrayFile {
            storage: storage.clone(),
            path: path.to_path_buf(),
            file: Some(file),
            start,
            header_crc,
            entries,
            len,
        })
    }

    /// Closes the file; reading opens it again.
    pub(super) fn close(&mut self) {
        self.file = None;
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

    /// Reads an array's elements as host bytes, and compares their checksum.
    pub(super) fn read(
        &self,
        name: &str,
        entry: &Entry,
        sums: Option<Checksums<'_>>,
    ) -> Read<Vec<u8>> {
        let bytes = self.part(name, entry, 0..entry.bytes)?;
        if let Some(Checksums { whole, .. }) = sums {
            self.compare(name, entry, &bytes, whole)?;
        }
        self.unpacked(name, entry, bytes, 0)
    }

    /// Reads a slice of an array as host bytes. Only the parts that hold the slice are read, and
    /// compared with their checksums. An array with one checksum is read whole.
    pub(super) fn read_slice(
        &self,
        name: &str,
        entry: &Entry,
        sums: Option<Checksums<'_>>,
        slice: &[Range<usize>],
    ) -> Read<Vec<u8>> {
        let shape = &entry.shape;
        let width = entry.dtype.map_or(1, |dtype| dtype.host_bytes());
        let is_whole = slice.iter().zip(shape.iter()).all(|(range, &size)| *range == (0..size));
        let (part_bytes, crcs) = match sums {
            _ if is_whole => return self.read(name, entry, sums),
            Some(Checksums { chunks: None, .. }) => {
                let whole = self.read(name, entry, sums)?;
                return Ok(shape.read_slice(slice, width, &whole));
            }
            Some(Checksums { chunks: Some((bytes, crcs)), .. }) => (bytes, crcs),
            None => (PART_BYTES, &[][..]),
        };
        // Packed elements take two host bytes for each byte of the file.
        let host_part = part_bytes as usize * if entry.file == Dtype::F4 { 2 } else { 1 };
        let mut result = Vec::with_capacity(size_of_slice(slice) * width);
        let mut loaded: Option<(usize, Vec<u8>)> = None;
        let mut failed = None;
        shape.for_each_run(slice, width, |offset, length| {
            let (mut at, end) = (offset, offset + length);
            while at < end && failed.is_none() {
                let number = at / host_part;
                if loaded.as_ref().is_none_or(|(known, _)| *known != number) {
                    let first = number as u64 * part_bytes;
                    let range = first..entry.bytes.min(first + part_bytes);
                    let read = self.part(name, entry, range).and_then(|bytes| {
                        if let Some(&crc) = crcs.get(number) {
                            self.compare(name, entry, &bytes, crc)?;
                        }
                        self.unpacked(name, entry, bytes, number * host_part)
                    });
                    match read {
                        Ok(bytes) => loaded = Some((number, bytes)),
                        Err(fault) => failed = Some(fault),
                    }
                }
                if let (Some((_, bytes)), None) = (&loaded, &failed) {
                    let until = end.min((number + 1) * host_part);
                    let base = number * host_part;
                    result.extend_from_slice(&bytes[at - base..until - base]);
                    at = until;
                }
            }
        });
        match failed {
            Some(fault) => Err(fault),
            None => Ok(result),
        }
    }

    /// Reads a range of an array's bytes in the file.
    fn part(&self, name: &str, entry: &Entry, range: Range<u64>) -> Read<Vec<u8>> {
        let size = usize::try_from(range.end - range.start).map_err(|_| {
            let message = format!("array `{}` has {} bytes", abridged(name), entry.bytes);
            io_error(&self.path, io::Error::new(io::ErrorKind::OutOfMemory, message))
        })?;
        let reopened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                reopened = self.storage.open(&self.path).map_err(|e| unread(&self.path, e))?;
                &reopened
            }
        };
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, self.start + entry.start + range.start)
            .map_err(|error| unread(&self.path, error))?;
        Ok(bytes)
    }

    fn compare(&self, name: &str, entry: &Entry, bytes: &[u8], expected: u32) -> Read<()> {
        let found = crc32c::crc32c(bytes);
        if found == expected {
            return Ok(());
        }
        let message = format!(
            "array `{}` ({entry}) was changed: its {} bytes have the CRC-32C {found:08x}, \
             {expected:08x} when it was written",
            abridged(name),
            bytes.len()
        );
        Err(damaged(&self.path, message))
    }

    /// Converts bytes of the file, from host byte `first` of the array on, to host bytes.
    fn unpacked(&self, name: &str, entry: &Entry, bytes: Vec<u8>, first: usize) -> Read<Vec<u8>> {
        let bytes = unpack(bytes, entry.file);
        if let Some((index, byte)) = entry.dtype.and_then(|dtype| invalid_byte(&bytes, dtype)) {
            let index = first + index;
            let message = format!(
                "array `{}`: element {index} of {entry} has the invalid byte {byte}",
                abridged(name)
            );
            return Err(damaged(&self.path, message));
        }
        Ok(bytes)
    }
}

/// Returns the number of elements of a slice.
pub(super) fn size_of_slice(slice: &[Range<usize>]) -> usize {
    slice.iter().map(Range::len).product()
}

/// Returns the shape of a slice.
pub(super) fn shape_of_slice(slice: &[Range<usize>]) -> Shape {
    slice.iter().map(Range::len).collect()
}
