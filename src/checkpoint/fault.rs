//! Errors of checkpoints: damaged files, after which an older checkpoint is tried, and everything
//! else.

use crate::core::Error;
use std::io;
use std::path::Path;

/// Longest quotation from a file in an error message, in bytes.
const MAX_QUOTE_BYTES: usize = 200;

/// The number of the error for a missing file.
pub(super) const NOT_FOUND: i32 = 2;

/// An error, and its classification as damage or not.
pub(super) struct Fault {
    pub(super) error: Error,
    /// Bytes are missing or changed. A mismatch with the template is not damage: an older
    /// checkpoint would not match either, and must not be restored silently.
    pub(super) damage: bool,
}

/// Result of reading a checkpoint.
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

/// Returns the error for a file that differs from what was written.
pub(super) fn damaged(path: &Path, message: impl Into<String>) -> Fault {
    Fault { error: refused(path, message), damage: true }
}

/// Classifies a read error: a missing or truncated file is damage.
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
    Error::io(path, source)
}

pub(super) fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), message: message.into() }
}

/// Shortens text from a file for an error message.
pub(super) fn abridged(text: &str) -> String {
    if text.len() <= MAX_QUOTE_BYTES {
        text.to_owned()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(MAX_QUOTE_BYTES)])
    }
}

/// Joins the first faults, one per line, and counts the rest.
pub(super) fn listed(mut faults: Vec<String>) -> String {
    const MAX_LINES: usize = 8;
    let left_out = faults.len().saturating_sub(MAX_LINES);
    faults.truncate(MAX_LINES);
    if left_out > 0 {
        faults.push(format!("and {left_out} more"));
    }
    faults.join("\n  ")
}
