//! Errors of the cache folder.

use std::io;
use std::path::{Path, PathBuf};

/// An error that makes a folder or entry unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others own the folder or file, or can write to it.
    #[error("{path} {reason}, so it is not used\n  help: {help}", path = .path.display())]
    Unsafe {
        /// The folder or file.
        path: PathBuf,
        /// The reason why it is unsafe.
        reason: String,
        /// The remedy.
        help: String,
    },

    /// A file operation failed.
    #[error("cannot {verb} {path}: {source}", path = .path.display())]
    Io {
        /// The operation.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// An environment variable has an invalid value.
    #[error("{name} is `{value}`, expected {expected}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Valid values.
        expected: &'static str,
    },
}

impl Error {
    /// Returns a closure for `map_err` that adds the operation and the path.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { verb, path, source }
    }
}
