//! Files and folders that are read by ranges of bytes: in storage or in memory.

use crate::error::{Error, Result, shortened};
use oxidax_storage::{ObjectReader, StoragePath};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// A file. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct ByteSource(Arc<Bytes>);

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File(ObjectReader),
}

impl ByteSource {
    pub(crate) fn memory(bytes: Vec<u8>) -> ByteSource {
        ByteSource(Arc::new(Bytes::Memory(bytes)))
    }

    pub(crate) fn open(path: &StoragePath) -> Result<ByteSource> {
        Ok(ByteSource(Arc::new(Bytes::File(path.open()?))))
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        match &*self.0 {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File(file) => file.len(),
        }
    }

    /// Reads exactly this range. Nothing is allocated if the file is shorter.
    pub(crate) fn read(&self, offset: u64, count: u64) -> Result<Vec<u8>> {
        let end = offset.checked_add(count).filter(|&end| end <= self.size());
        if end.is_none() {
            let size = self.size();
            let message = format!("{count} bytes from byte {offset} are beyond its {size} bytes");
            return Err(Error::new(message));
        }
        match &*self.0 {
            Bytes::Memory(bytes) => Ok(bytes[offset as usize..][..count as usize].to_vec()),
            Bytes::File(file) => {
                let mut bytes = zeroed(count)?;
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }

    /// Reads up to `count` bytes, fewer at the end of the file.
    pub(crate) fn read_up_to(&self, offset: u64, count: u64) -> Result<Vec<u8>> {
        let count = count.min(self.size().saturating_sub(offset));
        self.read(offset.min(self.size()), count)
    }

    /// Returns a cursor with a buffer.
    pub(crate) fn cursor(&self, offset: u64) -> Cursor {
        Cursor { source: self.clone(), position: offset, buffer: Vec::new(), start: 0 }
    }
}

/// Allocates zeros, or returns an error instead of ending the process.
pub(crate) fn zeroed(count: u64) -> Result<Vec<u8>> {
    let mut bytes = reserved(count)?;
    bytes.resize(count as usize, 0);
    Ok(bytes)
}

/// Allocates zeros of single precision.
pub(crate) fn zeroed_floats(count: u64) -> Result<Vec<f32>> {
    let mut values = reserved(count)?;
    values.resize(count as usize, 0.0);
    Ok(values)
}

/// Allocates an empty vector for this number of elements.
pub(crate) fn reserved<T>(count: u64) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let fits = usize::try_from(count).ok().map(|count| values.try_reserve_exact(count));
    match fits {
        Some(Ok(())) => Ok(values),
        _ => Err(Error::new(format!("{count} elements do not fit into memory"))),
    }
}

/// Reads a file from a position, through a buffer.
pub(crate) struct Cursor {
    source: ByteSource,
    position: u64,
    buffer: Vec<u8>,
    /// The position of the buffer in the file.
    start: u64,
}

/// Bytes that a cursor reads at once.
const BLOCK: u64 = 64 << 10;

impl Cursor {
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes behind the position.
    pub(crate) fn left(&self) -> u64 {
        self.source.size().saturating_sub(self.position)
    }

    /// Moves the position forward.
    pub(crate) fn skip(&mut self, count: u64) -> Result<()> {
        if count > self.left() {
            let (at, left) = (self.position, self.left());
            return Err(Error::new(format!("{count} bytes from byte {at}, but {left} are left")));
        }
        self.position += count;
        Ok(())
    }

    /// Reads exactly `count` bytes.
    pub(crate) fn read_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        let at = self.position;
        self.skip(count)?;
        if self.covers(at, count) {
            let first = (at - self.start) as usize;
            return Ok(self.buffer[first..][..count as usize].to_vec());
        }
        if count >= BLOCK {
            return self.source.read(at, count);
        }
        self.fill(at)?;
        Ok(self.buffer[..count as usize].to_vec())
    }

    /// Reads a fixed number of bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let at = self.position;
        self.skip(N as u64)?;
        if !self.covers(at, N as u64) {
            self.fill(at)?;
        }
        let first = (at - self.start) as usize;
        let mut array = [0; N];
        array.copy_from_slice(&self.buffer[first..][..N]);
        Ok(array)
    }

    fn covers(&self, at: u64, count: u64) -> bool {
        at >= self.start && at + count <= self.start + self.buffer.len() as u64
    }

    fn fill(&mut self, at: u64) -> Result<()> {
        self.buffer = self.source.read_up_to(at, BLOCK)?;
        self.start = at;
        Ok(())
    }
}

impl Read for Cursor {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = (target.len() as u64).min(self.left()).min(BLOCK);
        let bytes = self.read_bytes(count).map_err(io::Error::other)?;
        target[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.source.size().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "a position before the start");
        self.position = target.ok_or_else(wrong)?;
        Ok(self.position)
    }
}

/// A folder. Files in it are found by names with slashes.
#[derive(Clone, Debug)]
pub(crate) enum ByteFolder {
    Memory(Arc<BTreeMap<String, ByteSource>>),
    Storage(StoragePath),
}

impl ByteFolder {
    pub(crate) fn memory(files: BTreeMap<String, Vec<u8>>) -> ByteFolder {
        let files = files.into_iter().map(|(name, bytes)| (name, ByteSource::memory(bytes)));
        ByteFolder::Memory(Arc::new(files.collect()))
    }

    /// Opens a file. Returns `None` if there is none of this name, and an error if the name leads
    /// out of the folder.
    pub(crate) fn file(&self, name: &str) -> Result<Option<ByteSource>> {
        if !is_inside(name) {
            let name = shortened(name);
            return Err(Error::new(format!("the file name `{name}` leads out of the folder")));
        }
        match self {
            ByteFolder::Memory(files) => Ok(files.get(name).cloned()),
            ByteFolder::Storage(folder) => match ByteSource::open(&folder.join(name)) {
                Ok(file) => Ok(Some(file)),
                Err(error) => match folder.join(name).exists() {
                    Ok(false) => Ok(None),
                    // A folder of this name is not a file.
                    _ if folder.join(name).as_local().is_some_and(|path| path.is_dir()) => Ok(None),
                    _ => Err(error),
                },
            },
        }
    }

    /// Reads a whole file that may be missing.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        file.read(0, file.size()).map(Some).map_err(|error| error.at(name))
    }

    /// Returns the names of all files, with their sizes.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>> {
        match self {
            ByteFolder::Memory(files) => {
                Ok(files.iter().map(|(name, file)| (name.clone(), file.size())).collect())
            }
            ByteFolder::Storage(folder) => {
                Ok(folder.list()?.into_iter().map(|file| (file.name, file.size)).collect())
            }
        }
    }
}

/// Returns true if a name from a file names something inside a folder.
fn is_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0'])
        && !name.contains("://")
        && name.split('/').all(|part| !["", ".", ".."].contains(&part))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn ranges_beyond_the_end_are_refused_before_allocating() {
        let source = ByteSource::memory(vec![1, 2, 3]);
        assert_eq!(source.read(1, 2).unwrap(), [2, 3]);
        let error = source.read(1, u64::MAX - 1).unwrap_err().to_string();
        assert_eq!(error, "18446744073709551614 bytes from byte 1 are beyond its 3 bytes");
        assert!(source.read(2, u64::MAX).is_err());
    }

    #[test]
    fn a_cursor_reads_across_its_buffer() {
        let bytes: Vec<u8> = (0..200_000u32).map(|index| index as u8).collect();
        let mut cursor = ByteSource::memory(bytes.clone()).cursor(0);
        let mut read = Vec::new();
        for count in [1, 65_534, 3, 100_000, 34_462] {
            read.extend(cursor.read_bytes(count).unwrap());
        }
        assert_eq!(read, bytes);
        assert!(cursor.read_bytes(1).is_err());
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let folder = ByteFolder::memory(BTreeMap::new());
        assert!(folder.file("a/b").unwrap().is_none());
        for name in ["../a", "/etc/passwd", "a//b", "", "a/..", "s3://b/c", "a\\b"] {
            assert!(folder.file(name).is_err(), "{name}");
        }
    }
}
