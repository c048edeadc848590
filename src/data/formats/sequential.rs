//! Files whose records are read from front to back.

use crate::core::Error;
use crate::data::files::File;
use crate::data::instruments::Meter;
use crate::data::origin::{Item, Next, Origin};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{Stage, Stream};
use std::sync::Arc;

/// How files of a format are opened.
pub(super) trait Format: Send + 'static {
    /// The format's name, in positions and reports.
    const NAME: &'static str;
    /// What reads one.
    type Opened: Opened<Record: Send + 'static>;
    /// Opens a file to be read from this byte on, where a record begins; 0 is the file's beginning, whatever
    /// stands there.
    fn open(&self, file: &File, offset: u64) -> Result<Self::Opened, Error>;
}

/// A file being read.
pub(super) trait Opened: Send {
    /// What is read.
    type Record;
    /// The next record, and the byte at which it begins.
    fn read(&mut self) -> Result<Option<(u64, Self::Record)>, Fault>;
    /// The byte behind the last record, or the last fault.
    fn offset(&self) -> u64;
}

/// Something is wrong with a file.
pub(super) enum Fault {
    /// With one record: those behind it can be read.
    Record(Error),
    /// With the file: nobody knows where the next record begins.
    File(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::File(error)
    }
}

/// The records of a file as a stream. The file is opened when the first is asked for.
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

/// A record, and the byte at which it begins.
type Placed<F> = (u64, <<F as Format>::Opened as Opened>::Record);

struct Records<F: Format> {
    file: File,
    format: F,
    opened: Option<F::Opened>,
    offset: u64,
    ended: bool,
    meter: Arc<Meter>,
}

impl<F: Format> Records<F> {
    fn read(&mut self) -> Result<Option<Placed<F>>, Fault> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            closed => closed.insert(self.format.open(&self.file, self.offset)?),
        };
        let read = opened.read();
        self.offset = opened.offset();
        read
    }

    /// No file stays open longer than it is read: a pipeline may go through thousands.
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
        match meter.time_next(|| self.read().transpose()) {
            Some(Ok((at, value))) => {
                let origin = Some(Origin::byte(self.file.name().clone(), at));
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

    fn position(&self, at: &mut Position) {
        at.push(F::NAME, &[self.offset, self.ended.into()]);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let [offset, ended] = at.take(F::NAME, &[])?;
        (self.offset, self.ended) = (offset, ended != 0);
        self.opened = None;
        Ok(())
    }

    fn restart(&mut self, _epoch: u64) -> Result<(), Error> {
        (self.offset, self.ended, self.opened) = (0, false, None);
        Ok(())
    }
}
