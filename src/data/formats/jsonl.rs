//! JSON, one value a line.

use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::{File, Reader};
use crate::data::stream::Stream;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// The lines of a file, gzipped or not, each of which is a JSON value of this type. Blank lines are passed over.
///
/// # Errors
/// As items of the stream, naming the file and the byte: a line is not JSON, or not of the type.
///
/// ```
/// use oxidax::data::{self, File};
/// #[derive(serde::Deserialize)]
/// struct Document {
///     text: String,
/// }
/// let file = File::in_memory("texts.jsonl", b"{\"text\": \"one\"}\n{\"text\": \"two\"}".as_slice());
/// let texts = data::jsonl(file).map(|document: Document| Ok(document.text));
/// assert_eq!(texts.collect::<Result<Vec<_>, _>>()?, ["one", "two"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
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
                    let said = error.to_string();
                    // The place is said in bytes already; the line is always the first of its own.
                    let said = said.split(" at line ").next().unwrap_or_default();
                    Err(Fault::Record(self.reader.damaged(at, said)))
                }
            };
        }
    }

    fn offset(&self) -> u64 {
        self.reader.offset()
    }
}
