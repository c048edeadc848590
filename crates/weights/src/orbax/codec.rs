//! Decompression with bounds.

use crate::error::{Error, Result};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::Read;

/// Smallest bound of a window. Encoders choose windows of this size for short inputs too.
const WINDOW: u64 = 8 << 20;

/// Decompresses frames of Zstandard to at most `most` bytes.
pub(super) fn unzstd(mut bytes: &[u8], most: u64) -> Result<Vec<u8>> {
    let failed = |error: &dyn std::fmt::Display| Error::new(format!("zstd: {error}"));
    let mut output = Vec::new();
    while !bytes.is_empty() {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(most.max(WINDOW));
        let frame = StreamingDecoder::new_with_decoder(&mut bytes, decoder);
        let frame = frame.map_err(|error| failed(&error))?;
        read_to(frame, &mut output, most).map_err(|error| failed(&error))?;
    }
    Ok(output)
}

/// Decompresses a stream of zlib or gzip to at most `most` bytes.
pub(super) fn inflate(bytes: &[u8], is_gzip: bool, most: u64) -> Result<Vec<u8>> {
    let mut output = Vec::new();
    let read = match is_gzip {
        true => read_to(flate2::read::MultiGzDecoder::new(bytes), &mut output, most),
        false => read_to(flate2::read::ZlibDecoder::new(bytes), &mut output, most),
    };
    read.map_err(|error| Error::new(format!("deflate: {error}")))?;
    Ok(output)
}

/// Appends everything, and refuses more than `most` bytes in all.
fn read_to(input: impl Read, output: &mut Vec<u8>, most: u64) -> Result<(), String> {
    let left = most.saturating_sub(output.len() as u64);
    let read = input.take(left.saturating_add(1)).read_to_end(output);
    read.map_err(|error| error.to_string())?;
    match output.len() as u64 <= most {
        true => Ok(()),
        false => Err(format!("it has more than the {most} bytes that are expected")),
    }
}
