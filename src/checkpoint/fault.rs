//! What can be wrong with a checkpoint: damage, for which the one before may serve, or anything else.

use crate::core::Error;
use std::io;
use std::path::Path;

/// How much of a foreign text an error repeats, in bytes.
const LONGEST: usize = 200;

/// An error, and whether it is damage.
pub(super) struct Fault {
    pub(super) error: Error,
    /// Bytes are missing or changed. What merely does not fit is no damage: an older checkpoint would
    /// not fit either, and must not be gone back to without a word.
    pub(super) damage: bool,
}

/// The outcome of reading.
pub(super) type Read<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { error, damage: false }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        fault.error
    }
}

/// The file is not what was written.
pub(super) fn damaged(path: &Path, message: impl Into<String>) -> Fault {
    Fault { error: refused(path, message), damage: true }
}

/// A file that could not be read: it is damage if the file is not there, or ends too early.
pub(super) fn unread(path: &Path, source: io::Error) -> Fault {
    let damage = matches!(
        source.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
    );
    Fault { error: io_error(path, source), damage }
}

pub(super) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
}

pub(super) fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), message: message.into() }
}

/// A text of somebody else's, no longer than an error should be.
pub(super) fn abridged(text: &str) -> String {
    match text.len() <= LONGEST {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(LONGEST)]),
    }
}

/// The first of several faults, one a line, and how many more there are.
pub(super) fn listed(mut faults: Vec<String>) -> String {
    const MOST: usize = 8;
    let left_out = faults.len().saturating_sub(MOST);
    faults.truncate(MOST);
    if left_out > 0 {
        faults.push(format!("and {left_out} more"));
    }
    faults.join("\n  ")
}
