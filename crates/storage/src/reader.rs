//! Reading at random.

use crate::error::{Error, Problem};
use crate::path::{StoragePath, Target};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// An open file or one version of an object, read at random by any number of threads.
#[derive(Debug)]
pub struct ObjectReader {
    path: StoragePath,
    len: u64,
    source: Source,
}

/// Longest range of one request, in bytes. A response is in memory twice while it is copied.
#[cfg(feature = "remote")]
const MAX_REQUEST: usize = 64 << 20;

#[derive(Debug)]
enum Source {
    Local(File),
    /// The tag of the object's version, if the store has tags.
    #[cfg(feature = "remote")]
    Object {
        e_tag: Option<String>,
    },
}

impl ObjectReader {
    pub(crate) fn open(path: &StoragePath) -> Result<ObjectReader, Error> {
        let (len, source) = match &path.0 {
            Target::Local(local) => {
                let opened = File::open(local).and_then(|file| Ok((file.metadata()?, file)));
                let (metadata, file) = opened.map_err(|error| path.error("opening", error))?;
                if metadata.is_dir() {
                    let problem = Problem::new(io::ErrorKind::IsADirectory, "this is a folder");
                    return Err(path.error("opening", problem));
                }
                (metadata.len(), Source::Local(file))
            }
            #[cfg(feature = "remote")]
            Target::Object { client, key } => {
                let (len, e_tag) =
                    client.head(key).map_err(|problem| path.error("opening", problem))?;
                (len, Source::Object { e_tag })
            }
        };
        Ok(ObjectReader { path: path.clone(), len, source })
    }

    /// Returns the size in bytes when the file was opened.
    #[allow(clippy::len_without_is_empty, reason = "a reader is not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the preferred size of a read in bytes: large in object stores, where each read costs
    /// a round trip.
    pub fn block(&self) -> usize {
        match self.source {
            Source::Local(_) => 256 << 10,
            #[cfg(feature = "remote")]
            Source::Object { .. } => 8 << 20,
        }
    }

    /// Reads bytes at `offset` into the buffer and returns their number, 0 at the end. Fewer bytes
    /// than the buffer holds may be read, from an object at most 64 MiB.
    ///
    /// # Errors
    /// If the bytes cannot be read, or the object was replaced since it was opened.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        match &self.source {
            Source::Local(file) => {
                file.read_at(buffer, offset).map_err(|error| self.path.error("reading", error))
            }
            #[cfg(feature = "remote")]
            Source::Object { e_tag } => {
                let Target::Object { client, key } = &self.path.0 else { return Ok(0) };
                let left = self.len.saturating_sub(offset);
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let count = count.min(MAX_REQUEST);
                if count > 0 {
                    let read = client.read(key, e_tag.clone(), offset, &mut buffer[..count]);
                    read.map_err(|problem| self.path.error("reading", problem))?;
                }
                Ok(count)
            }
        }
    }

    /// Fills the buffer with the bytes at `offset`.
    ///
    /// # Errors
    /// Kind `UnexpectedEof` if the file ends before, and the errors of
    /// [`read_at`](ObjectReader::read_at).
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let (mut filled, wanted) = (0, buffer.len());
        while filled < wanted {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => {
                    let message = format!(
                        "the file has {} bytes; {wanted} bytes from byte {offset} were asked for",
                        self.len
                    );
                    let problem = Problem::new(io::ErrorKind::UnexpectedEof, message);
                    return Err(self.path.error("reading", problem));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
