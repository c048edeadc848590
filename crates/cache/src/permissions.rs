//! Who could exchange a file behind our back.
//!
//! Plugins and compiled programs are code that runs with the user's rights, so the cache must belong to the user (or to
//! root, who may do anything anyway) and nobody else may write it.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// Creates a folder and its missing parents, for the user alone.
///
/// # Errors
/// The system's.
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

/// Refuses a file or folder that others own or can write. What is not there is no danger.
///
/// # Errors
/// [`Error::Unsafe`]; [`Error::Io`] if it cannot be looked at.
pub fn check_private(path: &Path) -> Result<(), Error> {
    match path.metadata() {
        Ok(meta) => check(path, &meta),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(e) => Err(Error::io("inspect", path)(e)),
    }
}

/// The same for what `path` was found to be.
#[cfg(unix)]
pub(crate) fn check(path: &Path, meta: &fs::Metadata) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt as _;

    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return Err(Error::Unsafe {
            path: path.to_owned(),
            reason: format!("belongs to user {}, you are user {me}", meta.uid()),
            help: "set OXIDAX_CACHE to a folder of your own".to_owned(),
        });
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(Error::Unsafe {
            path: path.to_owned(),
            reason: format!("can be written by others (mode {mode:04o})"),
            help: format!(
                "if you trust what is in it: `chmod go-w {}`; else delete it",
                path.display()
            ),
        });
    }
    Ok(())
}

/// Other systems keep the cache in the user's profile, which is private by default.
#[cfg(not(unix))]
pub(crate) fn check(_: &Path, _: &fs::Metadata) -> Result<(), Error> {
    Ok(())
}
