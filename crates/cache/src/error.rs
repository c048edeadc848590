//! What can go wrong with the cache folder.

use std::io;
use std::path::{Path, PathBuf};

/// Why a folder or an entry could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others own the folder or file, or can write it.
    #[error("{path} {reason}, so it is not used\n  help: {help}", path = .path.display())]
    Unsafe {
        /// The folder or file.
        path: PathBuf,
        /// What is unsafe about it.
        reason: String,
        /// What to do.
        help: String,
    },

    /// The system refused to read, write, rename or delete.
    #[error("cannot {verb} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// An environment variable holds a value that means nothing.
    #[error("{name} is `{value}`, expected {expected}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl Error {
    /// For `map_err`: the system refused to do something to `path`.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { verb, path, source }
    }
}
