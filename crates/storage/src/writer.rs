//! Writing files and objects of any size.

use crate::error::Error;
use crate::local::NewFile;
use crate::path::{StoragePath, Target};
#[cfg(feature = "remote")]
use crate::remote::Upload;
use std::io;
#[cfg(feature = "remote")]
use std::sync::{Mutex, PoisonError};

/// A file or object that is being written. It becomes visible, complete, at
/// [`finish`](ObjectWriter::finish). Dropping it before leaves the previous one.
///
/// Objects are sent in parts of 16 MiB, four at a time, so a writer holds at most 80 MiB. When a
/// process is killed, its parts stay in the bucket, where no listing shows them. A lifecycle rule
/// (`AbortIncompleteMultipartUpload`) deletes them.
#[derive(Debug)]
pub struct ObjectWriter {
    path: StoragePath,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Local(NewFile),
    #[cfg(feature = "remote")]
    /// The lock is never taken; it makes a writer `Sync`.
    Object(Mutex<Upload>),
}

impl ObjectWriter {
    pub(crate) fn create(path: &StoragePath) -> Result<ObjectWriter, Error> {
        let sink = match &path.0 {
            Target::Local(local) => {
                Sink::Local(NewFile::create(local).map_err(|error| path.error("creating", error))?)
            }
            #[cfg(feature = "remote")]
            Target::Object { client, key } => {
                let upload = Upload::new(client.clone(), key);
                let upload = upload.map_err(|problem| path.error("creating", problem))?;
                Sink::Object(Mutex::new(upload))
            }
        };
        Ok(ObjectWriter { path: path.clone(), sink })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If they, or earlier ones that were sent in the background, cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.sink {
            Sink::Local(file) => {
                file.write(bytes).map_err(|error| self.path.error("writing", error))
            }
            #[cfg(feature = "remote")]
            Sink::Object(upload) => {
                let upload = upload.get_mut().unwrap_or_else(PoisonError::into_inner);
                upload.write(bytes).map_err(|problem| self.path.error("writing", problem))
            }
        }
    }

    /// Makes the file or object visible. A local file has reached the disk then.
    ///
    /// # Errors
    /// If the remaining bytes cannot be written; the previous file or object stays.
    pub fn finish(self) -> Result<(), Error> {
        let ObjectWriter { path, sink } = self;
        match sink {
            Sink::Local(file) => file.finish().map_err(|error| path.error("writing", error)),
            #[cfg(feature = "remote")]
            Sink::Object(upload) => {
                let upload = upload.into_inner().unwrap_or_else(PoisonError::into_inner);
                upload.finish().map_err(|problem| path.error("writing", problem))
            }
        }
    }
}

impl io::Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ObjectWriter::write(self, bytes)?;
        Ok(bytes.len())
    }

    /// Does nothing: bytes become visible at [`finish`](ObjectWriter::finish).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
