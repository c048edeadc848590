//! Files in object stores.

use super::file::{File, io_error};
use crate::core::Error;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A bucket of an object store (`gs://`, `s3://` or another), whose objects pipelines read like
/// files.
///
/// You create the store with the crate `object_store` and the features of your cloud provider,
/// which add credentials and TLS. They compile C code, so this crate enables none of them.
///
/// ```
/// use oxidax::data::{self, Bucket};
/// use object_store::{ObjectStoreExt as _, memory::InMemory};
/// let store = InMemory::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(store.put(&"train/0.jsonl".into(), "1\n2\n".into())).unwrap();
/// # runtime.block_on(store.put(&"train/1.jsonl".into(), "3\n".into())).unwrap();
/// let bucket = Bucket::new("gs://numbers", store)?;
/// let files = bucket.files("train/*.jsonl")?;
/// assert_eq!(files[1].to_string(), "gs://numbers/train/1.jsonl");
/// let turns = data::InterleaveOptions { cycle_length: 2, block_length: 1 };
/// let numbers = data::interleave(files.iter().map(data::jsonl::<u32>), turns);
/// assert_eq!(numbers.collect::<Result<Vec<_>, _>>()?, [1, 3, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct Bucket {
    address: String,
    store: Arc<Store>,
}

struct Store {
    objects: Arc<dyn ObjectStore>,
    requests: UnboundedSender<Request>,
}

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One object of a bucket.
#[derive(Clone)]
pub(super) struct Object {
    store: Arc<Store>,
    key: Key,
}

impl Bucket {
    /// Creates a bucket from a store. `address` is the prefix of the objects' names.
    ///
    /// Requests run concurrently on one thread. It ends when the bucket and all its files are
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Io`] if the thread cannot start.
    pub fn new(address: impl Into<String>, store: impl ObjectStore) -> Result<Bucket, Error> {
        let address = address.into();
        let failed = |error| io_error(Path::new(&address), error);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (requests, mut pulled) = unbounded_channel::<Request>();
        let serve = move || {
            runtime.block_on(async move {
                while let Some(request) = pulled.recv().await {
                    tokio::spawn(request);
                }
            });
        };
        let thread = std::thread::Builder::new().name("oxidax-remote".into()).spawn(serve);
        thread.map_err(failed)?;
        let store = Arc::new(Store { objects: Arc::new(store), requests });
        Ok(Bucket { address, store })
    }

    /// Returns an object by its key, without a request to the store.
    pub fn file(&self, key: &str) -> File {
        let object = Object { store: self.store.clone(), key: Key::from(key) };
        File::remote(&format!("{}/{key}", self.address.trim_end_matches('/')), object)
    }

    /// Returns the objects whose keys match a pattern of `*`, `?`, `[…]` and `**`, sorted by key.
    ///
    /// # Errors
    /// [`Error::Io`] if the pattern is invalid, the store returns an error, or nothing matches.
    pub fn files(&self, pattern: &str) -> Result<Vec<File>, Error> {
        let place = format!("{}/{pattern}", self.address.trim_end_matches('/'));
        let refused = |error| io_error(Path::new(&place), error);
        let matcher = glob::Pattern::new(pattern).map_err(|error| {
            let message = format!("invalid file pattern: {} at character {}", error.msg, error.pos);
            refused(io::Error::new(io::ErrorKind::InvalidInput, message))
        })?;
        // Stores list by folder: the one before the first special character.
        let literal = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
        let folder = pattern[..literal].rsplit_once('/').map(|(folder, _)| Key::from(folder));
        let objects = self.store.objects.clone();
        let keys = self.store.run(async move { listed(&*objects, folder.as_ref()).await });
        let options =
            glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
        let mut keys: Vec<String> = keys
            .map_err(refused)?
            .into_iter()
            .filter(|key| matcher.matches_with(key, options))
            .collect();
        keys.sort();
        if keys.is_empty() {
            Err(refused(io::Error::new(io::ErrorKind::NotFound, "no object matches")))
        } else {
            Ok(keys.iter().map(|key| self.file(key)).collect())
        }
    }
}

async fn listed(
    objects: &dyn ObjectStore,
    folder: Option<&Key>,
) -> Result<Vec<String>, object_store::Error> {
    let mut listing = objects.list(folder);
    let mut keys = Vec::new();
    // `Stream` has one method, called here directly.
    while let Some(object) =
        std::future::poll_fn(|context| listing.as_mut().poll_next(context)).await
    {
        keys.push(object?.location.to_string());
    }
    Ok(keys)
}

impl Store {
    /// Runs a request on the thread and waits for its answer.
    fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = sync_channel(1);
        let request = async move {
            // The receiver is gone if the requesting thread has ended.
            drop(answer.send(request.await));
        };
        let gone = || io::Error::other("the thread that sends requests has ended");
        self.requests.send(Box::pin(request)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?.map_err(|error| match error {
            object_store::Error::NotFound { .. } => {
                io::Error::new(io::ErrorKind::NotFound, error.to_string())
            }
            other => io::Error::other(other.to_string()),
        })
    }
}

impl Object {
    pub(super) fn len(&self) -> io::Result<u64> {
        let (objects, key) = (self.store.objects.clone(), self.key.clone());
        Ok(self.store.run(async move { objects.head(&key).await })?.size)
    }

    /// Fills the buffer with the bytes at `offset`, which must exist.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (objects, key) = (self.store.objects.clone(), self.key.clone());
        let range = offset..offset + buffer.len() as u64;
        let bytes = self.store.run(async move { objects.get_range(&key, range).await })?;
        if bytes.len() != buffer.len() {
            let message = format!("the store returned {} of {} bytes", bytes.len(), buffer.len());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.address)
    }
}
