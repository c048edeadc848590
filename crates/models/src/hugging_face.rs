//! Files in Hugging Face's layout, in folders or at addresses.

use oxidax::Error;
use oxidax_storage::{Storage, StoragePath};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

fn at(path: &Path) -> Result<StoragePath, Error> {
    Storage::from_env().at(path).map_err(storage_error)
}

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = read(path)?;
    serde_json::from_slice(&text).map_err(|error| refused(path, error.to_string()))
}

/// Reads a file or an object.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    at(path)?.read().map_err(storage_error)
}

/// Returns true if the file or object exists.
pub(crate) fn exists(path: &Path) -> Result<bool, Error> {
    at(path)?.exists().map_err(storage_error)
}

/// Writes a file, whose folder is created, or an object.
#[cfg(feature = "gpt2")]
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let path = at(path)?;
    if let Some(folder) = path.as_local().and_then(Path::parent) {
        let failed = |source| Error::io(folder, source);
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    path.write(text.as_bytes()).map_err(storage_error)
}

/// Converts an error of the storage crate, which names the path or address.
fn storage_error(error: oxidax_storage::Error) -> Error {
    let path = PathBuf::from(error.location());
    Error::io(path, error.without_location())
}

/// Returns the error for a file with unexpected contents.
pub(crate) fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), message: message.into() }
}

/// The settings of a `config.json` that a model does not support.
#[derive(Default)]
pub(crate) struct UnsupportedSettings(Vec<String>);

impl UnsupportedSettings {
    /// Adds a setting if it is not supported.
    pub(crate) fn refuse_if(&mut self, is_unsupported: bool, setting: impl Into<String>) {
        if is_unsupported {
            self.0.push(setting.into());
        }
    }

    /// Returns an error that names the settings, if there are any.
    pub(crate) fn check(self, path: &Path, model: &str) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(refused(path, format!("unsupported by this {model}: {}", self.0.join("; "))))
    }
}
