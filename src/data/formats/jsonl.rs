//! JSON Lines: one value per line.

use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::{File, Reader};
use crate::data::stream::Stream;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Streams the lines of a file, compressed with gzip or not. Each line is deserialized from JSON.
/// Blank lines are skipped.
///
/// # Errors
/// As items of the stream, naming the file and the byte of a line that is not JSON, or not of the
/// type.
///
/// ```
/// use oxidax::data::{self, File};
/// #[derive(serde::Deserialize)]
/// struct Document {
///     text: String,
/// }
/// let lines = b"{\"text\": \"one\"}\n{\"text\": \"two\"}".as_slice();
/// let file = File::in_memory("texts.jsonl", lines);
/// let texts = data::jsonl(file).map(|document: Document| Ok(document.text));
/// assert_eq!(texts.collect::<Result<Vec<_>, _>>()?, ["one", "two"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jsonl<T: DeserializeOwned + Send + 'static>(file: impl Into<File>) -> Stream<T> {
    records(file.into(), JsonlFormat { record: PhantomData })
}

struct JsonlFormat<T> {
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Format for JsonlFormat<T> {
    const NAME: &'static str = "jsonl";
    type Opened = JsonlReader<T>;
    fn open(&self, file: &File, offset: u64) -> Result<JsonlReader<T>, Error> {
        let mut reader = Reader::open(file)?;
        if offset > 0 {
            reader.seek(offset)?;
        }
        Ok(JsonlReader { reader, line: Vec::new(), record: PhantomData })
    }
}

struct JsonlReader<T> {
    reader: Reader,
    line: Vec<u8>,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Opened for JsonlReader<T> {
    type Record = T;

    fn read(&mut self) -> Result<Option<(u64, T)>, Fault> {
        loop {
            let start = self.reader.offset();
            self.reader.line(&mut self.line)?;
            if self.line.is_empty() {
                return Ok(None);
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(self.line.trim_ascii_end()) {
                Ok(record) => Ok(Some((start, record))),
                Err(error) => {
                    let at = start + error.column().saturating_sub(1) as u64;
                    let message = error.to_string();
                    // The error names the byte already, and serde's line number is always 1.
                    let message = message.split(" at line ").next().unwrap_or_default();
                    Err(Fault::Record(self.reader.damaged(at, message)))
                }
            };
        }
    }

    fn offset(&self) -> u64 {
        self.reader.offset()
    }
}
