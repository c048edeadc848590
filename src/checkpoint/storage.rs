//! Operations on stored files: the one place where checkpoints touch a file system.
//!
//! Checkpoints need little of a storage, so that an object store can provide it too: files are
//! created once and never changed, small files are put atomically, and only the name of a complete
//! checkpoint is renamed. A storage that cannot rename stores files under their final names; there
//! a checkpoint is visible when its manifest is.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A storage of files, shared by threads.
pub(super) type SharedStorage = Arc<dyn Storage>;

/// Operations on stored files. Paths are those of the file system, or keys with slashes.
pub(super) trait Storage: Send + Sync {
    /// Returns true if a folder can be renamed atomically.
    fn renames(&self) -> bool;

    /// Creates a folder and those above it; an existing one is kept.
    fn create_folders(&self, folder: &Path) -> io::Result<()>;

    /// Creates a folder. An existing one is an error.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Creates a file. An existing one is an error if the storage renames. Otherwise it stays until
    /// the new one is finished.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Creates or replaces a small file atomically and durably.
    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;

    /// Returns the names in a folder with their kinds, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, EntryKind)>>;

    /// Returns the kind of an entry, or `None` if there is none.
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>>;

    /// Renames an entry. A file replaces an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, or a folder with its contents. A missing entry is not an error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes changes of a folder's entries durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a folder until the returned value is dropped, or returns `None` with the note of the
    /// holder if another process holds the lock.
    fn lock(&self, folder: &Path) -> io::Result<Result<FolderLock, String>>;
}

/// Keeps a lock until it is dropped.
pub(super) type FolderLock = Box<dyn HeldLock>;

/// A lock of a folder.
pub(super) trait HeldLock: Send + Sync {
    /// Returns an error that names both programs if another one has taken the folder over. Only a
    /// storage without locks allows that.
    fn check(&self) -> io::Result<Result<(), String>> {
        Ok(Ok(()))
    }
}

impl HeldLock for File {}

/// The kind of a folder's entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EntryKind {
    File,
    Folder,
}

/// A file that is being written.
pub(super) trait NewFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file durable.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A file that is open for reading.
pub(super) trait StoredFile: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> u64;

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Reads a small file.
pub(super) fn read_all(file: &dyn StoredFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The file that is locked while a process has a folder open.
const LOCK: &str = ".lock";

/// The file system of this machine.
pub(super) struct Local;

/// Returns the file system of this machine.
pub(super) fn local() -> SharedStorage {
    Arc::new(Local)
}

struct LocalFile {
    file: File,
    len: u64,
}

impl Storage for Local {
    fn renames(&self) -> bool {
        true
    }

    fn create_folders(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            // Synced before the rename: a crash must not leave an empty file under the final name.
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
            // Best effort: the first error is returned.
            drop(fs::remove_file(&temporary));
        })
    }

    /// Opens an ordinary file. A pipe is refused, because opening it would wait for a writer.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is not a file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Box::new(LocalFile { file, len }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let mut listed = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // Checkpoints have no names that are not Unicode.
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Follows links: a step may be a link to another disk.
            let is_folder = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            listed.push((name, if is_folder { EntryKind::Folder } else { EntryKind::File }));
        }
        Ok(listed)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(EntryKind::Folder)),
            Ok(_) => Ok(Some(EntryKind::File)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, folder: &Path) -> io::Result<Result<FolderLock, String>> {
        let path = folder.join(LOCK);
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Ok(Err(fs::read_to_string(&path).unwrap_or_default()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(std::process::id().to_string().as_bytes())?;
        Ok(Ok(Box::new(file)))
    }
}

impl NewFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.sync_all()
    }
}

impl StoredFile for LocalFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}
