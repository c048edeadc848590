//! [`SharedRun`] of a program that cannot consist of several processes.

use std::path::Path;

/// There is none.
#[derive(Debug)]
pub(super) enum SharedRun {}

impl SharedRun {
    pub(super) fn announce(_: &Path, _: &str) -> Option<SharedRun> {
        None
    }

    pub(super) fn end(self) -> String {
        match self {}
    }

    pub(super) fn file_prefix(_: &str) -> String {
        String::new()
    }
}
