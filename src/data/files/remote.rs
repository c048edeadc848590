//! Buckets of a store that the user creates.

use super::file::{File, matching};
use crate::core::Error;
use object_store::ObjectStore;
use oxidax_storage::{Storage, StoragePath};
use std::fmt;
use std::sync::Arc;

/// A bucket of an object store that your program creates with the crate `object_store`, whose
/// objects pipelines read like files.
///
/// Paths such as `gs://bucket/train/0.csv` and `s3://bucket/train/0.csv` need no `Bucket`: they work
/// wherever a path works. A `Bucket` is for other stores, and for other ways to find credentials.
///
/// ```
/// use oxidax::data::{self, Bucket};
/// use object_store::{ObjectStoreExt as _, memory::InMemory};
/// let store = InMemory::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(store.put(&"train/0.jsonl".into(), "1\n2\n".into())).unwrap();
/// # runtime.block_on(store.put(&"train/1.jsonl".into(), "3\n".into())).unwrap();
/// let bucket = Bucket::new("memory://numbers", store)?;
/// let files = bucket.files("train/*.jsonl")?;
/// assert_eq!(files[1].to_string(), "memory://numbers/train/1.jsonl");
/// let turns = data::InterleaveOptions { cycle_length: 2, block_length: 1 };
/// let numbers = data::interleave(files.iter().map(data::jsonl::<u32>), turns);
/// assert_eq!(numbers.collect::<Result<Vec<_>, _>>()?, [1, 3, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct Bucket(StoragePath);

impl Bucket {
    /// Creates a bucket from a store. `address` is the prefix of the objects' names.
    ///
    /// # Errors
    /// None today; earlier versions started a thread here.
    pub fn new(address: impl Into<String>, store: impl ObjectStore) -> Result<Bucket, Error> {
        Ok(Bucket(Storage::custom(address, Arc::new(store))))
    }

    /// Returns an object by its key, without a request to the store.
    pub fn file(&self, key: &str) -> File {
        File::object(self.0.join(key))
    }

    /// Returns the objects whose keys match a pattern of `*`, `?`, `[…]` and `**`, sorted by key.
    ///
    /// # Errors
    /// [`Error::Io`] if the pattern is invalid, the store returns an error, or nothing matches.
    pub fn files(&self, pattern: &str) -> Result<Vec<File>, Error> {
        matching(&self.0, pattern)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.0)
    }
}
