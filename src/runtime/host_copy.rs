//! [`HostCopyCell`]: the copy of a buffer that `copy_to_host_async` started.

use super::client::runtime_error;
use crate::core::Error;
use oxidax_pjrt::{HostCopy, UniqueBuffer};
use std::sync::OnceLock;

/// The copy of a buffer in host memory, if one was started.
#[derive(Debug, Default)]
pub(super) struct HostCopyCell(OnceLock<Box<HostCopy>>);

impl HostCopyCell {
    /// Starts the copy, unless there is one or reading needs none.
    pub(super) fn start(&self, buffer: &UniqueBuffer) -> Result<(), Error> {
        if self.0.get().is_some() {
            return Ok(());
        }
        let started = buffer.start_to_host();
        let started = started.map_err(|error| runtime_error("copying an array", &error))?;
        if let Some(copy) = started {
            // Another thread may have started one too; either will do.
            self.0.get_or_init(|| Box::new(copy));
        }
        Ok(())
    }

    /// Reads the copy, or else the buffer.
    pub(super) fn read(&self, buffer: &UniqueBuffer, dst: &mut [u8]) -> oxidax_pjrt::Result<()> {
        match self.0.get().filter(|_| !buffer.is_deleted()) {
            Some(copy) => copy.read(dst),
            None => buffer.to_host(dst),
        }
    }
}
