//! Items of a stream and their origin.

use super::cacheable::Cacheable;
use crate::core::{Error, Loc};
use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The location of a record in its file. It accompanies the record through the pipeline, for error
/// messages.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RecordOrigin {
    file: Arc<Path>,
    at: u64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Byte,
    Row,
    File,
}

impl RecordOrigin {
    /// The record that starts at this byte of the file.
    pub fn byte(file: impl Into<Arc<Path>>, byte: u64) -> RecordOrigin {
        RecordOrigin { file: file.into(), at: byte, unit: Unit::Byte }
    }

    /// The row with this index in the file.
    pub fn row(file: impl Into<Arc<Path>>, row: u64) -> RecordOrigin {
        RecordOrigin { file: file.into(), at: row, unit: Unit::Row }
    }

    /// The whole file.
    pub fn file(file: impl Into<Arc<Path>>) -> RecordOrigin {
        RecordOrigin { file: file.into(), at: 0, unit: Unit::File }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Appends an optional origin to the bytes of a cached item.
    pub(super) fn encode(origin: Option<&RecordOrigin>, bytes: &mut Vec<u8>) {
        let Some(RecordOrigin { file, at, unit }) = origin else { return bytes.push(0) };
        bytes.push(match unit {
            Unit::Byte => 1,
            Unit::Row => 2,
            Unit::File => 3,
        });
        at.encode(bytes);
        file.as_os_str().as_bytes().len().encode(bytes);
        bytes.extend_from_slice(file.as_os_str().as_bytes());
    }

    /// Reads an optional origin from the bytes of a cached item.
    pub(super) fn decode(bytes: &mut &[u8]) -> Result<Option<RecordOrigin>, Error> {
        let unit = match u8::decode(bytes)? {
            0 => return Ok(None),
            1 => Unit::Byte,
            2 => Unit::Row,
            3 => Unit::File,
            other => return Err(Error::data("cache", format!("{other} is not a unit"))),
        };
        let at = u64::decode(bytes)?;
        let file = PathBuf::from(OsString::from_vec(Vec::decode(bytes)?)).into();
        Ok(Some(RecordOrigin { file, at, unit }))
    }
}

impl fmt::Display for RecordOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.unit {
            Unit::Byte => write!(f, "{file}: at byte {}", self.at),
            Unit::Row => write!(f, "{file}: row {}", self.at),
            Unit::File => file.fmt(f),
        }
    }
}

impl fmt::Debug for RecordOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// A value passed from stage to stage.
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) origin: Option<RecordOrigin>,
}

/// Result of pulling an item from a stage. `None` is the end.
pub(super) type Next<T> = Option<Result<Item<T>, Error>>;

/// Calls user code while `doing` something with a record. A thrown error, a panic and a returned
/// error all become an error that names the record's origin.
pub(super) fn catch_errors<U>(
    doing: &str,
    origin: Option<&RecordOrigin>,
    call: impl FnOnce() -> Result<U, Error>,
) -> Result<U, Error> {
    match catch_unwind(AssertUnwindSafe(|| crate::catch(call))) {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error)) | Err(error)) => Err(with_origin(error, doing, origin)),
        Err(panic) => {
            let error =
                Error::data(doing, format!("the closure panicked: {}", panic_message(&*panic)));
            Err(with_origin(error, doing, origin))
        }
    }
}

/// Adds the record's origin to an error without one.
fn with_origin(error: Error, doing: &str, origin: Option<&RecordOrigin>) -> Error {
    let Some(origin) = origin else { return error };
    let origin = origin.to_string();
    match error {
        Error::Data { doing, place: None, message, loc, help } => {
            Error::Data { doing, place: Some(origin), message, loc, help }
        }
        named @ Error::Data { .. } => named,
        other => Error::Data {
            doing: doing.into(),
            place: Some(origin),
            // It ends with the line of an operation that the closure called.
            message: other.to_string(),
            loc: Loc::UNKNOWN,
            help: None,
        },
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
