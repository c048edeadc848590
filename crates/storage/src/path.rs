//! Operations on files, objects and folders.

use crate::error::{Error, Problem};
use crate::local;
#[cfg(feature = "remote")]
use crate::location::wrong_segment;
use crate::reader::ObjectReader;
#[cfg(feature = "remote")]
use crate::remote::Client;
use crate::writer::ObjectWriter;
use std::fmt;
use std::io;
use std::path::PathBuf;
#[cfg(feature = "remote")]
use std::sync::Arc;

/// A file or folder on a disk, or an object or prefix of an object store. Cloning is cheap.
///
/// In an object store a folder is the set of objects whose keys begin with its key and a slash. It
/// need not be created, and disappears with its last object.
#[derive(Clone, Debug)]
pub struct StoragePath(pub(crate) Target);

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Local(PathBuf),
    #[cfg(feature = "remote")]
    Object {
        client: Arc<Client>,
        key: String,
    },
}

/// A file or object below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name relative to the folder, with slashes.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
}

/// A file, object or folder in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name without slashes.
    pub name: String,
    /// The size in bytes. `None` for a folder.
    pub size: Option<u64>,
}

impl StoragePath {
    pub(crate) fn local(path: PathBuf) -> StoragePath {
        StoragePath(Target::Local(path))
    }

    #[cfg(feature = "remote")]
    pub(crate) fn object(client: Arc<Client>, key: &str) -> StoragePath {
        StoragePath(Target::Object { client, key: key.to_owned() })
    }

    /// Returns the path of `name`, which may contain slashes, inside this folder.
    pub fn join(&self, name: &str) -> StoragePath {
        match &self.0 {
            Target::Local(path) => StoragePath::local(path.join(name)),
            #[cfg(feature = "remote")]
            Target::Object { client, key } if key.is_empty() => {
                StoragePath::object(client.clone(), name)
            }
            #[cfg(feature = "remote")]
            Target::Object { client, key } => {
                StoragePath::object(client.clone(), &format!("{key}/{name}"))
            }
        }
    }

    /// Returns the path of a local file or folder.
    pub fn as_local(&self) -> Option<&std::path::Path> {
        match &self.0 {
            Target::Local(path) => Some(path),
            #[cfg(feature = "remote")]
            Target::Object { .. } => None,
        }
    }

    pub(crate) fn error(&self, operation: &'static str, problem: impl Into<Problem>) -> Error {
        Error::new(self.to_string(), operation, problem)
    }

    /// Opens the file or object for reading at random.
    ///
    /// # Errors
    /// Kind `NotFound` if it does not exist, `IsADirectory` if it is a local folder.
    pub fn open(&self) -> Result<ObjectReader, Error> {
        ObjectReader::open(self)
    }

    /// Returns the size in bytes, or `None` if the file or object does not exist.
    ///
    /// # Errors
    /// If the size cannot be read, for example without permission.
    pub fn size(&self) -> Result<Option<u64>, Error> {
        match self.open() {
            Ok(reader) => Ok(Some(reader.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the file or object exists. A folder is not an object.
    ///
    /// # Errors
    /// The errors of [`size`](StoragePath::size).
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.size()?.is_some())
    }

    /// Reads the whole file or object.
    ///
    /// # Errors
    /// The errors of [`open`](StoragePath::open) and [`ObjectReader::read_at`].
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let reader = self.open()?;
        let len = usize::try_from(reader.len()).map_err(|_| {
            self.error("reading", Problem::from(io::Error::from(io::ErrorKind::OutOfMemory)))
        })?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|error| {
            let message = format!("{len} bytes do not fit into memory: {error}");
            self.error("reading", Problem::new(io::ErrorKind::OutOfMemory, message))
        })?;
        bytes.resize(len, 0);
        reader.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Writes the whole file or object. It replaces the previous one when it is complete.
    ///
    /// # Errors
    /// If the bytes cannot be written; nothing has changed then.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut writer = self.create()?;
        writer.write(bytes)?;
        writer.finish()
    }

    /// Starts writing a file or object of any size. It replaces the previous one at
    /// [`ObjectWriter::finish`].
    ///
    /// # Errors
    /// If the file cannot be created. An object store is first asked when there are bytes to send.
    pub fn create(&self) -> Result<ObjectWriter, Error> {
        ObjectWriter::create(self)
    }

    /// Returns all files below this folder, sorted by name. A missing folder has none.
    ///
    /// # Errors
    /// If the folder cannot be read, or the bucket does not exist.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let listed = match &self.0 {
            Target::Local(path) => local::list(path).map_err(Problem::from),
            #[cfg(feature = "remote")]
            Target::Object { client, key } => client.list(key),
        };
        listed.map_err(|problem| self.error("listing", problem))
    }

    /// Returns the files and folders in this folder, sorted by name. A missing folder has none.
    ///
    /// # Errors
    /// The errors of [`list`](StoragePath::list).
    pub fn folder(&self) -> Result<Vec<FolderEntry>, Error> {
        let entries = match &self.0 {
            Target::Local(path) => local::folder(path).map_err(Problem::from),
            #[cfg(feature = "remote")]
            Target::Object { client, key } => client.folder(key),
        };
        entries.map_err(|problem| self.error("listing", problem))
    }

    /// Deletes the file or object. It may be missing.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub fn delete(&self) -> Result<(), Error> {
        let deleted = match &self.0 {
            Target::Local(path) => {
                local::existing(std::fs::remove_file(path)).map(drop).map_err(Problem::from)
            }
            #[cfg(feature = "remote")]
            Target::Object { client, key } => client.delete(vec![key.clone()]),
        };
        deleted.map_err(|problem| self.error("deleting", problem))
    }

    /// Deletes the file or object of this name and everything below the folder of this name.
    ///
    /// Objects are deleted one by one: a reader may see some of them gone. Delete what makes them
    /// valid, such as a manifest, first.
    ///
    /// # Errors
    /// If something cannot be deleted; the rest may be deleted.
    pub fn delete_all(&self) -> Result<(), Error> {
        let deleted = match &self.0 {
            Target::Local(path) => local::delete_all(path).map_err(Problem::from),
            #[cfg(feature = "remote")]
            Target::Object { client, key } => client.list(key).and_then(|objects| {
                let below = objects.into_iter().map(|object| match key.as_str() {
                    "" => object.name,
                    key => format!("{key}/{}", object.name),
                });
                let itself = (!key.is_empty()).then(|| key.clone());
                client.delete(below.chain(itself).collect())
            }),
        };
        deleted.map_err(|problem| self.error("deleting", problem))
    }

    /// Returns the key, or the problem that it is not one.
    #[cfg(feature = "remote")]
    pub(crate) fn checked_key(key: &str) -> Result<object_store::path::Path, Problem> {
        if key.is_empty() {
            let message = "this is a bucket, not an object";
            return Err(Problem::new(io::ErrorKind::IsADirectory, message));
        }
        if let Some(wrong) = wrong_segment(key) {
            let message = format!("the key `{key}` has the segment `{wrong}`");
            return Err(Problem::new(io::ErrorKind::InvalidInput, message));
        }
        object_store::path::Path::parse(key)
            .map_err(|error| Problem::new(io::ErrorKind::InvalidInput, error.to_string()))
    }
}

impl fmt::Display for StoragePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Local(path) => path.display().fmt(f),
            #[cfg(feature = "remote")]
            Target::Object { client, key } if key.is_empty() => client.address().fmt(f),
            #[cfg(feature = "remote")]
            Target::Object { client, key } => write!(f, "{}/{key}", client.address()),
        }
    }
}
