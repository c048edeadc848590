//! The cache folder of installed plugins.
//!
//! ```text
//! CACHE/plugins/.lock                                   the lock held during writes
//! CACHE/plugins/PACKAGE-VERSION/LIBRARY.so              a pinned plugin
//! CACHE/plugins/PACKAGE-VERSION/LIBRARY.so.verified     its SHA-256, size and modification time
//! CACHE/plugins/local-PLATFORM/LIBRARY.so               a plugin installed from a file
//! CACHE/plugins/.new-…/                                 an unfinished installation
//! ```
//! Invariants:
//!
//! - A library is renamed to its final name after its hash is checked and its bytes are synced, so
//!   a half-written file never has that name.
//! - A library is returned only if its hash is known: from the record if size and modification time
//!   still match, otherwise by hashing the file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::config::Config;
use crate::error::Error;
use crate::hash;
use crate::permissions;
use crate::pins::Pin;
use crate::platform::Platform;
use crate::progress::{Progress, Silent};

/// File name suffixes.
const RECORD: &str = "verified";
/// Name prefix of folders of unfinished installations.
const STAGING: &str = ".new-";

/// A plugin folder with safe owner and mode.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// The lock held while the cache is written. Released on drop and when the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Cache {
    /// Opens the cache of a configuration. The folder need not exist.
    pub(crate) fn open(config: &Config) -> Result<Cache, Error> {
        let root = config.cache.as_ref().ok_or(Error::NoCache)?;
        permissions::check(root)?;
        let folder = root.join("plugins");
        permissions::check(&folder)?;
        Ok(Cache { folder })
    }

    /// Returns the folder of an entry, which need not exist.
    pub(crate) fn entry(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the names of all entries, sorted.
    pub(crate) fn entries(&self) -> Result<Vec<String>, Error> {
        let listing = match fs::read_dir(&self.folder) {
            Ok(listing) => listing,
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("read", &self.folder)(e)),
        };
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(Error::io("read", &self.folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && entry.path().is_dir() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the library in the `local-…` entry of a platform, whatever its file name.
    pub(crate) fn local_library(&self, platform: Platform) -> Option<PathBuf> {
        let listing = fs::read_dir(self.entry(&local_name(platform))).ok()?;
        let mut files: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.is_file() && path.extension().is_none_or(|ext| ext != RECORD));
        files.retain(|path| path.file_name().is_none_or(|n| n.as_encoded_bytes()[0] != b'.'));
        files.sort();
        files.into_iter().next()
    }

    /// Creates the folder and waits for its lock.
    pub(crate) fn lock(
        &self,
        platform: Platform,
        progress: &mut dyn Progress,
    ) -> Result<Lock, Error> {
        let not_writable = |path: &Path, source: io::Error| Error::CacheNotWritable {
            path: path.to_owned(),
            variable: platform.variable(),
            source,
        };
        permissions::create_private(&self.folder).map_err(|e| not_writable(&self.folder, e))?;
        let path = self.folder.join(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| not_writable(&path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.note("waiting for another process that is installing a plugin");
                file.lock().map_err(Error::io("lock", &path))?;
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
        }
        Ok(Lock { _file: file })
    }

    /// Creates an empty folder to prepare an entry in. First deletes leftovers of killed
    /// installations: nobody else uses them while the lock is held.
    pub(crate) fn staging(&self, _: &Lock, platform: Platform) -> Result<Staging, Error> {
        let not_writable = |path: &Path, source| Error::CacheNotWritable {
            path: path.to_owned(),
            variable: platform.variable(),
            source,
        };
        for entry in fs::read_dir(&self.folder).map_err(Error::io("read", &self.folder))?.flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                fs::remove_dir_all(entry.path()).map_err(|e| not_writable(&entry.path(), e))?;
            }
        }
        let path = self.folder.join(format!("{STAGING}{}", std::process::id()));
        permissions::create_private(&path).map_err(|e| not_writable(&path, e))?;
        Ok(Staging { path })
    }

    /// Renames a prepared and verified library to its final name and records its hash.
    pub(crate) fn publish(
        &self,
        _: &Lock,
        prepared: &Path,
        entry: &str,
        sha256: &str,
    ) -> Result<PathBuf, Error> {
        let folder = self.entry(entry);
        permissions::create_private(&folder).map_err(Error::io("create", &folder))?;
        permissions::check(&folder)?;
        let name = prepared.file_name().expect("prepared files are created with a name");
        let library = folder.join(name);
        fs::rename(prepared, &library).map_err(Error::io("rename", prepared))?;
        // A rename survives a power failure only after the folder is synced.
        File::open(&folder).and_then(|f| f.sync_all()).map_err(Error::io("sync", &folder))?;
        write_record(&library, sha256).map_err(Error::io("write", &record_path(&library)))?;
        Ok(library)
    }

    /// Deletes an entry.
    pub(crate) fn remove(&self, _: &Lock, entry: &str) -> Result<(), Error> {
        let folder = self.entry(entry);
        fs::remove_dir_all(&folder).map_err(Error::io("delete", &folder))
    }
}

/// A temporary folder inside the cache, deleted on drop.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) path: PathBuf,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The next installation deletes what cannot be deleted now.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Returns the entry name of a plugin that the user installed from a file.
pub(crate) fn local_name(platform: Platform) -> String {
    format!("local-{platform}")
}

/// The state of an installed library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Not installed.
    Absent,
    /// Installed and intact.
    Valid,
    /// The content differs from the installed one; the text describes the difference.
    Damaged(String),
}

/// Returns the state of a library. `expected` is the pinned hash; without it the recorded hash is
/// used.
///
/// The record avoids hashing hundreds of megabytes at every start. It is valid while the library
/// has the size and modification time that it had when it was hashed.
pub(crate) fn state(library: &Path, expected: Option<&str>) -> Result<State, Error> {
    let Some(now) = stamp(library)? else { return Ok(State::Absent) };
    check_trust(library)?;
    let record = fs::read_to_string(record_path(library)).unwrap_or_default();
    let recorded_hash = record.split_whitespace().next();
    let expected = expected.or(recorded_hash);
    if let Some(expected) = expected
        && record.trim_end() == format!("{expected} {now}")
    {
        return Ok(State::Valid);
    }
    rehash(library, expected)
}

/// Like [`state`], but always reads every byte.
pub(crate) fn verify(library: &Path, expected: Option<&str>) -> Result<State, Error> {
    if stamp(library)?.is_none() {
        return Ok(State::Absent);
    }
    check_trust(library)?;
    let recorded = recorded(library);
    rehash(library, expected.or(recorded.as_deref()))
}

fn rehash(library: &Path, expected: Option<&str>) -> Result<State, Error> {
    let Some(expected) = expected else {
        return Ok(State::Damaged("the record of its SHA-256 is missing".to_owned()));
    };
    let found = hash::of_file(library, &mut Silent)?;
    if found != expected {
        let size = library.metadata().map_err(Error::io("inspect", library))?.len();
        let reason = format!("its {size} bytes have SHA-256 {found}, expected {expected}");
        return Ok(State::Damaged(reason));
    }
    // A read-only cache cannot store the new record, so the next start hashes again.
    write_record(library, expected).ok();
    Ok(State::Valid)
}

/// Checks that the owner and mode of the library and of its folder are safe.
fn check_trust(library: &Path) -> Result<(), Error> {
    if let Some(folder) = library.parent() {
        permissions::check(folder)?;
    }
    permissions::check(library)
}

/// Returns the recorded hash of a library.
pub(crate) fn recorded(library: &Path) -> Option<String> {
    let record = fs::read_to_string(record_path(library)).ok()?;
    record.split_whitespace().next().map(str::to_owned)
}

fn record_path(library: &Path) -> PathBuf {
    let mut name = library.as_os_str().to_owned();
    name.push(".");
    name.push(RECORD);
    PathBuf::from(name)
}

/// Returns size and modification time (nanoseconds since 1970), or `None` if the file does not
/// exist.
fn stamp(library: &Path) -> Result<Option<String>, Error> {
    let meta = match library.metadata() {
        Ok(meta) => meta,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(Error::io("inspect", library)(e)),
    };
    let modified = meta.modified().map_err(Error::io("inspect", library))?;
    let nanos = modified.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    Ok(Some(format!("{} {nanos}", meta.len())))
}

/// Writes the record next to the library: `SHA256 SIZE NANOSECONDS`.
fn write_record(library: &Path, sha256: &str) -> io::Result<()> {
    let stamp = stamp(library).ok().flatten().ok_or(io::ErrorKind::NotFound)?;
    let path = record_path(library);
    let mut new = path.clone().into_os_string();
    new.push(format!(".{}", std::process::id()));
    // The record is trusted, so others must not be able to write it, whatever the umask.
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options.open(&new)?.write_all(format!("{sha256} {stamp}\n").as_bytes())?;
    fs::rename(&new, &path).inspect_err(|_| {
        // Delete the partial record and return the error of the rename.
        fs::remove_file(&new).ok();
    })
}

/// Returns true if the error means that the file does not exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the path of the pinned library if it is installed and intact. A damaged one is reported
/// and skipped.
pub(crate) fn intact(
    pin: &Pin,
    cache: &Cache,
    progress: &mut dyn Progress,
) -> Result<Option<PathBuf>, Error> {
    let path = library_path(pin, cache);
    match state(&path, Some(pin.library_sha256))? {
        State::Valid => Ok(Some(path)),
        State::Absent => Ok(None),
        State::Damaged(reason) => {
            progress.note(&format!("{} is damaged and is not used: {reason}", path.display()));
            Ok(None)
        }
    }
}

/// Returns the path at which the pinned library is installed.
pub(crate) fn library_path(pin: &Pin, cache: &Cache) -> PathBuf {
    cache.entry(&pin.folder()).join(pin.file_name())
}
