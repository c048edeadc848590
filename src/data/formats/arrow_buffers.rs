//! The buffers of an Arrow record batch: their bounds, and decompression by libraries in Rust.
//!
//! The crate `arrow-ipc` decompresses Zstandard with a library in C, and allocates the size that a
//! prefix of the buffer states. Here a compressed batch becomes one without compression before the
//! crate reads it. Memory grows with the bytes that a buffer really has.

use arrow_ipc::{
    Buffer as BufferRange, CompressionType, DictionaryBatch, DictionaryBatchArgs, FieldNode,
    MetadataVersion, RecordBatch, RecordBatchArgs,
};
use arrow_schema::{DataType, Field, UnionMode};
use flatbuffers::FlatBufferBuilder;
use std::io::Read;

/// The largest batch after decompression, unless [`MAX_RATIO`] allows more.
const MAX_BATCH: u64 = 1 << 30;
/// The ratio of decompressed to compressed bytes that larger batches may have.
const MAX_RATIO: u64 = 1100;
/// Arrays of 128-bit numbers need this alignment.
const ALIGNMENT: usize = 16;

/// A dictionary: its number, and whether it extends the last one of this number.
#[derive(Clone, Copy)]
pub(super) struct DictionaryId {
    pub(super) id: i64,
    pub(super) is_delta: bool,
}

/// A batch without compression: a flatbuffer of a `RecordBatch`, or of a `DictionaryBatch`, and
/// the body that it describes.
pub(super) struct Uncompressed {
    pub(super) metadata: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// Checks that the buffers of a batch are parts of its body and do not share bytes. Otherwise a few
/// bytes could be copied, or decompressed, many times.
pub(super) fn check_buffers(batch: RecordBatch<'_>, body: u64) -> Result<(), String> {
    let mut sum = 0u64;
    for (number, buffer) in batch.buffers().iter().flatten().enumerate() {
        let range = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
        let end = range.and_then(|(offset, length)| offset.checked_add(length));
        if end.is_none_or(|end| end > body) {
            let (offset, length) = (buffer.offset(), buffer.length());
            return Err(format!(
                "buffer {number} should have {length} bytes from byte {offset} of a body of {body}"
            ));
        }
        sum = sum.saturating_add(buffer.length() as u64);
    }
    if sum > body {
        return Err(format!("the buffers have {sum} bytes together, their body has {body}"));
    }
    Ok(())
}

/// Decompresses the buffers of the selected fields. Returns `None` if the batch is not compressed.
///
/// `fields` are all fields of the batch, and whether each is selected.
pub(super) fn uncompressed<'f>(
    batch: RecordBatch<'_>,
    dictionary: Option<DictionaryId>,
    body: &[u8],
    fields: impl Iterator<Item = (&'f Field, bool)>,
    version: MetadataVersion,
) -> Result<Option<Uncompressed>, String> {
    let Some(compression) = batch.compression() else { return Ok(None) };
    let codec = compression.codec();
    let mut buffers = batch.buffers().into_iter().flatten();
    let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
    let mut all = Vec::new();
    let mut ranges = Vec::new();
    let most = MAX_BATCH.max((body.len() as u64).saturating_mul(MAX_RATIO));
    for (field, selected) in fields {
        let count = buffers_of(field.data_type(), &mut variadic, version);
        for buffer in buffers.by_ref().take(count) {
            let start = all.len();
            if selected && buffer.length() > 0 {
                // `check_buffers` has compared the range with the body.
                let bytes = &body[buffer.offset() as usize..][..buffer.length() as usize];
                decompress(codec, bytes, &mut all, most)
                    .map_err(|error| format!("column `{}`: {error}", field.name()))?;
            }
            ranges.push(BufferRange::new(start as i64, (all.len() - start) as i64));
            all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
        }
    }
    Ok(Some(Uncompressed { metadata: metadata(batch, dictionary, &ranges), body: all }))
}

/// Writes the metadata of the batch again, with other buffers and no compression.
fn metadata(
    batch: RecordBatch<'_>,
    dictionary: Option<DictionaryId>,
    ranges: &[BufferRange],
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes: Vec<FieldNode> = batch.nodes().iter().flatten().copied().collect();
    let variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let nodes = builder.create_vector(&nodes);
    let buffers = builder.create_vector(ranges);
    let variadic = (!variadic.is_empty()).then(|| builder.create_vector(&variadic));
    let arguments = RecordBatchArgs {
        length: batch.length(),
        nodes: Some(nodes),
        buffers: Some(buffers),
        compression: None,
        variadicBufferCounts: variadic,
    };
    let batch = RecordBatch::create(&mut builder, &arguments);
    match dictionary {
        None => builder.finish_minimal(batch),
        Some(DictionaryId { id, is_delta }) => {
            let arguments = DictionaryBatchArgs { id, data: Some(batch), isDelta: is_delta };
            let batch = DictionaryBatch::create(&mut builder, &arguments);
            builder.finish_minimal(batch);
        }
    }
    builder.finished_data().to_vec()
}

/// Appends the bytes of a compressed buffer, which begins with their number.
fn decompress(
    codec: CompressionType,
    bytes: &[u8],
    output: &mut Vec<u8>,
    most: u64,
) -> Result<(), String> {
    let Some((length, mut input)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("a compressed buffer of {} bytes has no length", bytes.len()));
    };
    let length = i64::from_le_bytes(*length);
    if length == -1 {
        output.extend_from_slice(input);
        return Ok(());
    }
    let start = output.len();
    let left = most.saturating_sub(start as u64);
    let length = u64::try_from(length).ok().filter(|&length| length <= left).ok_or_else(|| {
        format!("a buffer should have {length} bytes, decompressed from {}", input.len())
    })?;
    let name = codec.variant_name().unwrap_or("unknown");
    let failed =
        |error: &dyn std::fmt::Display| format!("a {name} buffer cannot be decompressed: {error}");
    match codec {
        CompressionType::LZ4_FRAME => {
            let decoder = lz4_flex::frame::FrameDecoder::new(input);
            decoder.take(length + 1).read_to_end(output).map_err(|error| failed(&error))?;
        }
        CompressionType::ZSTD => {
            // A buffer may have several frames.
            while !input.is_empty() && (output.len() - start) as u64 <= length {
                let left = length + 1 - (output.len() - start) as u64;
                let decoder = ruzstd::decoding::StreamingDecoder::new(&mut input);
                let decoder = decoder.map_err(|error| failed(&error))?;
                decoder.take(left).read_to_end(output).map_err(|error| failed(&error))?;
            }
        }
        CompressionType(other) => {
            return Err(format!("codec {other} is not supported; LZ4_FRAME and ZSTD are"));
        }
    }
    let found = (output.len() - start) as u64;
    if found != length {
        return Err(failed(&format!("it has {found} bytes instead of {length}")));
    }
    Ok(())
}

/// Returns the number of buffers of a column.
///
/// # Reference
/// Arrow Columnar Format 1.5, "Buffer Listing for Each Layout".
fn buffers_of(
    data_type: &DataType,
    variadic: &mut impl Iterator<Item = i64>,
    version: MetadataVersion,
) -> usize {
    let mut of = |field: &Field| buffers_of(field.data_type(), variadic, version);
    match data_type {
        DataType::Null => 0,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        DataType::Utf8View | DataType::BinaryView => {
            let count = variadic.next().and_then(|count| usize::try_from(count).ok());
            count.unwrap_or(0).saturating_add(2)
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            of(field).saturating_add(2)
        }
        DataType::ListView(field) | DataType::LargeListView(field) => of(field).saturating_add(3),
        DataType::FixedSizeList(field, _) => of(field).saturating_add(1),
        DataType::Struct(fields) => {
            fields.iter().fold(1, |sum: usize, field| sum.saturating_add(of(field)))
        }
        DataType::RunEndEncoded(ends, values) => of(ends).saturating_add(of(values)),
        DataType::Union(fields, mode) => {
            let validity = usize::from(version < MetadataVersion::V5);
            let own = 1 + validity + usize::from(*mode == UnionMode::Dense);
            fields.iter().fold(own, |sum, (_, field)| sum.saturating_add(of(field)))
        }
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flatbuffers::root;

    fn batch(ranges: &[(i64, i64)]) -> Vec<u8> {
        let ranges: Vec<BufferRange> =
            ranges.iter().map(|&(offset, length)| BufferRange::new(offset, length)).collect();
        let mut builder = FlatBufferBuilder::new();
        let buffers = builder.create_vector(&ranges);
        let arguments = RecordBatchArgs { buffers: Some(buffers), ..RecordBatchArgs::default() };
        let batch = RecordBatch::create(&mut builder, &arguments);
        builder.finish_minimal(batch);
        builder.finished_data().to_vec()
    }

    #[test]
    fn buffers_are_distinct_parts_of_the_body() {
        let check = |ranges: &[(i64, i64)]| {
            check_buffers(root::<RecordBatch<'_>>(&batch(ranges)).unwrap(), 64)
        };
        assert_eq!(check(&[(0, 0), (0, 40), (40, 24)]), Ok(()));
        let expected = "buffer 1 should have 25 bytes from byte 40 of a body of 64";
        assert_eq!(check(&[(0, 40), (40, 25)]).unwrap_err(), expected);
        assert!(check(&[(-1, 8)]).is_err());
        assert!(check(&[(8, -8)]).is_err());
        assert!(check(&[(i64::MAX, i64::MAX)]).is_err());
        let expected = "the buffers have 120 bytes together, their body has 64";
        assert_eq!(check(&[(0, 40), (0, 40), (8, 40)]).unwrap_err(), expected);
    }

    #[test]
    fn stated_lengths_are_compared_with_the_bytes() {
        use std::io::Write as _;
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(&[7; 1000]).unwrap();
        let frame = encoder.finish().unwrap();
        let read = |codec, length: i64, frame: &[u8]| {
            let mut output = vec![1];
            let bytes = [&length.to_le_bytes()[..], frame].concat();
            decompress(codec, &bytes, &mut output, 1 << 20).map(|()| output.split_off(1))
        };
        let lz4 = CompressionType::LZ4_FRAME;
        assert_eq!(read(lz4, 1000, &frame).unwrap(), [7; 1000]);
        assert_eq!(read(lz4, -1, b"as it is").unwrap(), b"as it is");
        let error = read(lz4, 999, &frame).unwrap_err();
        assert!(error.ends_with("it has 1000 bytes instead of 999"), "{error}");
        assert!(read(lz4, 1001, &frame).unwrap_err().ends_with("1000 bytes instead of 1001"));
        assert!(
            read(lz4, 1 << 21, &frame).unwrap_err().starts_with("a buffer should have 2097152")
        );
        assert!(read(lz4, -2, &frame).is_err());
        assert!(read(CompressionType::ZSTD, 1000, &frame).is_err());
        let error = read(CompressionType(2), 1000, &frame).unwrap_err();
        assert_eq!(error, "codec 2 is not supported; LZ4_FRAME and ZSTD are");
    }
}
