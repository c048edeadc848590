//! Checkpoints at addresses: `file://`, and `gs://` and `s3://` with the feature `remote`.

use super::claim::claim;
use super::storage::{EntryKind, FolderLock, NewFile, SharedStorage, Storage, StoredFile, local};
use crate::core::Error;
use oxidax_storage::{Location, ObjectReader, ObjectWriter, Storage as Stores, StoragePath};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the storage of a path or address, and the path in that storage.
///
/// # Errors
/// `Error::Io` if the address is wrong, credentials cannot be read, or the address is that of an
/// object and the feature `remote` is not enabled.
pub(super) fn storage_of(path: &Path) -> Result<(SharedStorage, PathBuf), Error> {
    let failed = |error: oxidax_storage::Error| {
        super::fault::io_error(&PathBuf::from(error.location()), error.without_location())
    };
    if !Location::is_address(path) {
        return Ok((local(), path.to_path_buf()));
    }
    match Location::parse(path).map_err(failed)? {
        Location::Local(path) => Ok((local(), path)),
        object @ Location::Object { .. } => {
            let address = PathBuf::from(object.to_string());
            Stores::from_env().at(&address).map_err(failed)?;
            Ok((Arc::new(Objects), address))
        }
    }
}

/// The object stores of this process. Paths are addresses.
///
/// An object appears complete or not at all, and needs nothing else to be durable. Folders need not
/// be created. Object stores have neither renames nor locks.
struct Objects;

fn at(path: &Path) -> io::Result<StoragePath> {
    Stores::from_env().at(path).map_err(without_location)
}

/// Converts an error. Callers add the address.
fn without_location(error: oxidax_storage::Error) -> io::Error {
    error.without_location()
}

impl Storage for Objects {
    fn renames(&self) -> bool {
        false
    }

    fn create_folders(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(NewObject(at(path)?.create().map_err(without_location)?)))
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        at(path)?.write(bytes).map_err(without_location)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(at(path)?.open().map_err(without_location)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let entries = at(folder)?.folder().map_err(without_location)?;
        let kind = |size: Option<u64>| match size {
            Some(_) => EntryKind::File,
            None => EntryKind::Folder,
        };
        Ok(entries.into_iter().map(|entry| (entry.name, kind(entry.size))).collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        let path = at(path)?;
        match path.exists() {
            Ok(true) => return Ok(Some(EntryKind::File)),
            // A bucket is not an object.
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => {
                return Err(without_location(error));
            }
            Ok(false) | Err(_) => {}
        }
        let is_folder = !path.folder().map_err(without_location)?.is_empty();
        Ok(is_folder.then_some(EntryKind::Folder))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        let message = "objects cannot be renamed; this is a bug in oxidax";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        at(path)?.delete_all().map_err(without_location)
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Object stores have no locks that end with their process. A program that opens the folder
    /// takes it over.
    fn lock(&self, folder: &Path) -> io::Result<Result<FolderLock, String>> {
        claim(Arc::new(Objects), folder).map(Ok)
    }
}

struct NewObject(ObjectWriter);

impl NewFile for NewObject {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes).map_err(without_location)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish().map_err(without_location)
    }
}

impl StoredFile for ObjectReader {
    fn len(&self) -> u64 {
        ObjectReader::len(self)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        ObjectReader::read_exact_at(self, bytes, offset).map_err(without_location)
    }
}

#[cfg(test)]
mod tests {
    use crate::checkpoint::{self, Folder, Snapshot};

    #[test]
    fn file_addresses_are_local_folders() {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("file://{}/a%20run", dir.path().display());
        let state = crate::prelude::ones([3]);
        let mut folder = Folder::open(&address).unwrap();
        folder.save(Snapshot::new(1, &state)).unwrap();
        folder.close().unwrap();
        assert!(dir.path().join("a run/step-000000001/manifest.jsonl").exists());
        let file = format!("file://{}/model.safetensors", dir.path().display());
        checkpoint::save(&file, &state).unwrap();
        let loaded = checkpoint::load(&file, &state).unwrap();
        assert_eq!(loaded.to_vec::<f32>().unwrap(), [1.0; 3]);
    }

    #[test]
    fn wrong_addresses_are_errors() {
        for (address, expected) in [
            ("gs://", "the bucket is missing"),
            ("s3://b/a/../c", "the segment `..`"),
            ("hdfs://b/a", "the scheme `hdfs` is not supported"),
            ("file://host/a", "names a host"),
        ] {
            let error = Folder::open(address).unwrap_err().to_string();
            assert!(error.starts_with(&format!("error[io]: {address}: ")), "{error}");
            assert!(error.contains(expected) && error.contains("\n  help: "), "{error}");
            let error = checkpoint::open(address).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
