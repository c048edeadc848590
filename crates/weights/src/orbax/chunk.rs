//! Chunks of zarr arrays: codecs, and shards that hold smaller chunks.

use super::codec::{inflate, unzstd};
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::source::zeroed;
use crate::strided::gather;
use crate::tensor::{ByteOrder, to_little_endian};

/// The codecs of a chunk, in the order of encoding.
pub(super) struct Codecs {
    /// Axis `i` of the stored elements is axis `order[i]` of the chunk.
    pub(super) order: Option<Vec<usize>>,
    pub(super) layout: Layout,
    pub(super) compression: Vec<Compression>,
}

/// The arrangement of a chunk's elements.
pub(super) enum Layout {
    Elements(ByteOrder),
    Shards(Box<Shards>),
}

/// Chunks inside a chunk, with an index of their places.
pub(super) struct Shards {
    pub(super) chunk: Vec<usize>,
    pub(super) codecs: Codecs,
    pub(super) index_order: ByteOrder,
    pub(super) index_has_checksum: bool,
    pub(super) index_is_first: bool,
}

/// A codec from bytes to bytes.
pub(super) enum Compression {
    Zstd,
    Gzip,
    Zlib,
    Crc32c,
}

/// Zstandard's largest compression ratio: blocks of 128 KiB in 4 bytes.
pub(super) const MAX_RATIO: u64 = 32768;

/// Size of checksums.
const CHECKSUM: usize = 4;

impl Codecs {
    /// Returns the elements of a chunk in row-major order.
    pub(super) fn decode(
        &self,
        mut bytes: Vec<u8>,
        dtype: WeightDType,
        shape: &[usize],
    ) -> Result<Vec<u8>> {
        let expected = dtype.byte_len(shape);
        let expected = expected.ok_or_else(|| Error::new("a chunk has too many elements"))?;
        // Shards have an index and may leave chunks out.
        let most = match self.layout {
            Layout::Elements(_) => expected,
            Layout::Shards(_) => expected.saturating_mul(2).saturating_add(1 << 20),
        };
        for (index, codec) in self.compression.iter().enumerate().rev() {
            // Checksums in front of this codec add to the size.
            let most = most + (CHECKSUM * index) as u64;
            bytes = match codec {
                Compression::Zstd => unzstd(&bytes, most)?,
                Compression::Gzip => inflate(&bytes, true, most)?,
                Compression::Zlib => inflate(&bytes, false, most)?,
                Compression::Crc32c => verified(bytes)?,
            };
        }
        let stored: Vec<usize> = match &self.order {
            Some(order) => order.iter().map(|&axis| shape[axis]).collect(),
            None => shape.to_vec(),
        };
        let bytes = match &self.layout {
            Layout::Elements(order) => {
                if bytes.len() as u64 != expected {
                    let found = bytes.len();
                    return Err(Error::new(format!("{found} bytes, expected {expected}")));
                }
                to_little_endian(&mut bytes, *order, dtype.swap_width());
                bytes
            }
            Layout::Shards(shards) => shards.decode(&bytes, dtype, &stored, expected)?,
        };
        let Some(order) = &self.order else { return Ok(bytes) };
        if expected == 0 {
            return Ok(bytes);
        }
        // The stride of each axis of the chunk in the stored elements.
        let mut strides = vec![1u64; shape.len()];
        let mut step = 1;
        for (&axis, &size) in order.iter().zip(&stored).rev() {
            strides[axis] = step;
            step *= size as u64;
        }
        gather(bytes, shape, &strides, dtype.width().unwrap_or(1))
    }
}

/// Removes a checksum at the end.
fn verified(mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let Some(start) = bytes.len().checked_sub(CHECKSUM) else {
        return Err(Error::new("a chunk has no checksum"));
    };
    let checksum = bytes.split_off(start);
    match crc32c::crc32c(&bytes).to_le_bytes() == checksum[..] {
        true => Ok(bytes),
        false => Err(Error::new("a chunk's checksum does not fit: it is damaged")),
    }
}

impl Shards {
    fn decode(
        &self,
        bytes: &[u8],
        dtype: WeightDType,
        shape: &[usize],
        expected: u64,
    ) -> Result<Vec<u8>> {
        const ENTRY: usize = 16;
        let grid: Vec<usize> =
            shape.iter().zip(&self.chunk).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
        let count = grid.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let checksum = if self.index_has_checksum { CHECKSUM } else { 0 };
        let length = count.and_then(|count| count.checked_mul(ENTRY)?.checked_add(checksum));
        let length = length.filter(|&length| length <= bytes.len()).ok_or_else(|| {
            Error::new(format!("a shard of {} bytes has no index of {grid:?} chunks", bytes.len()))
        })?;
        let index = match self.index_is_first {
            true => &bytes[..length],
            false => &bytes[bytes.len() - length..],
        };
        let index = match self.index_has_checksum {
            true => verified(index.to_vec())?,
            false => index.to_vec(),
        };
        // Chunks of which none is stored are zeros, within the bound of stored ones.
        if expected > (bytes.len() as u64).saturating_mul(MAX_RATIO) {
            return Err(Error::new(format!("a shard of {} bytes for {expected}", bytes.len())));
        }
        let mut result = zeroed(expected)?;
        let number = |bytes: &[u8]| {
            let bytes: [u8; 8] = std::array::from_fn(|index| bytes[index]);
            match self.index_order {
                ByteOrder::Little => u64::from_le_bytes(bytes),
                ByteOrder::Big => u64::from_be_bytes(bytes),
            }
        };
        let mut place = vec![0; grid.len()];
        // Chunks do not overlap, so together they are not longer than the shard.
        let mut left = bytes.len();
        for entry in index.chunks_exact(ENTRY) {
            let (offset, size) = (number(&entry[..8]), number(&entry[8..]));
            if (offset, size) != (u64::MAX, u64::MAX) {
                let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
                let part = range
                    .and_then(|(offset, size)| bytes.get(offset..offset.checked_add(size)?))
                    .ok_or_else(|| {
                        let message = format!("{size} bytes from byte {offset} of a shard");
                        Error::new(message)
                    })?;
                left = left
                    .checked_sub(part.len())
                    .ok_or_else(|| Error::new("the chunks of a shard overlap"))?;
                let chunk = self.codecs.decode(part.to_vec(), dtype, &self.chunk)?;
                copy_chunk(&mut result, shape, &chunk, &self.chunk, &place, dtype);
            }
            for axis in (0..grid.len()).rev() {
                place[axis] += 1;
                if place[axis] < grid[axis] {
                    break;
                }
                place[axis] = 0;
            }
        }
        Ok(result)
    }
}

/// Copies a chunk at its place in the grid into an array. Elements beyond the array are padding.
pub(super) fn copy_chunk(
    array: &mut [u8],
    shape: &[usize],
    chunk: &[u8],
    chunk_shape: &[usize],
    place: &[usize],
    dtype: WeightDType,
) {
    let width = dtype.width().unwrap_or(1);
    let Some(last) = shape.len().checked_sub(1) else {
        array.copy_from_slice(chunk);
        return;
    };
    let starts: Vec<usize> = place.iter().zip(chunk_shape).map(|(at, size)| at * size).collect();
    let sizes: Vec<usize> = (0..shape.len())
        .map(|axis| chunk_shape[axis].min(shape[axis].saturating_sub(starts[axis])))
        .collect();
    if sizes.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        let (mut from, mut to) = (0, 0);
        for axis in 0..shape.len() {
            from = from * chunk_shape[axis] + index[axis];
            to = to * shape[axis] + starts[axis] + index[axis];
        }
        let row = sizes[last] * width;
        array[to * width..][..row].copy_from_slice(&chunk[from * width..][..row]);
        let mut axis = last;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < sizes[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}
