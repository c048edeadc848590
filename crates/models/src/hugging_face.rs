//! Configuration files in Hugging Face's layout.

use oxidax::Error;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(|error| io_error(path, error))?;
    serde_json::from_str(&text).map_err(|error| refused(path, error.to_string()))
}

/// Returns the error for a file that could not be read or written.
pub(crate) fn io_error(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
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
