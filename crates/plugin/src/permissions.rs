//! Checks the permissions of the cache, with this crate's errors.

use std::path::Path;

pub(crate) use oxidax_cache::create_private;
use oxidax_cache::{Danger, danger};

use crate::error::Error;

/// Returns an error for a file or folder that others own or can write. A missing file is safe.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    match danger(path).map_err(Error::io("inspect", path))? {
        Some(Danger { reason, help }) => {
            Err(Error::UnsafeCache { path: path.to_owned(), reason, help })
        }
        None => Ok(()),
    }
}
