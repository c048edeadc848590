//! Files of metrics that grow during a run, on a disk or in an object store.

use super::{io_error, local_path, make_parent, object_at, storage_error};
use crate::core::{Error, Loc};
use oxidax_storage::StoragePath;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which an object is written again without a call of `flush`.
const INTERVAL: Duration = Duration::from_secs(60);

/// A text file that is appended to.
///
/// Objects cannot be appended to. The text is kept in memory, and the whole object is written at
/// each flush, and with the first line that is added a minute after the last write.
pub(super) enum LogFile {
    Local(BufWriter<File>),
    Object(ObjectLog),
}

/// The text of an object.
pub(super) struct ObjectLog {
    path: StoragePath,
    bytes: Vec<u8>,
    is_written: bool,
    last_write: Instant,
}

impl ObjectLog {
    /// Starts a text whose first bytes are in the store already, or are to be written.
    pub(super) fn new(path: StoragePath, bytes: Vec<u8>) -> ObjectLog {
        ObjectLog { path, bytes, is_written: false, last_write: Instant::now() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes.extend_from_slice(bytes);
        self.is_written = false;
        if self.last_write.elapsed() < INTERVAL { Ok(()) } else { self.flush() }
    }

    /// Writes the object if it has changed.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if !self.is_written {
            self.path.write(&self.bytes).map_err(storage_error)?;
            self.is_written = true;
        }
        self.last_write = Instant::now();
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            LogFile::Local(file) => file.write(bytes),
            LogFile::Object(object) => {
                object.append(bytes).map_err(into_io)?;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            LogFile::Local(file) => file.flush(),
            LogFile::Object(object) => object.flush().map_err(into_io),
        }
    }
}

/// Callers add the path to the error again.
fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other.to_string()),
    }
}

/// Renames the file of another run to the first free name with a number.
fn put_aside(path: &Path) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    if path.is_dir() {
        return Err(io_error(path, io::ErrorKind::IsADirectory.into()));
    }
    let numbered = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    let free = (1..).map(numbered).find(|name| !name.exists());
    let free = free.expect("a free number exists");
    std::fs::rename(path, free).map_err(|error| io_error(path, error))
}

/// Copies the object of another run to the first free name with a number. This run replaces it.
fn copy_aside(path: &Path, object: &StoragePath) -> Result<(), Error> {
    if !object.exists().map_err(storage_error)? {
        return Ok(());
    }
    let bytes = object.read().map_err(storage_error)?;
    for number in 1u32.. {
        let name = PathBuf::from(format!("{}.{number}", path.display()));
        if let Some(copy) = object_at(&name)?
            && !copy.exists().map_err(storage_error)?
        {
            return copy.write(&bytes).map_err(storage_error);
        }
    }
    Ok(())
}

/// Opens a file for writing from `first_step` on. Keeps lines of earlier steps, determined by
/// `step_of`, and the first line if it `is_header`. Returns true if the file is empty.
pub(super) fn open(
    path: &Path,
    first_step: u64,
    is_header: impl Fn(&str) -> Result<bool, String>,
    step_of: impl Fn(&str) -> Option<u64>,
) -> Result<(LogFile, bool), Error> {
    let kept = Kept { path, first_step, is_header, step_of };
    if let Some(object) = object_at(path)? {
        let mut text = Vec::new();
        if first_step == 0 {
            copy_aside(path, &object)?;
        } else if object.exists().map_err(storage_error)? {
            let old = object.read().map_err(storage_error)?;
            kept.copy(&old[..], &mut text)?;
        }
        let is_empty = text.is_empty();
        return Ok((LogFile::Object(ObjectLog::new(object, text)), is_empty));
    }
    let path = &local_path(path)?;
    let io = |error| io_error(path, error);
    make_parent(path)?;
    let new = || Ok((LogFile::Local(BufWriter::new(File::create(path).map_err(io)?)), true));
    if first_step == 0 {
        put_aside(path)?;
        return new();
    }
    let old = match File::open(path) {
        Ok(old) => BufReader::new(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return new(),
        Err(error) => return Err(io(error)),
    };
    // The old file stays until the new one is complete.
    let mut name = path.as_os_str().to_owned();
    name.push(".resumed");
    let next = PathBuf::from(name);
    let mut writer = BufWriter::new(File::create(&next).map_err(io)?);
    let is_empty = kept.copy(old, &mut writer)?;
    let file = writer.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    std::fs::rename(&next, path).map_err(io)?;
    let file = OpenOptions::new().append(true).open(path).map_err(io)?;
    Ok((LogFile::Local(BufWriter::new(file)), is_empty))
}

/// The lines of an earlier run that a resumed run keeps.
struct Kept<'a, H, S> {
    path: &'a Path,
    first_step: u64,
    is_header: H,
    step_of: S,
}

impl<H: Fn(&str) -> Result<bool, String>, S: Fn(&str) -> Option<u64>> Kept<'_, H, S> {
    /// Copies them. Returns true if there are none.
    fn copy(&self, old: impl BufRead, writer: &mut impl Write) -> Result<bool, Error> {
        let io = |error| io_error(self.path, error);
        let damaged = |line: usize, what: &str| Error::Data {
            doing: "resume".into(),
            place: Some(format!("{}:{}", self.path.display(), line + 1)),
            message: what.to_owned(),
            loc: Loc::UNKNOWN,
            help: Some("repair the line, or move the file away".into()),
        };
        let (mut is_empty, mut torn) = (true, None);
        for (number, line) in old.split(b'\n').enumerate() {
            // A line truncated by a kill is the last one.
            if let Some(torn) = torn {
                return Err(damaged(torn, "the line has no step"));
            }
            let line = line.map_err(io)?;
            let Ok(line) = std::str::from_utf8(&line) else {
                torn = Some(number);
                continue;
            };
            if number == 0 && (self.is_header)(line).map_err(|what| damaged(0, &what))? {
            } else {
                match (self.step_of)(line) {
                    Some(step) if step < self.first_step => {}
                    Some(_) => break,
                    None => {
                        torn = Some(number);
                        continue;
                    }
                }
            }
            writeln!(writer, "{line}").map_err(io)?;
            is_empty = false;
        }
        Ok(is_empty)
    }
}
