//! The messages of an Arrow IPC file or stream: metadata in flatbuffers, each followed by a body.

use crate::core::Error;
use crate::data::files::{File, Packing, Reader};
use arrow_ipc::{Endianness, Footer, Message, Schema as SchemaTable};
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The first and last bytes of a file in the file format.
const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of Feather's first version, which is another format.
const FEATHER_1: &[u8] = b"FEA1";
/// The length of the footer and the magic bytes behind it.
const TAIL: u64 = 4 + MAGIC.len() as u64;
/// Begins a message. Streams of 2019 and earlier do not have it.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The messages after the schema, in order.
pub(super) struct Messages {
    reader: Reader,
    /// The start of each message that remains, in the file format. `None` in the stream format,
    /// where a message begins at the end of the last one.
    blocks: Option<VecDeque<u64>>,
    /// The bytes of the last message's body that were not read.
    pending: u64,
    /// The bytes that the bodies which remain may have together.
    left: u64,
}

/// The metadata of a message, a verified flatbuffer.
pub(super) struct Metadata {
    bytes: Vec<u8>,
    /// The byte at which the message begins.
    pub(super) start: u64,
}

impl Metadata {
    pub(super) fn message(&self) -> Result<Message<'_>, InvalidFlatbuffer> {
        arrow_ipc::root_as_message_with_opts(&limits(self.bytes.len()), &self.bytes)
    }
}

/// Returns the limits of a flatbuffer. Its tables may be shared, so that a few bytes become many
/// fields; each table that a writer stores takes at least four bytes.
pub(super) fn limits(bytes: usize) -> VerifierOptions {
    VerifierOptions {
        max_tables: bytes / 4,
        max_apparent_size: bytes.saturating_mul(8),
        ..VerifierOptions::default()
    }
}

impl Messages {
    /// Opens a file or stream, and calls `read` with its schema.
    pub(super) fn open<U>(
        file: &File,
        read: impl FnOnce(SchemaTable<'_>) -> Result<U, String>,
    ) -> Result<(Messages, U), Error> {
        let handle = Arc::new(file.open()?);
        let start = handle.exactly(0, handle.len().min(8), "the first bytes")?;
        if start.starts_with(FEATHER_1) {
            let message = "Feather version 1 is not an Arrow IPC file; write version 2";
            return Err(file.damaged(0, message));
        }
        let reader = Reader::of(handle.clone(), Packing::Plain);
        if !start.starts_with(MAGIC) {
            let mut messages = Messages { reader, blocks: None, pending: 0, left: handle.len() };
            let Some(metadata) = messages.next()? else {
                return Err(file.damaged(0, "there is no Arrow schema"));
            };
            let schema = metadata.message().ok().and_then(|message| message.header_as_schema());
            let schema = schema.ok_or_else(|| {
                file.damaged(0, "the file does not begin as Arrow's file format or stream format")
            })?;
            let schema = checked_schema(schema).and_then(read);
            return Ok((messages, schema.map_err(|message| file.damaged(0, message))?));
        }
        let end = handle.len();
        let tail = handle.exactly(end.saturating_sub(TAIL), TAIL, "the end of the file")?;
        let (length, magic) = tail.split_at(4);
        if magic != MAGIC {
            let message = "the file does not end with `ARROW1`: it was cut short";
            return Err(file.damaged(end - MAGIC.len() as u64, message));
        }
        let length = i32::from_le_bytes(length.try_into().expect("four bytes were split off"));
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let Some(at) = (end - TAIL).checked_sub(length) else {
            return Err(file.damaged(end - TAIL, format!("a footer of {length} bytes")));
        };
        let bytes = handle.exactly(at, length, "the footer")?;
        let invalid = |error: &dyn fmt::Display| file.damaged(at, format!("the footer: {error}"));
        let footer = arrow_ipc::root_as_footer_with_opts(&limits(bytes.len()), &bytes);
        let footer = footer.map_err(|error| invalid(&shortened(error)))?;
        let schema = footer.schema().ok_or_else(|| invalid(&"it has no schema"))?;
        let schema = checked_schema(schema).and_then(read).map_err(|error| invalid(&error))?;
        let blocks = blocks(&footer).map_err(|error| invalid(&error))?;
        Ok((Messages { reader, blocks: Some(blocks), pending: 0, left: end }, schema))
    }

    /// Returns the metadata of the next message. The last message's body is skipped unless it was
    /// read.
    pub(super) fn next(&mut self) -> Result<Option<Metadata>, Error> {
        let pending = std::mem::take(&mut self.pending);
        match &mut self.blocks {
            None => self.reader.skip(pending, "the body of a message")?,
            Some(blocks) => {
                let Some(start) = blocks.pop_front() else { return Ok(None) };
                // Messages are usually behind one another, and those bytes are read already.
                match start.checked_sub(self.reader.offset()) {
                    Some(ahead) => self.reader.skip(ahead, "the bytes before a message")?,
                    None => self.reader.seek(start)?,
                }
            }
        }
        let start = self.reader.offset();
        let mut length = [0; 4];
        if !self.reader.fill(&mut length, "the length of a message")? {
            return Ok(None);
        }
        if length == CONTINUATION && !self.reader.fill(&mut length, "the length of a message")? {
            return Err(self.reader.file().truncated(start + 4, "a length", 4, start + 4));
        }
        let length = i32::from_le_bytes(length);
        if length == 0 {
            self.blocks = Some(VecDeque::new());
            return Ok(None);
        }
        let length = u64::try_from(length)
            .map_err(|_| self.reader.damaged(start, format!("a message of {length} bytes")))?;
        let bytes = self.reader.exactly(length, "the metadata of a message")?;
        let metadata = Metadata { bytes, start };
        let body = metadata.message().map(|message| message.bodyLength());
        let body = body.map_err(|error| self.reader.damaged(start, shortened(error)))?;
        self.pending = u64::try_from(body)
            .map_err(|_| self.reader.damaged(start, format!("a body of {body} bytes")))?;
        Ok(Some(metadata))
    }

    /// Reads the body of the last message.
    pub(super) fn body(&mut self) -> Result<Vec<u8>, Error> {
        let length = std::mem::take(&mut self.pending);
        // A footer may list a message many times.
        self.left = self.left.checked_sub(length).ok_or_else(|| {
            let message = "the messages have more bytes together than the file";
            self.reader.damaged(self.reader.offset(), message)
        })?;
        self.reader.exactly(length, "the body of a message")
    }
}

/// Refuses numbers in big-endian byte order.
fn checked_schema(schema: SchemaTable<'_>) -> Result<SchemaTable<'_>, String> {
    match schema.endianness() {
        Endianness::Little => Ok(schema),
        _ => Err("the numbers are big-endian, which is not supported".to_owned()),
    }
}

/// Returns the starts of the messages that a footer lists: dictionaries, then record batches.
fn blocks(footer: &Footer<'_>) -> Result<VecDeque<u64>, String> {
    let lists = [footer.dictionaries(), footer.recordBatches()];
    let offsets = lists.into_iter().flatten().flatten().map(|block| block.offset());
    let checked = offsets.map(|offset| {
        u64::try_from(offset).map_err(|_| format!("a message begins at byte {offset}"))
    });
    checked.collect()
}

/// Returns an error as text, without the contents of the file that some errors quote at length.
pub(super) fn shortened(error: impl fmt::Display) -> String {
    let mut text = error.to_string();
    if let Some((end, _)) = text.char_indices().nth(300) {
        text.truncate(end);
        text.push('…');
    }
    text.replace('\n', " ")
}
