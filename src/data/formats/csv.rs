//! Comma-separated values.

use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::{File, Reader};
use crate::data::stream::Stream;
use ::csv::{ByteRecord, ErrorKind, ReaderBuilder};
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::marker::PhantomData;

/// Streams the rows of a CSV file with a header, compressed with gzip or not. A row is deserialized
/// into a struct whose fields are named like columns, or into a tuple or vector of all columns.
///
/// Fields may be quoted as in RFC 4180, and then contain line ends.
///
/// # Errors
/// As items of the stream, naming the file and the byte at which the row begins: a row has another
/// number of fields than the header, or a field does not have its type.
///
/// ```
/// use oxidax::data::{self, File};
/// #[derive(serde::Deserialize)]
/// struct Flower {
///     species: String,
///     petal: f32,
/// }
/// let file = File::in_memory("flowers.csv", b"petal,species\n1.5,\"setosa, wild\"\n".as_slice());
/// let flower: Flower = data::csv(file).next().unwrap()?;
/// assert_eq!((flower.species.as_str(), flower.petal), ("setosa, wild", 1.5));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn csv<T: DeserializeOwned + Send + 'static>(file: impl Into<File>) -> Stream<T> {
    csv_with(file, CsvOptions::default())
}

/// Streams the rows of a delimited file with options.
///
/// ```
/// use oxidax::data::{self, CsvOptions, File};
/// let file = File::in_memory("numbers.tsv", b"1\t2\n3\t4\n".as_slice());
/// let rows = data::csv_with(file, CsvOptions { delimiter: b'\t', header: false });
/// let rows: Vec<Vec<f32>> = rows.collect::<Result<_, _>>()?;
/// assert_eq!(rows, [[1.0, 2.0], [3.0, 4.0]]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn csv_with<T: DeserializeOwned + Send + 'static>(
    file: impl Into<File>,
    options: CsvOptions,
) -> Stream<T> {
    records(file.into(), CsvFormat { options, record: PhantomData })
}

/// Options of [`csv_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CsvOptions {
    /// The separator of fields.
    pub delimiter: u8,
    /// The first row contains the names of the columns.
    pub header: bool,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions { delimiter: b',', header: true }
    }
}

struct CsvFormat<T> {
    options: CsvOptions,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Format for CsvFormat<T> {
    const NAME: &'static str = "csv";
    type Opened = CsvReader<T>;

    fn open(&self, file: &File, offset: u64) -> Result<CsvReader<T>, Error> {
        let mut rows = CsvReader {
            file: file.clone(),
            rows: rows(Reader::open(file)?, self.options),
            start: 0,
            header: None,
            row: ByteRecord::new(),
            record: PhantomData,
        };
        if self.options.header {
            rows.read_row().map_err(|fault| match fault {
                Fault::Record(error) | Fault::File(error) => error,
            })?;
            rows.header = Some(rows.row.clone());
        }
        if offset > 0 {
            let mut reader = Reader::open(file)?;
            reader.seek(offset)?;
            rows.rows = self::rows(reader, self.options);
            rows.start = offset;
        }
        Ok(rows)
    }
}

type Rows = ::csv::Reader<Bytes>;

fn rows(reader: Reader, options: CsvOptions) -> Rows {
    ReaderBuilder::new()
        .has_headers(false)
        .delimiter(options.delimiter)
        // The number of fields is checked in `read`, because reading may start inside the file.
        .flexible(true)
        .from_reader(Bytes { reader })
}

/// Adapts a reader to the csv crate.
struct Bytes {
    reader: Reader,
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.buffered().map_err(|error| match error {
            Error::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.reader.consume(count);
        Ok(count)
    }
}

struct CsvReader<T> {
    file: File,
    rows: Rows,
    /// The offset at which `rows` begins to count.
    start: u64,
    header: Option<ByteRecord>,
    row: ByteRecord,
    record: PhantomData<fn() -> T>,
}

impl<T> CsvReader<T> {
    /// Reads a row and returns its offset.
    fn read_row(&mut self) -> Result<Option<u64>, Fault> {
        let start = self.offset_now();
        match self.rows.read_byte_record(&mut self.row) {
            Ok(true) => Ok(Some(self.row.position().map_or(start, |at| self.start + at.byte()))),
            Ok(false) => Ok(None),
            Err(error) => Err(Fault::File(match error.into_kind() {
                ErrorKind::Io(error) => self.file.io_error(error),
                other => self.file.damaged(start, format!("{other:?}")),
            })),
        }
    }

    fn offset_now(&self) -> u64 {
        self.start + self.rows.position().byte()
    }

    /// Returns the name of a column for error messages.
    fn column(&self, field: u64) -> String {
        let name = self.header.as_ref().and_then(|header| header.get(field as usize));
        match name {
            Some(name) => format!("column `{}`", String::from_utf8_lossy(name)),
            None => format!("column {field}"),
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Opened for CsvReader<T> {
    type Record = T;

    fn read(&mut self) -> Result<Option<(u64, T)>, Fault> {
        let Some(start) = self.read_row()? else { return Ok(None) };
        let refused = |message: String| Fault::Record(self.file.damaged(start, message));
        if let Some(header) = self.header.as_ref().filter(|header| header.len() != self.row.len()) {
            let (found, expected) = (self.row.len(), header.len());
            return Err(refused(format!("the row has {found} fields, the header {expected}")));
        }
        match self.row.deserialize(self.header.as_ref()) {
            Ok(record) => Ok(Some((start, record))),
            Err(error) => Err(refused(match error.into_kind() {
                ErrorKind::Deserialize { err, .. } => match err.field() {
                    Some(field) => {
                        let text = self.row.get(field as usize).unwrap_or_default();
                        let text = String::from_utf8_lossy(&text[..text.len().min(40)]);
                        let column = self.column(field);
                        format!("{column} is `{text}`: {}", err.kind())
                    }
                    None => err.kind().to_string(),
                },
                other => format!("{other:?}"),
            })),
        }
    }

    fn offset(&self) -> u64 {
        self.offset_now()
    }
}
