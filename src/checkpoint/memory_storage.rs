//! A storage in memory for tests: without renaming if wanted, of limited room, and counting what is
//! read.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use super::claim::claim;
use super::storage::{EntryKind, FolderLock, HeldLock, NewFile, Storage, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Files {
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    folders: Mutex<BTreeSet<PathBuf>>,
    read: AtomicU64,
}

/// One process's view of a storage in memory.
#[derive(Clone)]
pub(super) struct Memory {
    renames: bool,
    files: Arc<Files>,
    /// Number of bytes that this process can still write.
    room: Arc<AtomicU64>,
}

struct New {
    memory: Memory,
    path: PathBuf,
    bytes: Vec<u8>,
}

struct Stored {
    files: Arc<Files>,
    bytes: Vec<u8>,
}

struct Unlocked;

impl HeldLock for Unlocked {}

fn error(kind: io::ErrorKind) -> io::Error {
    kind.into()
}

impl Memory {
    pub(super) fn new(renames: bool) -> Memory {
        let room = Arc::new(AtomicU64::new(u64::MAX));
        Memory { renames, files: Arc::default(), room }
    }

    /// Returns a view of the same files for a process whose disk has room for `bytes`.
    pub(super) fn with_room(&self, bytes: u64) -> Memory {
        Memory { room: Arc::new(AtomicU64::new(bytes)), ..self.clone() }
    }

    /// Returns the number of bytes read since the last call.
    pub(super) fn take_read(&self) -> u64 {
        self.files.read.swap(0, Ordering::Relaxed)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.files.lock().unwrap().keys().cloned().collect()
    }

    pub(super) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.files.files.lock().unwrap().get_mut(path).unwrap());
    }

    fn take_room(&self, bytes: usize) -> io::Result<()> {
        let left = |room: u64| room.checked_sub(bytes as u64);
        let taken = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        taken.map(drop).map_err(|_| error(io::ErrorKind::StorageFull))
    }

    fn claim(&self, folder: &Path) -> io::Result<FolderLock> {
        claim(Arc::new(self.clone()), folder)
    }

    fn has_folder(&self, path: &Path) -> bool {
        // Without renaming there are no folders, as in object stores: names only have slashes.
        let below = || self.paths().iter().any(|file| file.starts_with(path) && file != path);
        self.files.folders.lock().unwrap().contains(path) || !self.renames && below()
    }
}

impl Storage for Memory {
    fn renames(&self) -> bool {
        self.renames
    }

    fn create_folders(&self, folder: &Path) -> io::Result<()> {
        if self.renames {
            self.files.folders.lock().unwrap().insert(folder.to_path_buf());
        }
        Ok(())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let is_new = self.files.folders.lock().unwrap().insert(folder.to_path_buf());
        if is_new { Ok(()) } else { Err(error(io::ErrorKind::AlreadyExists)) }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        if self.renames && !self.has_folder(path.parent().unwrap()) {
            return Err(error(io::ErrorKind::NotFound));
        }
        if self.kind(path)?.is_some() {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        Ok(Box::new(New { memory: self.clone(), path: path.to_path_buf(), bytes: Vec::new() }))
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.renames && !self.has_folder(path.parent().unwrap()) {
            return Err(error(io::ErrorKind::NotFound));
        }
        self.take_room(bytes.len())?;
        self.files.files.lock().unwrap().insert(path.to_path_buf(), bytes.to_vec());
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let files = self.files.files.lock().unwrap();
        let bytes = files.get(path).ok_or_else(|| error(io::ErrorKind::NotFound))?.clone();
        Ok(Box::new(Stored { files: self.files.clone(), bytes }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let mut entries = BTreeMap::new();
        let folders = self.files.folders.lock().unwrap().clone();
        let files = self.paths();
        let files = files.iter().map(|path| (path, EntryKind::File));
        for (path, kind) in files.chain(folders.iter().map(|path| (path, EntryKind::Folder))) {
            let Ok(rest) = path.strip_prefix(folder) else { continue };
            let mut parts = rest.components();
            let Some(name) = parts.next() else { continue };
            let kind = if parts.next().is_some() { EntryKind::Folder } else { kind };
            entries.insert(name.as_os_str().to_string_lossy().into_owned(), kind);
        }
        Ok(entries.into_iter().collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        let is_file = self.files.files.lock().unwrap().contains_key(path);
        let folder = || self.has_folder(path).then_some(EntryKind::Folder);
        Ok(if is_file { Some(EntryKind::File) } else { folder() })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert!(self.renames, "this storage cannot rename");
        let moved = |path: &PathBuf| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
            Ok(rest) => to.join(rest),
            Err(_) => path.clone(),
        };
        let mut files = self.files.files.lock().unwrap();
        *files = std::mem::take(&mut *files).into_iter().map(|(p, b)| (moved(&p), b)).collect();
        let mut folders = self.files.folders.lock().unwrap();
        *folders = folders.iter().map(moved).collect();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.files.lock().unwrap().retain(|file, _| !file.starts_with(path));
        self.files.folders.lock().unwrap().retain(|folder| !folder.starts_with(path));
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, folder: &Path) -> io::Result<Result<FolderLock, String>> {
        // With names that can be changed, the tests have one program.
        if self.renames { Ok(Ok(Box::new(Unlocked))) } else { self.claim(folder).map(Ok) }
    }
}

impl NewFile for New {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.memory.take_room(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.memory.files.files.lock().unwrap().insert(self.path, self.bytes);
        Ok(())
    }
}

impl StoredFile for Stored {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.files.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let from = offset as usize;
        let part = self.bytes.get(from..from + bytes.len());
        bytes.copy_from_slice(part.ok_or_else(|| error(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }
}
