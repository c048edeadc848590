//! NumPy's `.npz` archives.

use super::npy::from_bytes;
use crate::core::Error;
use crate::data::files::{File, Handle};
use crate::data::record::Record;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use zip::ZipArchive;

/// Largest compression ratio of deflate. A larger declared size is wrong.
const MAX_RATIO: u64 = 1032;

/// Reads the arrays of an `.npz` file by name, compressed or not.
///
/// [`Rows::new`](super::Rows::new) turns them into a source of rows.
///
/// # Errors
/// [`Error::Io`] naming the file, the array and its byte if the archive or an array is damaged, or
/// has a dtype that oxidax does not have.
///
/// ```no_run
/// use oxidax::data::{self, Rows, Source};
/// let arrays = data::npz("mnist.npz")?;
/// let (x, y) = (arrays.get("x_train")?.clone(), arrays.get("y_train")?.clone());
/// let train = Rows::new(data::Record::new().with("x", x).with("y", y))?;
/// println!("{} images", train.len());
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn npz(file: impl Into<File>) -> Result<Record, Error> {
    let file = file.into();
    let handle = Arc::new(file.open()?);
    let size = handle.len();
    let refused =
        |message: String| file.io_error(io::Error::new(io::ErrorKind::InvalidData, message));
    let mut archive = ZipArchive::new(Seekable { handle, at: 0 })
        .map_err(|error| refused(format!("not an npz file: {error}")))?;
    let mut record = Record::new();
    for index in 0..archive.len() {
        let mut entry = archive
            .by_index(index)
            .map_err(|error| refused(format!("entry {index} of the archive: {error}")))?;
        let name = entry
            .name()
            .map_err(|error| refused(format!("entry {index} of the archive: {error}")))?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let declared = entry.size();
        if declared > size.saturating_mul(MAX_RATIO) {
            let message = format!("array `{name}` declares {declared} bytes, in a file of {size}");
            return Err(refused(message));
        }
        let mut bytes = Vec::new();
        // One more byte than declared shows that there are more.
        let read = entry.by_ref().take(declared.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| {
            refused(format!("array `{name}`, after its byte {}: {error}", bytes.len()))
        })?;
        let array = from_bytes(&bytes).map_err(|(at, message)| {
            refused(format!("array `{name}`, at its byte {at}: {message}"))
        })?;
        record = record.with(name, array);
    }
    Ok(record)
}

/// Adapts a file to the zip crate.
struct Seekable {
    handle: Arc<Handle>,
    at: u64,
}

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.handle.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.handle.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("not an offset in the file: {to:?}"),
            )
        })?;
        Ok(self.at)
    }
}
