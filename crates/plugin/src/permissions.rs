//! Who could exchange a file behind our back: the cache's rules, with this crate's errors.

use std::path::Path;

pub(crate) use oxidax_cache::create_private;
use oxidax_cache::{Danger, danger};

use crate::error::Error;

/// Refuses a file or folder that others own or can write. What is not there is no danger.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    match danger(path).map_err(Error::io("inspect", path))? {
        Some(Danger { reason, help }) => {
            Err(Error::UnsafeCache { path: path.to_owned(), reason, help })
        }
        None => Ok(()),
    }
}
