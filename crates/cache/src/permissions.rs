//! Permissions of the cache.
//!
//! Plugins and compiled programs are code that runs with the user's rights, so the cache must be
//! owned by the user or root, and nobody else may write to it.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// Creates a folder and its missing parents with access for the user only.
///
/// # Errors
/// The system's error.
pub fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// The reason why a file or folder of the cache must not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// The problem, with the ids. Follows the path in messages: `belongs to user 7, you are user
    /// 1000`.
    pub reason: String,
    /// The remedy.
    pub help: String,
}

/// Returns the danger if others own a file or folder or can write to it. A missing file is safe.
///
/// # Errors
/// The system's error if the file cannot be inspected.
pub fn danger(path: &Path) -> io::Result<Option<Danger>> {
    match path.metadata() {
        Ok(meta) => Ok(danger_of(path, &meta)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Returns an error for a dangerous file or folder.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    refuse(path, danger(path).map_err(Error::io("inspect", path))?)
}

/// Returns an error if `path` is dangerous.
pub(crate) fn refuse(path: &Path, danger: Option<Danger>) -> Result<(), Error> {
    match danger {
        Some(Danger { reason, help }) => Err(Error::Unsafe { path: path.to_owned(), reason, help }),
        None => Ok(()),
    }
}

/// Returns an error if the metadata of `path` is dangerous.
#[cfg(unix)]
pub(crate) fn danger_of(path: &Path, meta: &fs::Metadata) -> Option<Danger> {
    use std::os::unix::fs::MetadataExt as _;

    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return Some(Danger {
            reason: format!("belongs to user {}, you are user {me}", meta.uid()),
            help: "set OXIDAX_CACHE to a folder of your own".to_owned(),
        });
    }
    let mode = meta.mode() & 0o7777;
    (mode & 0o022 != 0).then(|| Danger {
        reason: format!("can be written by others (mode {mode:04o})"),
        help: format!(
            "if you trust what is in it: `chmod go-w {}`; else delete it",
            path.display()
        ),
    })
}

/// On other systems the cache is in the user's profile, which is private by default.
#[cfg(not(unix))]
pub(crate) fn danger_of(_: &Path, _: &fs::Metadata) -> Option<Danger> {
    None
}
