//! Apache Arrow IPC files and streams.

use super::arrow_buffers::{DictionaryId, Uncompressed, check_buffers, uncompressed};
use super::arrow_messages::{Messages, Metadata, shortened};
use super::arrow_value::{ArrowRow, Budget, unsupported};
use super::sequential::{Fault, Format, Opened, records};
use crate::core::Error;
use crate::data::files::File;
use crate::data::origin::{RecordOrigin, catch_errors};
use crate::data::source::check_shard;
use crate::data::stream::Stream;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{DictionaryBatch, RecordBatch as BatchTable};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use flatbuffers::root;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;

/// The largest record batch, in rows. Arrow's C++ library has the same limit.
const MAX_ROWS: i64 = i32::MAX as i64;
/// The ratio of a row's bytes in memory to those of its batch and dictionaries.
const MAX_RATIO: u64 = 1100;

/// Options of [`arrow_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrowOptions {
    /// The columns to read, by their names at the top level, in this order. `None` reads all.
    /// Others are not decoded.
    pub columns: Option<Vec<String>>,
    /// The record batches to read. `None` reads all.
    pub record_batches: Option<RecordBatchShard>,
}

/// The record batches `index`, `index + count`, … of an Arrow file: the share of process `index` of
/// `count`. Other record batches are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordBatchShard {
    /// The index of the share, below `count`.
    pub index: usize,
    /// The number of shares.
    pub count: usize,
}

/// Streams the rows of an Arrow IPC file: the file format, which is Feather version 2, or the
/// stream format (feature `arrow`).
///
/// `T` is any type that serde deserializes, as for [`parquet`](crate::data::parquet()): a struct
/// with fields named as columns, a tuple with all columns in order, or a map. Columns that the
/// struct does not have are ignored: [`arrow_with`] selects columns. Structs, lists and maps become
/// structs, vectors and maps, and values of dictionaries are those values. Dates, times, timestamps
/// and durations are integers in the unit of their column; decimals are text.
///
/// Buffers may be compressed with LZ4 or Zstandard. A record batch is read as it is needed. A
/// position is a row: resuming reads the metadata of the record batches before it, and skips their
/// bodies.
///
/// # Errors
/// [`Error::Io`], as an item of the stream, naming the file and the row. After it the stream ends,
/// unless only the types of one row do not match. Unions, intervals of days, and big-endian numbers
/// are not supported.
///
/// ```no_run
/// use oxidax::data;
/// use serde::Deserialize;
/// #[derive(Deserialize)]
/// struct Document {
///     text: String,
///     label: Option<i64>,
/// }
/// let files = data::files("train/*.arrow")?;
/// let turns = data::InterleaveOptions { cycle_length: 4, block_length: 16 };
/// let documents = data::interleave(files.iter().map(data::arrow::<Document>), turns);
/// for document in documents.shuffle(10_000, 0) {
///     let Document { text, label } = document?;
///     println!("{label:?}: {text}");
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Arrow Columnar Format, version 1.5.
#[doc(alias = "feather")]
#[doc(alias = "read_feather")]
#[doc(alias = "ipc")]
#[track_caller]
pub fn arrow<T: DeserializeOwned + Send + 'static>(file: impl Into<File>) -> Stream<T> {
    arrow_with(file, ArrowOptions::default())
}

/// Streams the rows of an Arrow IPC file with options, such as a selection of columns. See
/// [`arrow()`].
///
/// Throws `Op` (value) unless the index of `record_batches` is below its count.
#[track_caller]
pub fn arrow_with<T: DeserializeOwned + Send + 'static>(
    file: impl Into<File>,
    options: ArrowOptions,
) -> Stream<T> {
    if let Some(RecordBatchShard { index, count }) = options.record_batches {
        check_shard(index, count);
    }
    records(file.into(), ArrowFormat { options, record: PhantomData })
}

struct ArrowFormat<T> {
    options: ArrowOptions,
    record: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + 'static> Format for ArrowFormat<T> {
    const NAME: &'static str = "arrow";
    type Opened = ArrowReader<T>;

    fn open(&self, file: &File, row: u64) -> Result<ArrowReader<T>, Error> {
        let batches = Batches::open(file, &self.options)?;
        let mut reader = ArrowReader {
            batches,
            batch: RecordBatch::new_empty(Schema::empty().into()),
            index: 0,
            row: 0,
            record: PhantomData,
        };
        if row > 0 && !reader.advance(row)? {
            let end = reader.row;
            let message = format!("the file has {end} rows, and the position is row {row}");
            // A position at the end of the last batch is fine.
            return if end == row { Ok(reader) } else { Err(file.damaged_row(end, message)) };
        }
        Ok(reader)
    }

    fn settings(&self) -> Vec<(&'static str, u64)> {
        let shard = self.options.record_batches.unwrap_or(RecordBatchShard { index: 0, count: 1 });
        vec![
            ("index of the record batch shard", shard.index as u64),
            ("number of record batch shards", shard.count as u64),
        ]
    }

    fn origin(file: &File, row: u64) -> RecordOrigin {
        RecordOrigin::row(file.name().clone(), row)
    }
}

struct ArrowReader<T> {
    batches: Batches,
    batch: RecordBatch,
    /// The next row in `batch`.
    index: usize,
    /// The number of the next row, among those of the selected batches.
    row: u64,
    record: PhantomData<fn() -> T>,
}

impl<T> ArrowReader<T> {
    /// Reads the record batch with row `row`, which is not in the current one. Returns false at the
    /// end of the file.
    fn advance(&mut self, row: u64) -> Result<bool, Error> {
        let mut start = self.row;
        let next = self.batches.next(&mut start, row)?;
        self.row = start;
        let Some(batch) = next else { return Ok(false) };
        // A batch of the selected rows begins at `start`, at most `row`.
        self.index = usize::try_from(row - start).unwrap_or(usize::MAX);
        self.row = row;
        self.batch = batch;
        Ok(true)
    }
}

impl<T: DeserializeOwned + Send + 'static> Opened for ArrowReader<T> {
    type Record = T;

    fn read(&mut self) -> Result<Option<(u64, T)>, Fault> {
        if self.index >= self.batch.num_rows() && !self.advance(self.row)? {
            return Ok(None);
        }
        let (number, index) = (self.row, self.index);
        self.row += 1;
        self.index += 1;
        let budget = Cell::new(self.batches.most_of_a_row());
        let row = ArrowRow::new(&self.batch, &self.batches.selected, index, Budget(&budget));
        T::deserialize(row)
            .map(|record| Some((number, record)))
            .map_err(|error| Fault::Record(self.batches.file.damaged_row(number, shortened(error))))
    }

    fn offset(&self) -> u64 {
        self.row
    }
}

/// The record batches of a file.
struct Batches {
    file: File,
    messages: Messages,
    schema: SchemaRef,
    /// The indices of the selected columns, and their fields.
    columns: Vec<usize>,
    selected: Fields,
    /// The numbers of the dictionaries that the selected columns use.
    used: HashSet<i64>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// The bytes of each dictionary, and of the current batch.
    dictionary_bytes: HashMap<i64, u64>,
    batch_bytes: u64,
    shard: RecordBatchShard,
    /// The number of the next batch in the file.
    number: usize,
}

impl Batches {
    fn open(file: &File, options: &ArrowOptions) -> Result<Batches, Error> {
        let (messages, (schema, columns)) = Messages::open(file, |schema| {
            let schema = try_fb_to_schema(schema).map_err(shortened)?;
            let columns = selected_columns(&schema, options.columns.as_deref())?;
            Ok((schema, columns))
        })?;
        let fields = || columns.iter().map(|&at| schema.fields()[at].clone());
        let mut used = HashSet::new();
        fields().for_each(|field| visit_fields(&field, &mut |f| used.extend(dictionary_id(f))));
        Ok(Batches {
            file: file.clone(),
            messages,
            selected: fields().collect(),
            schema: schema.into(),
            columns,
            used,
            dictionaries: HashMap::new(),
            dictionary_bytes: HashMap::new(),
            batch_bytes: 0,
            shard: options.record_batches.unwrap_or(RecordBatchShard { index: 0, count: 1 }),
            number: 0,
        })
    }

    /// Returns the most bytes that a row of the current batch may have in memory.
    fn most_of_a_row(&self) -> u64 {
        let bytes =
            self.dictionary_bytes.values().fold(self.batch_bytes, |a, &b| a.saturating_add(b));
        bytes.saturating_mul(MAX_RATIO).saturating_add(1024)
    }

    /// Returns the selected batch with row `row`, and skips those before it. `start` is the number
    /// of the next batch's first row, and becomes that of the returned batch.
    fn next(&mut self, start: &mut u64, row: u64) -> Result<Option<RecordBatch>, Error> {
        while let Some(metadata) = self.messages.next()? {
            let damaged = |message: String| self.file.damaged(metadata.start, message);
            let message = metadata.message().map_err(|error| damaged(shortened(error)))?;
            let custom = message.custom_metadata().into_iter().flatten();
            if custom.into_iter().any(|pair| pair.key() == Some("ARROW:experimental_compression")) {
                let message = "compression of Arrow 0.17 and earlier is not supported";
                return Err(damaged(message.to_owned()));
            }
            if let Some(dictionary) = message.header_as_dictionary_batch() {
                if self.used.contains(&dictionary.id()) {
                    self.read_dictionary(&metadata)?;
                }
            } else if let Some(batch) = message.header_as_record_batch() {
                let number = self.number;
                self.number += 1;
                let rows = batch.length();
                if !(0..=MAX_ROWS).contains(&rows) {
                    let message = format!("batch {number} has {rows} rows, at most {MAX_ROWS}");
                    return Err(damaged(message));
                }
                if number % self.shard.count != self.shard.index {
                    continue;
                }
                let end = start.saturating_add(rows as u64);
                if end > row {
                    return self.read_batch(&metadata, *start).map(Some);
                }
                *start = end;
            } else {
                let found = message.header_type().variant_name().unwrap_or("unknown");
                return Err(damaged(format!("there is a {found} message among the batches")));
            }
        }
        Ok(None)
    }

    fn read_batch(&mut self, metadata: &Metadata, row: u64) -> Result<RecordBatch, Error> {
        let body = self.messages.body()?;
        let decode = |batch: BatchTable<'_>, body: Vec<u8>, version| {
            let bytes = body.len() as u64;
            let (schema, columns) = (self.schema.clone(), Some(&self.columns[..]));
            let body = Buffer::from_vec(body);
            read_record_batch(&body, batch, schema, &self.dictionaries, columns, &version)
                .map(|batch| (batch, bytes))
                .map_err(shortened)
        };
        let read = guarded(|| {
            let message = metadata.message().map_err(shortened)?;
            let version = message.version();
            let batch = message.header_as_record_batch().ok_or("it is not a record batch")?;
            check_buffers(batch, body.len() as u64)?;
            let fields = self.schema.fields().iter().enumerate();
            let fields = fields.map(|(at, field)| (&**field, self.columns.contains(&at)));
            match uncompressed(batch, None, &body, fields, version)? {
                None => decode(batch, body, version),
                Some(Uncompressed { metadata, body }) => {
                    decode(root::<BatchTable<'_>>(&metadata).map_err(shortened)?, body, version)
                }
            }
        });
        let (batch, bytes) = read.map_err(|message| self.file.damaged_row(row, message))?;
        self.batch_bytes = bytes;
        Ok(batch)
    }

    fn read_dictionary(&mut self, metadata: &Metadata) -> Result<(), Error> {
        let body = self.messages.body()?;
        let (schema, dictionaries) = (&self.schema, &mut self.dictionaries);
        let mut decode = |batch: DictionaryBatch<'_>, body: Vec<u8>, version| {
            let bytes = body.len() as u64;
            let body = Buffer::from_vec(body);
            read_dictionary(&body, batch, schema, dictionaries, &version).map_err(shortened)?;
            Ok((batch.id(), batch.isDelta(), bytes))
        };
        let read = guarded(|| {
            let message = metadata.message().map_err(shortened)?;
            let version = message.version();
            let batch = message.header_as_dictionary_batch().ok_or("it is not a dictionary")?;
            let data = batch.data().ok_or("a dictionary has no values")?;
            check_buffers(data, body.len() as u64)?;
            let dictionary = DictionaryId { id: batch.id(), is_delta: batch.isDelta() };
            let values = dictionary_values(schema, dictionary.id)?;
            let fields = std::iter::once((&values, true));
            match uncompressed(data, Some(dictionary), &body, fields, version)? {
                None => decode(batch, body, version),
                Some(Uncompressed { metadata, body }) => decode(
                    root::<DictionaryBatch<'_>>(&metadata).map_err(shortened)?,
                    body,
                    version,
                ),
            }
        });
        let (id, is_delta, bytes) =
            read.map_err(|message| self.file.damaged(metadata.start, message))?;
        let all = self.dictionary_bytes.entry(id).or_default();
        *all = if is_delta { all.saturating_add(bytes) } else { bytes };
        Ok(())
    }
}

/// Calls the decoder, which may panic on damaged files.
fn guarded<U>(call: impl FnOnce() -> Result<U, String>) -> Result<U, String> {
    let outcome =
        catch_errors("arrow", None, || call().map_err(|message| Error::data("arrow", message)));
    outcome.map_err(|error| match error {
        Error::Data { message, .. } => match message.strip_prefix("the closure panicked: ") {
            Some(panic) => shortened(format!("the file is damaged: {panic}")),
            None => message,
        },
        other => other.to_string(),
    })
}

/// Returns the indices of the columns with these names, or of all columns.
fn selected_columns(schema: &Schema, names: Option<&[String]>) -> Result<Vec<usize>, String> {
    let fields = schema.fields();
    let selected = match names {
        None => (0..fields.len()).collect(),
        Some(names) => {
            let found = names.iter().map(|name| {
                fields.iter().position(|field| field.name() == name).ok_or_else(|| {
                    let names: Vec<&str> =
                        fields.iter().map(|field| field.name().as_str()).collect();
                    let names = names.join(", ");
                    shortened(format!("there is no column `{name}`; the columns are {names}"))
                })
            });
            found.collect::<Result<Vec<_>, _>>()?
        }
    };
    for &at in &selected {
        if let Some(data_type) = unsupported(fields[at].data_type()) {
            let name = fields[at].name();
            let message =
                format!("column `{name}` has the type {data_type}, which is not supported");
            return Err(shortened(message));
        }
    }
    Ok(selected)
}

/// Visits a field and all fields inside its type.
fn visit_fields(field: &Field, visit: &mut impl FnMut(&Field)) {
    visit(field);
    let mut data_type = field.data_type();
    while let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => visit_fields(field, visit),
        DataType::Struct(fields) => fields.iter().for_each(|field| visit_fields(field, visit)),
        DataType::Union(fields, _) => {
            fields.iter().for_each(|(_, field)| visit_fields(field, visit));
        }
        _ => {}
    }
}

/// Returns the number of a field's dictionary.
#[expect(deprecated, reason = "files refer to dictionaries by number; no other method returns it")]
fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// Returns a column of the values of a dictionary.
fn dictionary_values(schema: &Schema, id: i64) -> Result<Field, String> {
    let mut found = None;
    for field in schema.fields() {
        visit_fields(field, &mut |field| {
            if let DataType::Dictionary(_, values) = field.data_type()
                && dictionary_id(field) == Some(id)
                && found.is_none()
            {
                found = Some(Field::new(field.name(), (**values).clone(), true));
            }
        });
    }
    found.ok_or_else(|| format!("no column has the dictionary {id}"))
}
