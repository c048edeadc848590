//! Apache Parquet files.

use super::parquet_codecs::AllCodecs;
use super::parquet_value::ParquetRow;
use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::{File, Handle};
use crate::data::origin::{RecordOrigin, catch_errors};
use crate::data::source::check_shard;
use crate::data::stream::Stream;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use serde::de::DeserializeOwned;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::sync::Arc;

/// The largest ratio of decompressed to compressed bytes: that of deflate, 1032, rounded up.
const MAX_RATIO: u64 = 1100;

/// Options of [`parquet_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ParquetOptions {
    /// The columns to read, by their names at the top level. `None` reads all. Others are not
    /// decoded.
    pub columns: Option<Vec<String>>,
    /// The row groups to read. `None` reads all.
    pub row_groups: Option<RowGroupShard>,
}

/// The row groups `index`, `index + count`, … of a Parquet file: the share of process `index` of
/// `count`. Other row groups are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowGroupShard {
    /// The index of the share, below `count`.
    pub index: usize,
    /// The number of shares.
    pub count: usize,
}

/// Streams the rows of a Parquet file (feature `parquet`).
///
/// `T` is any type that serde deserializes: a struct with fields named as columns, a tuple with all
/// columns in order, or a map. Columns that the struct does not have are decoded and ignored:
/// [`parquet_with`] selects columns. Nested groups, lists and maps become structs, vectors and
/// maps. Dates are days and timestamps are milli- or microseconds, as integers; decimals are text.
///
/// Pages may be compressed with Snappy, gzip, LZ4, Zstandard or Brotli. A row group is read as it
/// is needed, a page per column at a time. A position is a row: resuming skips whole row groups,
/// and decodes the rows before it in its own row group.
///
/// # Errors
/// [`Error::Io`], as an item of the stream, naming the file and the row. After it the stream ends,
/// unless only the types of one row do not match.
///
/// ```no_run
/// use oxidax::data;
/// use serde::Deserialize;
/// #[derive(Deserialize)]
/// struct Document {
///     text: String,
///     label: Option<i64>,
/// }
/// let files = data::files("train/*.parquet")?;
/// let turns = data::InterleaveOptions { cycle_length: 4, block_length: 16 };
/// let documents = data::interleave(files.iter().map(data::parquet::<Document>), turns);
/// for document in documents.shuffle(10_000, 0) {
///     let Document { text, label } = document?;
///     println!("{label:?}: {text}");
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Apache Parquet format specification, 2.11.
#[doc(alias = "read_parquet")]
#[track_caller]
pub fn parquet<T: DeserializeOwned + Send + 'static>(file: impl Into<File>) -> Stream<T> {
    parquet_with(file, ParquetOptions::default())
}

/// Streams the rows of a Parquet file with options, such as a selection of columns. See
/// [`parquet()`].
///
/// Throws `Op` (value) unless the index of `row_groups` is below its count.
#[track_caller]
pub fn parquet_with<T: DeserializeOwned + Send + 'static>(
    file: impl Into<File>,
    options: ParquetOptions,
) -> Stream<T> {
    if let Some(RowGroupShard { index, count }) = options.row_groups {
        check_shard(index, count);
    }
    records(file.into(), ParquetFormat { options, record: PhantomData })
}

struct ParquetFormat<T> {
    options: ParquetOptions,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Format for ParquetFormat<T> {
    const NAME: &'static str = "parquet";
    type Opened = ParquetReader<T>;

    fn open(&self, file: &File, row: u64) -> Result<ParquetReader<T>, Error> {
        let handle = Arc::new(file.open()?);
        let rows = guarded(file, row, || self.rows(&handle, row))?;
        let mut reader = ParquetReader { file: file.clone(), rows, row: 0, record: PhantomData };
        // The rows of earlier row groups are not in the iterator.
        reader.row = reader.rows.start;
        while reader.row < row {
            match reader.next_row()? {
                Some(_) => reader.row += 1,
                None => return Err(file.truncated(reader.row, "the rows", 0, row)),
            }
        }
        Ok(reader)
    }

    fn settings(&self) -> Vec<(&'static str, u64)> {
        let shard = self.options.row_groups.unwrap_or(RowGroupShard { index: 0, count: 1 });
        vec![
            ("index of the row group shard", shard.index as u64),
            ("number of row group shards", shard.count as u64),
        ]
    }

    fn origin(file: &File, row: u64) -> RecordOrigin {
        RecordOrigin::row(file.name().clone(), row)
    }
}

/// The rows from the start of a row group.
struct Rows {
    rows: RowIter<'static>,
    /// The number of the first row, among those of the selected row groups.
    start: u64,
}

impl<T> ParquetFormat<T> {
    /// Opens the file at the row group of a row.
    fn rows(&self, handle: &Arc<Handle>, row: u64) -> Result<Rows, ParquetError> {
        let shard = self.options.row_groups.unwrap_or(RowGroupShard { index: 0, count: 1 });
        let selected = move |group: usize| group % shard.count == shard.index;
        let chunks = || ParquetChunks { handle: handle.clone(), limits_pages: true };
        let reader = SerializedFileReader::new(chunks())?;
        let metadata = reader.metadata();
        let (mut start, mut first) = (0u64, metadata.num_row_groups());
        for group in (0..metadata.num_row_groups()).filter(|&group| selected(group)) {
            let count = u64::try_from(metadata.row_group(group).num_rows())
                .map_err(|_| ParquetError::General(format!("row group {group} has < 0 rows")))?;
            if row < start.saturating_add(count) {
                first = group;
                break;
            }
            start += count;
        }
        let projection = self.projection(metadata.file_metadata().schema())?;
        let options = ReadOptionsBuilder::new()
            .with_predicate(Box::new(move |_, group| group >= first && selected(group)))
            .build();
        let reader = SerializedFileReader::new_with_options(chunks(), options)?;
        let reader = AllCodecs::new(reader, chunks());
        let rows = RowIter::from_file_into(Box::new(reader)).project(projection)?;
        Ok(Rows { rows, start })
    }

    /// Returns the schema of the selected columns.
    fn projection(&self, schema: &Type) -> Result<Option<Type>, ParquetError> {
        let Some(columns) = &self.options.columns else { return Ok(None) };
        let fields = schema.get_fields();
        let selected = columns.iter().map(|column| {
            fields.iter().find(|field| field.name() == column).cloned().ok_or_else(|| {
                let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                ParquetError::General(format!(
                    "there is no column `{column}`; the columns are {}",
                    names.join(", ")
                ))
            })
        });
        let selected = selected.collect::<Result<Vec<_>, _>>()?;
        Type::group_type_builder(schema.name()).with_fields(selected).build().map(Some)
    }
}

struct ParquetReader<T> {
    file: File,
    rows: Rows,
    row: u64,
    record: PhantomData<fn() -> T>,
}

impl<T> ParquetReader<T> {
    fn next_row(&mut self) -> Result<Option<parquet::record::Row>, Error> {
        let rows = &mut self.rows.rows;
        guarded(&self.file, self.row, || rows.next().transpose())
    }
}

impl<T: DeserializeOwned + Send + 'static> Opened for ParquetReader<T> {
    type Record = T;

    fn read(&mut self) -> Result<Option<(u64, T)>, Fault> {
        let Some(row) = self.next_row()? else { return Ok(None) };
        let number = self.row;
        self.row += 1;
        match T::deserialize(ParquetRow(row)) {
            Ok(record) => Ok(Some((number, record))),
            Err(error) => Err(Fault::Record(self.file.damaged_row(number, error))),
        }
    }

    fn offset(&self) -> u64 {
        self.row
    }
}

/// Calls the reader, which panics on some damaged files.
fn guarded<U>(
    file: &File,
    row: u64,
    call: impl FnOnce() -> Result<U, ParquetError>,
) -> Result<U, Error> {
    let outcome = catch_errors("parquet", None, || {
        call().map_err(|error| Error::data("parquet", error.to_string()))
    });
    outcome.map_err(|error| match error {
        Error::Data { message, .. } => match message.strip_prefix("the closure panicked: ") {
            Some(panic) => file.damaged_row(row, format!("the file is damaged: {panic}")),
            None => file.damaged_row(row, message),
        },
        other => other,
    })
}

/// The bytes of a file, as the reader requests them.
pub(super) struct ParquetChunks {
    handle: Arc<Handle>,
    /// True if the reader allocates the size in a page's header.
    limits_pages: bool,
}

impl ParquetChunks {
    /// Returns the bytes for a reader that does not decompress.
    pub(super) fn without_page_limit(self) -> ParquetChunks {
        ParquetChunks { limits_pages: false, ..self }
    }
}

impl Length for ParquetChunks {
    fn len(&self) -> u64 {
        self.handle.len()
    }
}

impl ChunkReader for ParquetChunks {
    type T = BufReader<FromOffset>;

    fn get_read(&self, start: u64) -> Result<BufReader<FromOffset>, ParquetError> {
        if self.limits_pages {
            check_page(&self.handle, start)?;
        }
        let bytes = FromOffset { handle: self.handle.clone(), offset: start };
        Ok(BufReader::with_capacity(8 << 10, bytes))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        let bytes = self.handle.exactly(start, length as u64, "a part of the file");
        bytes.map(Into::into).map_err(|error| ParquetError::General(error.to_string()))
    }
}

/// Refuses a page whose header states a size that its bytes cannot have, because the reader
/// allocates as much as the header says.
///
/// A page header is a Thrift struct in the compact protocol, and begins with three required `i32`
/// fields: the page's type, its decompressed and its compressed size.
fn check_page(handle: &Handle, start: u64) -> Result<(), ParquetError> {
    let mut header = [0; 24];
    let count = handle.read_at(&mut header, start)?;
    let mut bytes = &header[..count];
    let mut field = || -> Option<i64> {
        // Type 5 (`i32`), and the id after the last one.
        let [0x15, rest @ ..] = bytes else { return None };
        let mut number = 0u64;
        for (at, byte) in rest.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
            if byte & 0x80 == 0 {
                bytes = &rest[at + 1..];
                return Some((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        None
    };
    // Other requests are not for page headers.
    let (Some(_), Some(size), Some(compressed)) = (field(), field(), field()) else {
        return Ok(());
    };
    let most = u64::try_from(compressed).unwrap_or(0).min(handle.len()).saturating_mul(MAX_RATIO);
    match u64::try_from(size) {
        Ok(size) if size <= most.saturating_add(1024) => Ok(()),
        _ => Err(ParquetError::General(format!(
            "the page at byte {start} should have {size} bytes, decompressed from {compressed}"
        ))),
    }
}

pub(super) struct FromOffset {
    handle: Arc<Handle>,
    offset: u64,
}

impl Read for FromOffset {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.handle.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
