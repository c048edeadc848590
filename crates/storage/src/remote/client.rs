//! Operations on the objects of one bucket.

use super::runtime::{Requests, start};
use crate::error::Problem;
use crate::path::{FolderEntry, Listed, StoragePath};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// The client of one bucket.
pub(crate) struct Client {
    address: String,
    store: Arc<dyn ObjectStore>,
    part_size: usize,
    /// Remedies for this store.
    remedies: Remedies,
}

/// Remedies that depend on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remedies {
    /// For a bucket that does not exist.
    pub(super) bucket: &'static str,
    /// For credentials that the server refuses.
    pub(super) credentials: &'static str,
    /// For a server that cannot be reached.
    pub(super) server: &'static str,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.address)
    }
}

impl Client {
    pub(super) fn new(
        address: String,
        store: Arc<dyn ObjectStore>,
        part_size: usize,
        remedies: Remedies,
    ) -> Client {
        Client { address, store, part_size, remedies }
    }

    pub(crate) fn custom(address: String, store: Arc<dyn ObjectStore>) -> Client {
        let remedies = Remedies {
            bucket: "check the store that was passed",
            credentials: "check the credentials of the store that was passed",
            server: "check the address of the store that was passed",
        };
        Client::new(address, store, 16 << 20, remedies)
    }

    /// Returns the prefix of the objects' names.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    pub(super) fn part_size(&self) -> usize {
        self.part_size
    }

    /// Runs an operation and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, Problem> {
        let (answer, answered) = sync_channel(1);
        let requests = Requests::default();
        // The receiver is gone only if this thread has ended.
        start(requests.clone(), operation, move |result| drop(answer.send(result)))?;
        match answered.recv() {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.problem(&error, &requests)),
            Err(_) => Err(Problem::new(
                io::ErrorKind::Other,
                "the client panicked; the message is in the program's error output",
            )),
        }
    }

    /// Returns the size and the tag of an object's current version.
    pub(crate) fn head(&self, key: &str) -> Result<(u64, Option<String>), Problem> {
        let (store, key) = (self.store.clone(), StoragePath::checked_key(key)?);
        let meta = self.run(async move { store.head(&key).await })?;
        Ok((meta.size, meta.e_tag))
    }

    /// Fills the buffer with the bytes at `offset`, which must exist, of the version `e_tag`.
    ///
    /// The store's client continues a body that was cut, if the server sends tags.
    pub(crate) fn read(
        &self,
        key: &str,
        e_tag: Option<String>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Problem> {
        let (store, key) = (self.store.clone(), StoragePath::checked_key(key)?);
        let range = GetRange::Bounded(offset..offset + buffer.len() as u64);
        let options = GetOptions { range: Some(range), if_match: e_tag, ..GetOptions::default() };
        let bytes = self
            .run(async move { store.get_opts(&key, options).await?.bytes().await })
            .map_err(|problem| match problem.kind() {
                io::ErrorKind::ResourceBusy => problem.help(
                    "write new data under a new name, so that programs that read the old data \
                     can finish",
                ),
                _ => problem,
            })?;
        if bytes.len() != buffer.len() {
            let message = format!("the store returned {} of {} bytes", bytes.len(), buffer.len());
            return Err(Problem::new(io::ErrorKind::UnexpectedEof, message));
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    /// Returns the objects below a folder, of all pages.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Listed>, Problem> {
        let prefix = (!key.is_empty()).then(|| StoragePath::checked_key(key)).transpose()?;
        let (store, below) = (self.store.clone(), prefix.clone());
        let listed = self.run(async move {
            let mut pages = store.list(below.as_ref());
            let mut objects = Vec::new();
            // `Stream` has one method, called here directly.
            while let Some(object) = poll_fn(|context| pages.as_mut().poll_next(context)).await {
                objects.push(object?);
            }
            Ok(objects)
        });
        let start = prefix.map_or(0, |prefix| prefix.as_ref().len() + 1);
        let mut listed: Vec<Listed> = listed
            .map_err(|problem| self.missing_bucket(problem))?
            .into_iter()
            .filter_map(|object| {
                let name = object.location.as_ref().get(start..)?.to_owned();
                Some(Listed { name, size: object.size })
            })
            .collect();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// Returns the objects and prefixes directly in a folder, of all pages.
    pub(crate) fn folder(&self, key: &str) -> Result<Vec<FolderEntry>, Problem> {
        let prefix = (!key.is_empty()).then(|| StoragePath::checked_key(key)).transpose()?;
        let store = self.store.clone();
        let listed = self.run(async move { store.list_with_delimiter(prefix.as_ref()).await });
        let listed = listed.map_err(|problem| self.missing_bucket(problem))?;
        let name = |key: &Key| key.filename().map(str::to_owned);
        let folders = listed.common_prefixes.iter();
        let folders = folders.filter_map(|key| Some(FolderEntry { name: name(key)?, size: None }));
        let files = listed.objects.iter().filter_map(|object| {
            Some(FolderEntry { name: name(&object.location)?, size: Some(object.size) })
        });
        let mut entries: Vec<FolderEntry> = folders.chain(files).collect();
        entries.sort_by(|a, b| (&a.name, a.size).cmp(&(&b.name, b.size)));
        Ok(entries)
    }

    /// Deletes objects, which may be missing.
    pub(crate) fn delete(&self, keys: Vec<String>) -> Result<(), Problem> {
        for key in keys {
            let (store, key) = (self.store.clone(), StoragePath::checked_key(&key)?);
            match self.run(async move { store.delete(&key).await }) {
                Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the remedy for a missing bucket. An empty folder is not missing, so a listing and a
    /// write miss only the bucket.
    pub(super) fn missing_bucket(&self, problem: Problem) -> Problem {
        match problem.kind() {
            io::ErrorKind::NotFound => problem.help(self.remedies.bucket),
            _ => problem,
        }
    }

    /// Converts an error of the client.
    pub(super) fn problem(&self, error: &object_store::Error, requests: &Requests) -> Problem {
        use object_store::Error as E;
        let message = message(error);
        let is_bucket = message.contains("NoSuchBucket");
        let (kind, message, help) = match error {
            E::NotFound { .. } if is_bucket => (
                io::ErrorKind::NotFound,
                "the bucket does not exist".into(),
                Some(self.remedies.bucket),
            ),
            E::NotFound { .. } => (io::ErrorKind::NotFound, "it does not exist".into(), None),
            E::AlreadyExists { .. } => (io::ErrorKind::AlreadyExists, message, None),
            E::Precondition { .. } => {
                let changed = "the object was replaced or deleted while it was being read";
                (io::ErrorKind::ResourceBusy, changed.into(), None)
            }
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                (io::ErrorKind::PermissionDenied, message, Some(self.remedies.credentials))
            }
            // The client has no variants for refused listings.
            E::Generic { .. } if matches!(requests.status(), Some(401 | 403)) => {
                (io::ErrorKind::PermissionDenied, message, Some(self.remedies.credentials))
            }
            E::Generic { .. } if requests.status() == Some(404) => {
                let missing = if is_bucket { "the bucket does not exist" } else { &message };
                (io::ErrorKind::NotFound, missing.to_owned(), Some(self.remedies.bucket))
            }
            _ => (io::ErrorKind::Other, message, Some(self.remedies.server)),
        };
        let problem = Problem::new(kind, message).requests(requests.count());
        match help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }
}

/// Joins the messages of an error and its causes. The outer ones only repeat the address, which
/// errors of this crate name themselves.
fn message(error: &object_store::Error) -> String {
    let mut causes = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    if causes.is_empty() {
        causes.push(error.to_string());
    }
    // Errors that print their causes are left out.
    let mut kept: Vec<String> = Vec::new();
    for (at, cause) in causes.iter().enumerate() {
        let is_repeated = causes.get(at + 1).is_some_and(|next| cause.contains(next.as_str()));
        let is_known = kept.last().is_some_and(|last| last.contains(cause.as_str()));
        if !is_repeated && !is_known {
            kept.push(cause.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let mut message = kept.join(": ");
    if let Some((end, _)) = message.char_indices().nth(400) {
        message.truncate(end);
        message.push('…');
    }
    message
}
