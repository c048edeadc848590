//! Zstandard and Brotli pages of Parquet files, decompressed by libraries in Rust.
//!
//! The crate `parquet` decompresses Zstandard with a library in C. Here it reads such pages as if
//! they were not compressed, and they are decompressed before their values are decoded. Memory
//! grows with the bytes that a page really has, not with the size that its header states.

use super::parquet::ParquetChunks;
use parquet::basic::Compression;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::{SerializedFileReader, SerializedPageReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use std::io::Read;
use std::sync::Arc;

/// The largest page. Writers make pages of about 1 MiB.
const MAX_PAGE: u64 = 1 << 30;

/// A codec that the crate `parquet` does not have.
#[derive(Clone, Copy, Debug)]
enum Codec {
    Zstd,
    Brotli,
}

impl Codec {
    fn of(compression: Compression) -> Option<Codec> {
        match compression {
            Compression::ZSTD(_) => Some(Codec::Zstd),
            Compression::BROTLI(_) => Some(Codec::Brotli),
            _ => None,
        }
    }

    /// Appends the decompressed bytes.
    fn decompress(self, mut input: &[u8], output: &mut Vec<u8>) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| {
            ParquetError::General(format!("a {self:?} page cannot be decompressed: {error}"))
        };
        let most = MAX_PAGE.saturating_sub(output.len() as u64);
        let start = output.len();
        match self {
            Codec::Zstd => {
                // A page may have several frames.
                while !input.is_empty() {
                    let left = most.saturating_sub((output.len() - start) as u64);
                    let decoder = ruzstd::decoding::StreamingDecoder::new(&mut input);
                    let decoder = decoder.map_err(|error| failed(&error))?;
                    decoder.take(left).read_to_end(output).map_err(|error| failed(&error))?;
                    if (output.len() - start) as u64 >= most {
                        break;
                    }
                }
            }
            Codec::Brotli => {
                let decoder = brotli_decompressor::Decompressor::new(input, 8 << 10);
                decoder.take(most).read_to_end(output).map_err(|error| failed(&error))?;
            }
        }
        if output.len() as u64 >= MAX_PAGE {
            return Err(failed(&format!("it has more than {MAX_PAGE} bytes")));
        }
        Ok(())
    }
}

/// A file whose pages may have any codec.
pub(super) struct AllCodecs {
    reader: SerializedFileReader<ParquetChunks>,
    chunks: Arc<ParquetChunks>,
}

impl AllCodecs {
    pub(super) fn new(
        reader: SerializedFileReader<ParquetChunks>,
        chunks: ParquetChunks,
    ) -> AllCodecs {
        AllCodecs { reader, chunks: Arc::new(chunks.without_page_limit()) }
    }
}

impl FileReader for AllCodecs {
    fn metadata(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    fn get_row_group(&self, index: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        let reader = self.reader.get_row_group(index)?;
        Ok(Box::new(RowGroup { reader, chunks: &self.chunks }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct RowGroup<'a> {
    reader: Box<dyn RowGroupReader + 'a>,
    chunks: &'a Arc<ParquetChunks>,
}

impl RowGroupReader for RowGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.reader.metadata()
    }

    fn num_columns(&self) -> usize {
        self.reader.num_columns()
    }

    fn get_column_page_reader(&self, index: usize) -> Result<Box<dyn PageReader>> {
        let column = self.metadata().column(index);
        let Some(codec) = Codec::of(column.compression()) else {
            return self.reader.get_column_page_reader(index);
        };
        let column = column.clone().into_builder();
        let column = column.set_compression(Compression::UNCOMPRESSED).build()?;
        let rows = usize::try_from(self.metadata().num_rows())
            .map_err(|error| ParquetError::General(error.to_string()))?;
        let pages = SerializedPageReader::new(self.chunks.clone(), &column, rows, None)?;
        Ok(Box::new(Pages { pages, codec }))
    }

    fn get_column_bloom_filter(&self, index: usize) -> Option<&Sbbf> {
        self.reader.get_column_bloom_filter(index)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of a column.
struct Pages {
    pages: SerializedPageReader<ParquetChunks>,
    codec: Codec,
}

impl Pages {
    fn decompressed(&self, page: Page) -> Result<Page> {
        // Levels of the second version are not compressed.
        let plain = match &page {
            Page::DataPageV2 { is_compressed: false, .. } => return Ok(page),
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                *def_levels_byte_len as usize + *rep_levels_byte_len as usize
            }
            Page::DataPage { .. } | Page::DictionaryPage { .. } => 0,
        };
        let bytes = page.buffer();
        let (levels, values) = bytes.split_at_checked(plain).ok_or_else(|| {
            let there = bytes.len();
            ParquetError::General(format!("a page of {there} bytes has {plain} bytes of levels"))
        })?;
        let mut all = levels.to_vec();
        self.codec.decompress(values, &mut all)?;
        let mut page = page;
        match &mut page {
            Page::DataPage { buf, .. }
            | Page::DataPageV2 { buf, .. }
            | Page::DictionaryPage { buf, .. } => *buf = all.into(),
        }
        Ok(page)
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.decompressed(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        page.map(|page| self.decompressed(page)).transpose()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
