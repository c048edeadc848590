//! Finding programs in the folder, and keeping them there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::config::Settings;
use crate::entry::{self, About, Entry};
use crate::error::Error;
use crate::key::Key;
use crate::permissions::{check, create_private, danger_of, refuse};

/// Beginning of the names of entries that are being written.
const WRITING: &str = ".new-";
/// Nobody writes for so long: what is older was left behind by a process that was killed.
const WRITTEN_BY_THEN: Duration = Duration::from_secs(3600);

/// A folder of compiled programs whose owner and mode were found to be safe.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    settings: Settings,
}

/// What was found under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The program.
    Found(Entry),
    /// Nothing.
    Absent,
    /// An entry that was not what was kept. It has been deleted, if that was possible.
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

/// What became of a program that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was kept.
    Kept {
        /// The size of its entry.
        bytes: u64,
        /// Entries that went, for their age or for room.
        evicted: usize,
    },
    /// It has fewer bytes than [`Settings::min_bytes`].
    TooSmall,
    /// Alone it has more bytes than [`Settings::max_bytes`].
    TooLarge,
}

/// An entry's file, and when it was used last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

impl Store {
    /// The store of these settings; `None` if they say that nothing is kept. The folder need not exist.
    ///
    /// # Errors
    /// [`Error::Unsafe`] for a folder that others own or can write; [`Error::Io`].
    ///
    /// ```
    /// use oxidax_cache::{About, KeyBuilder, Lookup, Settings, Store};
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(&Settings::in_folder(folder.path()))?.expect("a folder was given");
    /// let key = KeyBuilder::new().finish();
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

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The limits.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The file that holds, or would hold, the entry of a key.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(entry::file_name(key))
    }

    /// Looks for a program. One that is found counts as used now.
    ///
    /// # Errors
    /// [`Error::Unsafe`] for an entry that others own or can write; [`Error::Io`] if it cannot be read.
    pub fn get(&self, key: &Key) -> Result<Lookup, Error> {
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
                // In a folder that this user may only read, entries age all the same.
                file.set_modified(SystemTime::now()).ok();
                Ok(Lookup::Found(entry))
            }
            Err(reason) => {
                // What cannot be deleted is found damaged again, which costs time and nothing else.
                fs::remove_file(&path).ok();
                Ok(Lookup::Damaged { path, reason })
            }
        }
    }

    /// Keeps a program, in the place of what was there under its key. Then entries go that were not used for
    /// [`Settings::max_age`], and as many more as it takes to stay within [`Settings::max_bytes`], those first that were
    /// not used for longest.
    ///
    /// Whether it compiled slowly enough to be worth it is the caller's question: see [`Settings::min_compile`].
    ///
    /// # Errors
    /// [`Error::Io`] with the file, for a disk that is full or a folder that may only be read; [`Error::Unsafe`].
    pub fn put(&self, key: &Key, about: &About, payload: &[u8]) -> Result<Put, Error> {
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

    /// Deletes the entry of a key, which need not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, key: &Key) -> Result<(), Error> {
        remove(&self.path(key)).map(drop)
    }

    /// Writes a file under a name of its own, then gives it its final one.
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
        // No flush to the disk: after a power cut an entry may be damaged, which is noticed.
        let renamed = written.and_then(|written| {
            fs::rename(&new, path).map_err(Error::io("rename", &new))?;
            Ok(written)
        });
        renamed.inspect_err(|_| {
            // The first error is the one to report.
            fs::remove_file(&new).ok();
        })
    }

    /// Deletes what is too old or too much; gives how many entries went. Other processes may do the same at the same
    /// time: all go by the same order, so what one finds gone already would have been its own choice.
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

    /// Deletes what processes left behind that were killed while they wrote.
    pub(crate) fn remove_left_behind(&self, writing: &[Listed]) -> Result<(), Error> {
        let now = SystemTime::now();
        let is_left = |used| now.duration_since(used).is_ok_and(|age| age > WRITTEN_BY_THEN);
        let mut left = writing.iter().filter(|left| is_left(left.used));
        left.try_for_each(|left| remove(&left.path).map(drop))
    }

    /// All entries, whatever is in them, and what is being written or was left behind.
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
                // Another process was faster.
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

/// Deletes a file; whether it was there.
pub(crate) fn remove(path: &Path) -> Result<bool, Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(Error::io("delete", path)(error)),
    }
}

/// A file that nobody else can read or write, whatever the umask says.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether the error says that there is no such file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
