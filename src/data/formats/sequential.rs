//! Formats whose records are read sequentially.

use crate::core::Error;
use crate::data::files::File;
use crate::data::instruments::Meter;
use crate::data::origin::{Item, Next, RecordOrigin, catch_errors};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{Stage, Stream};
use std::sync::Arc;

/// A file format.
pub(super) trait Format: Send + 'static {
    /// The format's name, in positions and reports.
    const NAME: &'static str;
    /// The reader of an open file.
    type Opened: Opened<Record: Send + 'static>;
    /// Opens a file at an offset where a record begins. Offset 0 is the start of the file, which
    /// may be a header.
    fn open(&self, file: &File, offset: u64) -> Result<Self::Opened, Error>;
    /// Returns the settings that change the records, for positions.
    fn settings(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Returns the location of the record at an offset.
    fn origin(file: &File, offset: u64) -> RecordOrigin {
        RecordOrigin::byte(file.name().clone(), offset)
    }
}

/// A file being read.
pub(super) trait Opened: Send {
    /// The type of a record.
    type Record;
    /// Reads the next record, and returns it with its offset.
    fn read(&mut self) -> Result<Option<(u64, Self::Record)>, Fault>;
    /// Returns the offset after the last record or fault.
    fn offset(&self) -> u64;
}

/// An error in a file.
pub(super) enum Fault {
    /// One record is wrong. The next record can be read.
    Record(Error),
    /// The file is wrong. The offset of the next record is unknown.
    File(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::File(error)
    }
}

/// Streams the records of a file, which is opened when the first record is pulled.
#[track_caller]
pub(super) fn records<F: Format>(file: File, format: F) -> Stream<<F::Opened as Opened>::Record> {
    Stream::source(F::NAME, |meter| Records {
        file,
        format,
        opened: None,
        offset: 0,
        ended: false,
        meter,
    })
}

/// A record and its offset.
type RecordAt<F> = (u64, <<F as Format>::Opened as Opened>::Record);

struct Records<F: Format> {
    file: File,
    format: F,
    opened: Option<F::Opened>,
    offset: u64,
    ended: bool,
    meter: Arc<Meter>,
}

impl<F: Format> Records<F> {
    fn read(&mut self) -> Result<Option<RecordAt<F>>, Fault> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            closed => closed.insert(self.format.open(&self.file, self.offset)?),
        };
        let read = opened.read();
        self.offset = opened.offset();
        read
    }

    /// Closes the file as soon as it is read: a pipeline may read thousands.
    fn end(&mut self) {
        self.ended = true;
        self.opened = None;
    }
}

impl<F: Format> Stage<<F::Opened as Opened>::Record> for Records<F> {
    fn next(&mut self) -> Next<<F::Opened as Opened>::Record> {
        if self.ended {
            return None;
        }
        let meter = self.meter.clone();
        let origin = F::origin(&self.file, self.offset);
        // `Deserialize` of a user's type may panic.
        let read = || match catch_errors(F::NAME, Some(&origin), || Ok(self.read())) {
            Ok(read) => read.transpose(),
            Err(error) => Some(Err(Fault::File(error))),
        };
        match meter.time_next(read) {
            Some(Ok((at, value))) => {
                let origin = Some(F::origin(&self.file, at));
                Some(Ok(Item { value, origin }))
            }
            None => {
                self.end();
                None
            }
            Some(Err(Fault::Record(error))) => Some(Err(error)),
            Some(Err(Fault::File(error))) => {
                self.end();
                Some(Err(error))
            }
        }
    }

    fn position(&self, position: &mut Position) {
        let mut counts: Vec<u64> = self.format.settings().iter().map(|(_, n)| *n).collect();
        counts.extend([self.offset, self.ended.into()]);
        position.push(F::NAME, &counts);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [offset, ended] = cursor.take(F::NAME, &self.format.settings())?;
        (self.offset, self.ended) = (offset, ended != 0);
        self.opened = None;
        Ok(())
    }

    fn restart(&mut self, _epoch: u64) -> Result<(), Error> {
        (self.offset, self.ended, self.opened) = (0, false, None);
        Ok(())
    }
}
