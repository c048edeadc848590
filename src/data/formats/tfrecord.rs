//! TensorFlow's TFRecord files.

use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::{File, Handle, Packing, Reader, io_error, storage_error};
use crate::data::origin::RecordOrigin;
use crate::data::source::Source;
use crate::data::stream::Stream;
use oxidax_storage::{Location, ObjectWriter, Storage};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sizes of a record's header (length and checksum) and footer (checksum), in bytes.
const HEADER: u64 = 12;
const FOOTER: u64 = 4;

/// Streams the records of a TFRecord file, compressed with gzip or not, as bytes. Records are
/// usually a [`TfExample`](super::TfExample).
///
/// Both checksums of a record are verified. Reading continues after a record with damaged bytes. It
/// ends after a damaged length, because the next record cannot be found.
///
/// # Errors
/// [`Error::Io`], as an item of the stream, naming the file and the byte.
///
/// ```
/// use oxidax::data::{self, TfRecordWriter};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("two.tfrecord");
/// let mut writer = TfRecordWriter::create(&path)?;
/// writer.write(b"first")?;
/// writer.write(b"second")?;
/// writer.finish()?;
/// let records: Vec<Vec<u8>> = data::tfrecord(&path).collect::<Result<_, _>>()?;
/// assert_eq!(records, [&b"first"[..], b"second"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// TensorFlow guide: TFRecord and tf.train.Example, "TFRecords format details".
#[track_caller]
pub fn tfrecord(file: impl Into<File>) -> Stream<Vec<u8>> {
    records(file.into(), TfRecordFormat)
}

/// Returns the masked checksum of the format, which differs from a checksum stored in the data.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// Returns the length stored in a header, if its checksum is correct.
fn length_of(header: [u8; HEADER as usize]) -> Option<u64> {
    let (length, crc) = header.split_at(8);
    let right = masked_crc(length).to_le_bytes() == *crc;
    right.then(|| length.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Opens a file. A length can look like the start of a gzip file, so its checksum decides.
fn open(file: &File) -> Result<(Arc<Handle>, Packing), Error> {
    let handle = Arc::new(file.open()?);
    let start = handle.exactly(0, handle.len().min(HEADER), "the first header")?;
    let plain = start.clone().try_into().is_ok_and(|header| length_of(header).is_some());
    let packing = match start[..] {
        [0x1f, 0x8b, 8, ..] if !plain => Packing::Gzip,
        _ => Packing::Plain,
    };
    Ok((handle, packing))
}

struct TfRecordFormat;

impl Format for TfRecordFormat {
    const NAME: &'static str = "tfrecord";
    type Opened = TfRecordReader;
    fn open(&self, file: &File, offset: u64) -> Result<TfRecordReader, Error> {
        let (handle, packing) = open(file)?;
        let mut reader = Reader::of(handle, packing);
        if offset > 0 {
            reader.seek(offset)?;
        }
        Ok(TfRecordReader { reader })
    }
}

struct TfRecordReader {
    reader: Reader,
}

impl TfRecordReader {
    /// Reads the length of the next record.
    fn length(&mut self) -> Result<Option<u64>, Error> {
        let mut header = [0; HEADER as usize];
        let start = self.reader.offset();
        if !self.reader.fill(&mut header, "the header of a record")? {
            return Ok(None);
        }
        match length_of(header) {
            Some(length) => Ok(Some(length)),
            None => Err(self.reader.damaged(
                start,
                "the checksum of the record's length is wrong; nothing after it can be read",
            )),
        }
    }
}

impl Opened for TfRecordReader {
    type Record = Vec<u8>;

    fn read(&mut self) -> Result<Option<(u64, Vec<u8>)>, Fault> {
        let start = self.reader.offset();
        let Some(length) = self.length()? else { return Ok(None) };
        let bytes = self.reader.exactly(length, "the bytes of a record")?;
        let mut footer = [0; FOOTER as usize];
        if !self.reader.fill(&mut footer, "the checksum of a record")? {
            let at = self.reader.offset();
            let error = self.reader.file().truncated(at, "the checksum of a record", FOOTER, at);
            return Err(Fault::File(error));
        }
        match verified(&bytes, footer) {
            Ok(()) => Ok(Some((start, bytes))),
            Err(message) => Err(Fault::Record(self.reader.damaged(start, message))),
        }
    }

    fn offset(&self) -> u64 {
        self.reader.offset()
    }
}

fn verified(bytes: &[u8], footer: [u8; FOOTER as usize]) -> Result<(), String> {
    let (found, stored) = (masked_crc(bytes), u32::from_le_bytes(footer));
    if found == stored {
        Ok(())
    } else {
        Err(format!(
            "the {} bytes of the record have the checksum {found:#010x}, stored is {stored:#010x}",
            bytes.len()
        ))
    }
}

/// The records of a TFRecord file with random access. All of them can be shuffled without a buffer.
///
/// Opening reads the headers only.
///
/// ```no_run
/// use oxidax::data::{Source, TfRecords};
/// let records = TfRecords::open("train.tfrecord")?.shuffled(7).shard(0, 4).stream();
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct TfRecords {
    handle: Arc<Handle>,
    /// The offset of each record's header, and the file's length.
    starts: Vec<u64>,
}

impl TfRecords {
    /// Opens a file and finds its records.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, is compressed, or has a damaged header.
    pub fn open(file: impl Into<File>) -> Result<TfRecords, Error> {
        let file = file.into();
        let (handle, packing) = open(&file)?;
        if packing == Packing::Gzip {
            let message =
                "the file is gzipped: its records can only be read in order, by `data::tfrecord`";
            return Err(file.io_error(io::Error::new(io::ErrorKind::Unsupported, message)));
        }
        let mut reader = TfRecordReader { reader: Reader::of(handle.clone(), packing) };
        let mut starts = vec![0];
        while let Some(length) = reader.length()? {
            let rest = length.saturating_add(FOOTER);
            reader.reader.skip(rest, "a record and its checksum")?;
            starts.push(reader.offset());
        }
        Ok(TfRecords { handle, starts })
    }

    /// Opens a file, and verifies both checksums of every record.
    pub(in crate::data) fn verified(file: File) -> Result<TfRecords, Error> {
        let (handle, packing) = open(&file)?;
        if packing == Packing::Gzip {
            return Err(file.damaged(0, "the file is gzipped"));
        }
        let mut reader = TfRecordReader { reader: Reader::of(handle.clone(), packing) };
        let mut starts = vec![0];
        loop {
            match reader.read() {
                Ok(Some(_)) => starts.push(reader.offset()),
                Ok(None) => return Ok(TfRecords { handle, starts }),
                Err(Fault::Record(error) | Fault::File(error)) => return Err(error),
            }
        }
    }
}

impl Source for TfRecords {
    type Record = Vec<u8>;

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn get(&self, index: usize) -> Result<Vec<u8>, Error> {
        let (start, end) = (self.starts[index], self.starts[index + 1]);
        let mut bytes = self.handle.exactly(start + HEADER, end - start - HEADER, "a record")?;
        let footer = bytes.split_off(bytes.len() - FOOTER as usize);
        let footer = footer.try_into().expect("as many bytes as were split off");
        verified(&bytes, footer).map_err(|message| self.handle.file().damaged(start, message))?;
        Ok(bytes)
    }

    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        Some(RecordOrigin::byte(self.handle.file().name().clone(), self.starts[index]))
    }
}

impl fmt::Debug for TfRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TfRecords({}, {} records)", self.handle.file(), self.len())
    }
}

/// Writes a TFRecord file that this crate and TensorFlow can read.
///
/// An object of an object store (`gs://…`, `s3://…`, feature `remote`) is visible after
/// [`finish`](TfRecordWriter::finish). A writer that is dropped before leaves nothing there.
#[derive(Debug)]
pub struct TfRecordWriter {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Local(BufWriter<std::fs::File>),
    Object(ObjectWriter),
}

/// Returns the bytes of a record in a file: header, record and footer.
pub(crate) fn framed(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] =
        [&length, &masked_crc(&length).to_le_bytes(), record, &masked_crc(record).to_le_bytes()];
    parts.concat()
}

impl TfRecordWriter {
    /// Creates a file, replacing an existing one.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<TfRecordWriter, Error> {
        let path = path.as_ref().to_path_buf();
        let (path, target) = match Location::parse(&path).map_err(storage_error)? {
            Location::Local(path) => {
                let file = std::fs::File::create(&path).map_err(|error| io_error(&path, error))?;
                (path, Target::Local(BufWriter::new(file)))
            }
            Location::Object { .. } => {
                let object = Storage::from_env().at(&path).map_err(storage_error)?;
                (path, Target::Object(object.create().map_err(storage_error)?))
            }
        };
        Ok(TfRecordWriter { path, target })
    }

    /// Writes to an open file.
    pub(in crate::data) fn over(path: &Path, file: std::fs::File) -> TfRecordWriter {
        let target = Target::Local(BufWriter::new(file));
        TfRecordWriter { path: path.to_path_buf(), target }
    }

    /// Writes buffered data and waits until the disk has all of it.
    pub(in crate::data) fn finish_synced(mut self) -> Result<(), Error> {
        self.flush()?;
        match self.target {
            Target::Local(file) => {
                file.get_ref().sync_all().map_err(|error| io_error(&self.path, error))
            }
            Target::Object(object) => object.finish().map_err(storage_error),
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn write(&mut self, record: &[u8]) -> Result<(), Error> {
        let bytes = framed(record);
        match &mut self.target {
            Target::Local(file) => {
                file.write_all(&bytes).map_err(|error| io_error(&self.path, error))
            }
            Target::Object(object) => object.write(&bytes).map_err(storage_error),
        }
    }

    /// Writes buffered data to a local file, so that readers see every record so far. Does nothing
    /// for an object, which is visible after [`finish`](TfRecordWriter::finish) only.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        match &mut self.target {
            Target::Local(file) => file.flush().map_err(|error| io_error(&self.path, error)),
            Target::Object(_) => Ok(()),
        }
    }

    /// Writes buffered data and closes the file. Without this call, errors at the end are lost.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        match self.target {
            Target::Local(_) => Ok(()),
            Target::Object(object) => object.finish().map_err(storage_error),
        }
    }
}
