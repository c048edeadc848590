//! Lookup and storage of programs.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::config::Settings;
use crate::entry::{self, About, CacheEntry};
use crate::error::Error;
use crate::key::CacheKey;
use crate::permissions::{check, create_private, danger_of, refuse};

/// Name prefix of entries being written.
const WRITING: &str = ".new-";
/// File with the folder's identity.
const IDENTITY: &str = ".identity";
/// Older temporary files were left behind by a killed process.
const WRITTEN_BY_THEN: Duration = Duration::from_secs(3600);

/// A folder of compiled programs with safe owner and mode.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    settings: Settings,
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The stored program.
    Found(CacheEntry),
    /// No entry.
    Absent,
    /// A damaged entry. It was deleted if possible.
    Damaged {
        /// Its file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
}

/// The result of storing a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The program was stored.
    Kept {
        /// Size of its entry in bytes.
        bytes: u64,
        /// Entries deleted because of age or total size.
        evicted: usize,
    },
    /// The program has fewer bytes than [`Settings::min_bytes`].
    TooSmall,
    /// The program alone has more bytes than [`Settings::max_bytes`].
    TooLarge,
}

/// An entry's file and its last use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

impl Store {
    /// Opens the store, or returns `None` if the settings disable it. The folder need not exist.
    ///
    /// # Errors
    /// [`Error::Unsafe`] for a folder that others own or can write; [`Error::Io`].
    ///
    /// ```
    /// use oxidax_cache::{About, CacheKeyBuilder, Lookup, Settings, Store};
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(&Settings::in_folder(folder.path()))?.expect("a folder was given");
    /// let key = CacheKeyBuilder::new().finish();
    /// assert_eq!(store.get(&key)?, Lookup::Absent);
    /// let took = std::time::Duration::from_secs(3);
    /// let about = About { name: "step".into(), platform: "cpu".into(), compile_time: took };
    /// store.put(&key, &about, b"machine code")?;
    /// let Lookup::Found(entry) = store.get(&key)? else { panic!("it was kept") };
    /// assert_eq!((entry.payload(), entry.about.compile_time), (&b"machine code"[..], took));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(settings: &Settings) -> Result<Option<Store>, Error> {
        let Some(folder) = settings.folder.as_ref().filter(|_| settings.is_on()) else {
            return Ok(None);
        };
        check(folder)?;
        Ok(Some(Store { folder: folder.clone(), settings: settings.clone() }))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the path of a key's entry, whether it exists or not.
    pub fn path(&self, key: &CacheKey) -> PathBuf {
        self.folder.join(entry::file_name(key))
    }

    /// Looks up a program and marks it as used.
    ///
    /// # Errors
    /// [`Error::Unsafe`] for an entry that others own or can write; [`Error::Io`] if it cannot be
    /// read.
    pub fn get(&self, key: &CacheKey) -> Result<Lookup, Error> {
        let path = self.path(key);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(Lookup::Absent),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let meta = file.metadata().map_err(Error::io("inspect", &path))?;
        refuse(&path, danger_of(&path, &meta))?;
        match entry::read(&mut file, key).map_err(Error::io("read", &path))? {
            Ok(entry) => {
                // Entries of a read-only folder cannot be marked as used.
                file.set_modified(SystemTime::now()).ok();
                Ok(Lookup::Found(entry))
            }
            Err(reason) => {
                // A damaged entry that cannot be deleted only costs time.
                fs::remove_file(&path).ok();
                Ok(Lookup::Damaged { path, reason })
            }
        }
    }

    /// Stores a program, replacing its previous entry. Then deletes entries unused for
    /// [`Settings::max_age`], and the least recently used ones until the total is within
    /// [`Settings::max_bytes`].
    ///
    /// The caller checks [`Settings::min_compile`].
    ///
    /// # Errors
    /// [`Error::Io`] with the file, for example on a full disk or a read-only folder;
    /// [`Error::Unsafe`].
    pub fn put(&self, key: &CacheKey, about: &About, payload: &[u8]) -> Result<Put, Error> {
        if (payload.len() as u64) < self.settings.min_bytes {
            return Ok(Put::TooSmall);
        }
        if payload.len() as u64 > self.settings.max_bytes {
            return Ok(Put::TooLarge);
        }
        create_private(&self.folder).map_err(Error::io("create", &self.folder))?;
        check(&self.folder)?;
        let bytes = self.write(&self.path(key), |file| entry::write(file, key, about, payload))?;
        Ok(Put::Kept { bytes, evicted: self.prune()? })
    }

    /// Deletes the entry of a key if it exists.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, key: &CacheKey) -> Result<(), Error> {
        remove(&self.path(key)).map(drop)
    }

    /// Returns the identity of the folder: 32 hexadecimal digits in a file of it, created by the
    /// first process that asks. Processes on several hosts compare it to find out whether they
    /// share the folder.
    ///
    /// # Errors
    /// [`Error::Io`] if the file can be neither read nor created; [`Error::Unsafe`].
    ///
    /// ```
    /// use oxidax_cache::{Settings, Store};
    /// let folder = tempfile::tempdir()?;
    /// let open = || Store::open(&Settings::in_folder(folder.path()));
    /// let (one, other) = (open()?.expect("a folder was given"), open()?.expect("it is on"));
    /// assert_eq!(one.identity()?, other.identity()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity(&self) -> Result<String, Error> {
        let path = self.folder.join(IDENTITY);
        if let Some(known) = read_identity(&path)? {
            return Ok(known);
        }
        create_private(&self.folder).map_err(Error::io("create", &self.folder))?;
        check(&self.folder)?;
        let state = RandomState::new();
        let identity = format!(
            "{:016x}{:016x}",
            state.hash_one((std::process::id(), SystemTime::now())),
            RandomState::new().hash_one(&self.folder)
        );
        let new = self.folder.join(format!("{WRITING}{}-identity", identity));
        let written = create_new(&new).and_then(|mut file| file.write_all(identity.as_bytes()));
        // A link does not replace the file of a process that was faster. File systems without
        // links may, which makes two processes differ for as long as they run, and write twice.
        let linked = written.and_then(|()| match fs::hard_link(&new, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&new, &path),
            _ => Ok(()),
        });
        fs::remove_file(&new).ok();
        linked.map_err(Error::io("write", &path))?;
        Ok(read_identity(&path)?.unwrap_or(identity))
    }

    /// Writes a file under a temporary name, then renames it.
    pub(crate) fn write<T>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = self.folder.join(format!("{WRITING}{}-{count}", std::process::id()));
        let written = create_new(&new).and_then(|mut file| write(&mut file));
        let written = written.map_err(Error::io("write", &new));
        // No flush to the disk: damage after a power failure is detected.
        let renamed = written.and_then(|written| {
            fs::rename(&new, path).map_err(Error::io("rename", &new))?;
            Ok(written)
        });
        renamed.inspect_err(|_| {
            // The first error is reported.
            fs::remove_file(&new).ok();
        })
    }

    /// Deletes entries beyond the limits and returns their number. Other processes may do so at the
    /// same time: all use the same order, so an entry that is already gone would have been deleted
    /// anyway.
    fn prune(&self) -> Result<usize, Error> {
        let now = SystemTime::now();
        let age = |used: SystemTime| now.duration_since(used).unwrap_or_default();
        let (mut entries, writing) = self.list()?;
        self.remove_left_behind(&writing)?;
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut evicted = 0;
        for entry in &entries {
            if age(entry.used) <= self.settings.max_age && total <= self.settings.max_bytes {
                break;
            }
            remove(&entry.path)?;
            total -= entry.bytes;
            evicted += 1;
        }
        Ok(evicted)
    }

    /// Deletes temporary files of killed processes.
    pub(crate) fn remove_left_behind(&self, writing: &[Listed]) -> Result<(), Error> {
        let now = SystemTime::now();
        let is_left = |used| now.duration_since(used).is_ok_and(|age| age > WRITTEN_BY_THEN);
        let mut left = writing.iter().filter(|left| is_left(left.used));
        left.try_for_each(|left| remove(&left.path).map(drop))
    }

    /// Returns all entries, intact or not, and all temporary files.
    pub(crate) fn list(&self) -> Result<(Vec<Listed>, Vec<Listed>), Error> {
        let (mut entries, mut writing) = (Vec::new(), Vec::new());
        let listing = match fs::read_dir(&self.folder) {
            Ok(listing) => listing,
            Err(error) if is_absent(&error) => return Ok((entries, writing)),
            Err(error) => return Err(Error::io("read", &self.folder)(error)),
        };
        for found in listing {
            let found = found.map_err(Error::io("read", &self.folder))?;
            let path = found.path();
            let is_entry = entry::key_of(&path).is_some();
            if !is_entry && !found.file_name().to_string_lossy().starts_with(WRITING) {
                continue;
            }
            let meta = match found.metadata() {
                Ok(meta) => meta,
                // Another process deleted it.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::io("inspect", &path)(error)),
            };
            let used = meta.modified().map_err(Error::io("inspect", &path))?;
            let listed = Listed { path, bytes: meta.len(), used };
            if is_entry { entries.push(listed) } else { writing.push(listed) }
        }
        Ok((entries, writing))
    }
}

/// Reads the identity of a folder. An absent or damaged file is `None`.
fn read_identity(path: &Path) -> Result<Option<String>, Error> {
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(64).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::InvalidData => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io("read", path)(error)),
    }
    let fits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !fits {
        // The next attempt creates it.
        fs::remove_file(path).ok();
    }
    Ok(fits.then_some(text))
}

/// Deletes a file. Returns false if it did not exist.
pub(crate) fn remove(path: &Path) -> Result<bool, Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(Error::io("delete", path)(error)),
    }
}

/// Creates a file that only the user can read and write, whatever the umask.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns true if the error means that the file does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
