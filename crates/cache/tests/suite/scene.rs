//! A cache in a temporary folder.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use oxidax_cache::{About, CacheKey, CacheKeyBuilder, Lookup, Put, Settings, Store};
use tempfile::TempDir;

pub(crate) struct Scene {
    pub(crate) root: TempDir,
    pub(crate) store: Store,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::with(|settings| settings)
    }

    pub(crate) fn with(change: impl FnOnce(Settings) -> Settings) -> Scene {
        let root = tempfile::tempdir().unwrap();
        let settings = change(Settings::in_folder(root.path().join("programs")));
        Scene { store: Store::open(&settings).unwrap().unwrap(), root }
    }

    /// Stores `payload` under `key`.
    pub(crate) fn put(&self, key: &CacheKey, payload: &[u8]) -> Put {
        self.store.put(key, &about("step"), payload).unwrap()
    }

    /// Returns the payload stored under a key. Panics if the entry is damaged.
    pub(crate) fn payload(&self, key: &CacheKey) -> Option<Vec<u8>> {
        match self.store.get(key).unwrap() {
            Lookup::Found(entry) => Some(entry.payload().to_vec()),
            Lookup::Absent => None,
            Lookup::Damaged { path, reason } => panic!("{}: {reason}", path.display()),
        }
    }

    /// Sets an entry's last use to this long ago.
    pub(crate) fn age(&self, key: &CacheKey, age: Duration) {
        let file = File::options().append(true).open(self.store.path(key)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    /// Returns the names of all files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let listing = fs::read_dir(self.store.folder()).unwrap();
        let mut names: Vec<String> =
            listing.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.store.folder().join(name)
    }
}

pub(crate) fn key(word: &str) -> CacheKey {
    let mut key = CacheKeyBuilder::new();
    key.part("program", word.as_bytes());
    key.finish()
}

pub(crate) fn about(name: &str) -> About {
    let compile_time = Duration::from_millis(1234);
    About { name: name.to_owned(), platform: "cpu".to_owned(), compile_time }
}
