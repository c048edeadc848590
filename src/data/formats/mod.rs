//! File formats.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod arrow_buffers;
#[cfg(feature = "arrow")]
mod arrow_messages;
#[cfg(feature = "arrow")]
mod arrow_value;
mod csv;
mod digits;
mod idx;
#[cfg(feature = "images")]
mod images;
mod jsonl;
mod npy;
mod npy_header;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_codecs;
#[cfg(feature = "parquet")]
mod parquet_value;
mod rows;
mod safetensors;
mod sequential;
mod tf_example;
mod tfrecord;
mod tokens;
#[cfg(feature = "webdataset")]
mod webdataset;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowOptions, RecordBatchShard, arrow, arrow_with};
pub use csv::{CsvOptions, csv, csv_with};
pub use digits::digits;
pub use idx::{IdxOptions, Split, idx, idx_with};
#[cfg(feature = "images")]
pub use images::{ImageFile, ImageFolder, decode_image};
pub use jsonl::jsonl;
pub use npy::{Npy, npy};
pub use npz::npz;
#[cfg(feature = "parquet")]
pub use parquet::{ParquetOptions, RowGroupShard, parquet, parquet_with};
pub use rows::Rows;
pub use safetensors::safetensors;
pub use tf_example::{TfExample, TfFeature};
#[cfg(feature = "train")]
pub(crate) use tfrecord::framed;
pub use tfrecord::{TfRecordWriter, TfRecords, tfrecord};
pub use tokens::{TokenWidth, Tokens};
#[cfg(feature = "webdataset")]
pub use webdataset::{TarSample, webdataset};
