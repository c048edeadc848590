//! Items, and where they came from.

use crate::core::Error;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Where a record stands: kept beside it through the pipeline, for error messages.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Origin {
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

impl Origin {
    /// The record that begins at this byte of the file.
    pub fn byte(file: impl Into<Arc<Path>>, byte: u64) -> Origin {
        Origin { file: file.into(), at: byte, unit: Unit::Byte }
    }

    /// The row of this index in the file.
    pub fn row(file: impl Into<Arc<Path>>, row: u64) -> Origin {
        Origin { file: file.into(), at: row, unit: Unit::Row }
    }

    /// The whole file.
    pub fn file(file: impl Into<Arc<Path>>) -> Origin {
        Origin { file: file.into(), at: 0, unit: Unit::File }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.unit {
            Unit::Byte => write!(f, "{file}: at byte {}", self.at),
            Unit::Row => write!(f, "{file}: row {}", self.at),
            Unit::File => file.fmt(f),
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}

/// What goes from stage to stage.
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) origin: Option<Origin>,
}

/// What a stage gives when it is asked for the next item.
pub(super) type Next<T> = Option<Result<Item<T>, Error>>;

/// Calls what a user wrote, `doing` something to a record of that origin: whatever it throws, panics with
/// or returns as an error becomes an error that names the record.
pub(super) fn guarded<U>(
    doing: &str,
    origin: Option<&Origin>,
    call: impl FnOnce() -> Result<U, Error>,
) -> Result<U, Error> {
    match catch_unwind(AssertUnwindSafe(|| crate::catch(call))) {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error)) | Err(error)) => Err(placed(error, doing, origin)),
        Err(panic) => {
            let error = Error::data(doing, format!("the closure panicked: {}", said(&*panic)));
            Err(placed(error, doing, origin))
        }
    }
}

/// The error with the record's place, unless it names one already.
fn placed(error: Error, doing: &str, origin: Option<&Origin>) -> Error {
    let Some(origin) = origin else { return error };
    let origin = origin.to_string();
    match error {
        Error::Data { doing, place: None, message, help } => {
            Error::Data { doing, place: Some(origin), message, help }
        }
        named @ Error::Data { .. } => named,
        other => Error::Data {
            doing: doing.into(),
            place: Some(origin),
            message: other.to_string(),
            help: None,
        },
    }
}

/// The words of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
