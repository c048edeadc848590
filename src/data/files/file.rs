//! Files of a pipeline: naming, finding and reading them.

use crate::core::Error;
use oxidax_storage::{Location, Storage as Stores, StoragePath};
use std::fmt;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that a pipeline reads: on a local disk, in memory, or in an object store (feature
/// `remote`). Functions that read files accept paths and addresses (`gs://…`, `s3://…`, `file://…`)
/// and convert them with `into`.
///
/// Creating a `File` does not open it, and cloning is cheap. A file that was opened in an object
/// store is one version of the object: if it is replaced meanwhile, reading is an error.
///
/// ```
/// use oxidax::data::{self, File};
/// let local: File = "train.tfrecord".into();
/// let memory = File::in_memory("three.jsonl", b"1\n2\n3\n".as_slice());
/// assert_eq!(local.to_string(), "train.tfrecord");
/// let numbers: Vec<u32> = data::jsonl(memory).collect::<Result<_, _>>()?;
/// assert_eq!(numbers, [1, 2, 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct File {
    name: Arc<Path>,
    storage: Storage,
}

#[derive(Clone)]
enum Storage {
    /// A local path or an address.
    Named,
    Memory(Arc<[u8]>),
    /// An object of a store that the user has created.
    #[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "made by `Bucket` only"))]
    Object(StoragePath),
}

impl File {
    /// Creates a file from bytes in memory, with a name for error messages.
    pub fn in_memory(name: impl AsRef<Path>, bytes: impl Into<Arc<[u8]>>) -> File {
        File { name: name.as_ref().into(), storage: Storage::Memory(bytes.into()) }
    }

    pub(super) fn object(object: StoragePath) -> File {
        File { name: Path::new(&object.to_string()).into(), storage: Storage::Object(object) }
    }

    /// Returns the path of a local file, or the name or address of another.
    pub fn path(&self) -> &Path {
        &self.name
    }

    pub(in crate::data) fn name(&self) -> &Arc<Path> {
        &self.name
    }

    pub(in crate::data) fn open(&self) -> Result<Handle, Error> {
        let (bytes, len) = match &self.storage {
            Storage::Named if Location::is_address(&*self.name) => {
                match Location::parse(&*self.name).map_err(storage_error)? {
                    Location::Local(path) => return File::from(path).open(),
                    Location::Object { .. } => {
                        let object = Stores::from_env().at(&*self.name).map_err(storage_error)?;
                        opened(&object)?
                    }
                }
            }
            Storage::Named => {
                let file = std::fs::File::open(&self.name).map_err(|e| self.io_error(e))?;
                let metadata = file.metadata().map_err(|e| self.io_error(e))?;
                if metadata.is_dir() {
                    let message = "this is a folder; `data::files` finds its files";
                    return Err(self.io_error(io::Error::new(io::ErrorKind::IsADirectory, message)));
                }
                (Bytes::Local(file), metadata.len())
            }
            Storage::Memory(bytes) => (Bytes::Memory(bytes.clone()), bytes.len() as u64),
            Storage::Object(object) => opened(object)?,
        };
        Ok(Handle { file: self.clone(), bytes, len })
    }

    pub(in crate::data) fn io_error(&self, source: io::Error) -> Error {
        io_error(&self.name, source)
    }

    /// Returns the error for wrong content at a byte.
    pub(in crate::data) fn damaged(&self, offset: u64, message: impl fmt::Display) -> Error {
        let message = format!("at byte {offset}: {message}");
        self.io_error(io::Error::new(io::ErrorKind::InvalidData, message))
    }

    /// Returns the error for wrong content of a row.
    #[cfg(any(feature = "arrow", feature = "parquet"))]
    pub(in crate::data) fn damaged_row(&self, row: u64, message: impl fmt::Display) -> Error {
        let message = format!("row {row}: {message}");
        self.io_error(io::Error::new(io::ErrorKind::InvalidData, message))
    }

    /// Returns the error for a file that ends before `what`, which should take `count` bytes from
    /// byte `start`.
    pub(in crate::data) fn truncated(&self, end: u64, what: &str, count: u64, start: u64) -> Error {
        let message = format!(
            "the file ends at byte {end}: {what} should take {count} bytes from byte {start}"
        );
        self.io_error(io::Error::new(io::ErrorKind::UnexpectedEof, message))
    }
}

fn opened(object: &StoragePath) -> Result<(Bytes, u64), Error> {
    let reader = object.open().map_err(storage_error)?;
    let len = reader.len();
    Ok((Bytes::Object(reader), len))
}

/// Converts an error of the storage crate, which names the path or address.
pub(in crate::data) fn storage_error(error: oxidax_storage::Error) -> Error {
    let path = PathBuf::from(error.location());
    Error::io(path, error.without_location())
}

pub(in crate::data) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::io(path, source)
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.display().fmt(f)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({self})")
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for File {
    fn from(path: &P) -> File {
        File { name: path.as_ref().into(), storage: Storage::Named }
    }
}

impl From<PathBuf> for File {
    fn from(path: PathBuf) -> File {
        File::from(path.as_path())
    }
}

impl From<String> for File {
    fn from(path: String) -> File {
        File::from(path.as_str())
    }
}

impl From<&File> for File {
    fn from(file: &File) -> File {
        file.clone()
    }
}

/// Returns the files that match a pattern of `*`, `?`, `[…]` and `**`, sorted by name. With the
/// feature `remote`, patterns such as `gs://bucket/train-*` and `s3://bucket/**/*.csv` match the
/// objects of a bucket.
///
/// # Errors
/// [`Error::Io`] if the pattern is invalid, a folder cannot be read, or nothing matches. For an
/// object store also if the bucket does not exist, or credentials are missing or refused.
///
/// ```
/// use oxidax::data;
/// # let folder = tempfile::tempdir().unwrap();
/// # for name in ["train-0-of-2", "train-1-of-2", "test"] {
/// #     std::fs::write(folder.path().join(name), "").unwrap();
/// # }
/// # let folder = folder.path().display();
/// let shards = data::files(&format!("{folder}/train-*-of-2"))?;
/// assert_eq!(shards.len(), 2);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "list_files")]
#[doc(alias = "glob")]
pub fn files(pattern: &str) -> Result<Vec<File>, Error> {
    let refused =
        |kind, message: String| io_error(Path::new(pattern), io::Error::new(kind, message));
    let local;
    let pattern = match Location::parse(pattern).map_err(storage_error)? {
        Location::Object { key, .. } => {
            // `?` begins no query in these addresses, and `key` is the end of the pattern.
            let bucket = pattern.trim_end_matches('/').strip_suffix(&key).unwrap_or(pattern);
            let bucket = Stores::from_env().at(bucket).map_err(storage_error)?;
            return matching(&bucket, &key);
        }
        Location::Local(path) if Location::is_address(pattern) => {
            local = path.to_string_lossy().into_owned();
            &local
        }
        Location::Local(_) => pattern,
    };
    let matches = glob::glob(pattern).map_err(|error| {
        let message = format!("invalid file pattern: {} at character {}", error.msg, error.pos);
        refused(io::ErrorKind::InvalidInput, message)
    })?;
    let mut found = Vec::new();
    for path in matches {
        let path =
            path.map_err(|error| io_error(error.path(), io::Error::from(error.error().kind())))?;
        if path.is_file() {
            found.push(File::from(path));
        }
    }
    if found.is_empty() {
        Err(refused(io::ErrorKind::NotFound, "no file matches".into()))
    } else {
        Ok(found)
    }
}

/// Returns the objects of a bucket whose keys match a pattern, sorted by key.
pub(super) fn matching(bucket: &StoragePath, pattern: &str) -> Result<Vec<File>, Error> {
    let place = bucket.join(pattern).to_string();
    let refused =
        |kind, message: String| io_error(Path::new(&place), io::Error::new(kind, message));
    let matcher = glob::Pattern::new(pattern).map_err(|error| {
        let message = format!("invalid file pattern: {} at character {}", error.msg, error.pos);
        refused(io::ErrorKind::InvalidInput, message)
    })?;
    // Stores list by folder: the one before the first special character.
    let literal = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let (folder, prefix) = match pattern[..literal].rsplit_once('/') {
        Some((folder, _)) => (bucket.join(folder), format!("{folder}/")),
        None => (bucket.clone(), String::new()),
    };
    let options =
        glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
    let listed = folder.list().map_err(storage_error)?;
    let keys = listed.into_iter().map(|object| -> String { format!("{prefix}{}", object.name) });
    let keys = keys.filter(|key| matcher.matches_with(key, options));
    let found: Vec<File> = keys.map(|key| File::object(bucket.join(&key))).collect();
    if found.is_empty() {
        Err(refused(io::ErrorKind::NotFound, "no object matches".into()))
    } else {
        Ok(found)
    }
}

/// An open file with random access, shared by threads.
pub(in crate::data) struct Handle {
    file: File,
    bytes: Bytes,
    len: u64,
}

enum Bytes {
    Local(std::fs::File),
    Memory(Arc<[u8]>),
    Object(oxidax_storage::ObjectReader),
}

impl Handle {
    pub(in crate::data) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file's length when it was opened.
    pub(in crate::data) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the preferred size of a read. Requests to an object store cost a round trip.
    pub(in crate::data) fn block(&self) -> usize {
        match &self.bytes {
            Bytes::Local(_) | Bytes::Memory(_) => 256 << 10,
            Bytes::Object(reader) => reader.block(),
        }
    }

    /// Reads bytes at `offset` into the buffer, with a single request. Returns 0 at the end.
    pub(in crate::data) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::Local(file) => file.read_at(buffer, offset),
            Bytes::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
            Bytes::Object(reader) => {
                reader.read_at(buffer, offset).map_err(oxidax_storage::Error::without_location)
            }
        }
    }

    /// Reads exactly `count` bytes, called `what` in errors. The length is checked before memory is
    /// allocated.
    pub(in crate::data) fn exactly(
        &self,
        offset: u64,
        count: u64,
        what: &str,
    ) -> Result<Vec<u8>, Error> {
        let end = offset.checked_add(count).filter(|&end| end <= self.len);
        let size = usize::try_from(count).ok().filter(|_| end.is_some());
        let Some(size) = size else {
            return Err(self.file.truncated(self.len, what, count, offset));
        };
        let mut bytes = vec![0; size];
        let mut filled = 0;
        while filled < size {
            match self.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => {
                    let end = offset + filled as u64;
                    return Err(self.file.truncated(end, what, count, offset));
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let message = format!("at byte {}: {error}", offset + filled as u64);
                    return Err(self.file.io_error(io::Error::new(error.kind(), message)));
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.npy", "a.npy", "c.txt"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("d.npy")).unwrap();
        let at = |pattern: &str| folder.path().join(pattern).display().to_string();
        let names: Vec<String> = files(&at("*.npy"))
            .unwrap()
            .iter()
            .map(|file| file.path().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a.npy", "b.npy"]);
        let error = files(&at("*.csv")).unwrap_err().to_string();
        assert!(error.ends_with("*.csv: no file matches"), "{error}");
        let error = files("a[").unwrap_err().to_string();
        assert!(error.starts_with("error[io]: a[: invalid file pattern: "), "{error}");
    }

    #[test]
    fn reads_past_the_end_are_refused_before_allocating() {
        let handle = File::in_memory("few", b"abc".as_slice()).open().unwrap();
        assert_eq!(handle.exactly(1, 2, "them").unwrap(), b"bc");
        for (offset, count) in [(1, 3), (4, 0), (0, u64::MAX), (u64::MAX, 1)] {
            let error = handle.exactly(offset, count, "they").unwrap_err().to_string();
            let expected = format!(
                "error[io]: few: the file ends at byte 3: they should take {count} bytes from byte {offset}"
            );
            assert_eq!(error, expected);
        }
    }
}
