//! Reads zarr arrays chunk by chunk.

use super::chunk::{Codecs, MAX_RATIO, copy_chunk};
use super::keys::{Keys, Value};
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::source::zeroed;
use crate::tensor::ReadElements;
use std::sync::Arc;

/// Bytes of an array that may be zeros without any chunk: older versions of Orbax store no zeros.
const FREE_BYTES: u64 = 1 << 30;

/// An array in chunks of one shape.
pub(super) struct ZarrArray {
    pub(super) keys: Arc<Keys>,
    /// The start of the keys of chunks.
    pub(super) prefix: String,
    /// The key of the only chunk, for an array without axes.
    pub(super) scalar_key: Option<String>,
    pub(super) separator: char,
    pub(super) dtype: WeightDType,
    pub(super) shape: Vec<usize>,
    pub(super) chunk: Vec<usize>,
    pub(super) codecs: Codecs,
    pub(super) has_zero_fill: bool,
}

impl ReadElements for ZarrArray {
    fn read(&self) -> Result<Vec<u8>> {
        let size = self.dtype.byte_len(&self.shape).unwrap_or(u64::MAX);
        let chunks = self.chunks()?;
        let stored = chunks.iter().map(|(_, value)| value.size());
        let stored = stored.fold(0, u64::saturating_add).min(self.keys.total());
        if size > stored.saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES) {
            return Err(Error::new(format!(
                "{}{:?} in {} chunks of {stored} bytes: chunks are missing",
                self.dtype,
                self.shape,
                chunks.len()
            )));
        }
        let wanted = self.shape.iter().zip(&self.chunk).map(|(size, chunk)| size.div_ceil(*chunk));
        let wanted = wanted.fold(1usize, usize::saturating_mul);
        if chunks.len() < wanted && !self.has_zero_fill {
            let found = chunks.len();
            return Err(Error::new(format!(
                "{found} of {wanted} chunks are stored, and the others are not zeros"
            )));
        }
        let mut array: Option<Vec<u8>> = None;
        for (place, value) in chunks {
            let member = self.keys.member(value)?;
            let chunk = self
                .codecs
                .decode(member.read_all()?, self.dtype, &self.chunk)
                .map_err(|error| error.within(&format!("chunk {place:?}")))?;
            if self.chunk == self.shape {
                return Ok(chunk);
            }
            let target = match &mut array {
                Some(array) => array,
                None => array.insert(zeroed(size)?),
            };
            copy_chunk(target, &self.shape, &chunk, &self.chunk, &place, self.dtype);
        }
        array.map_or_else(|| zeroed(size), Ok)
    }
}

impl ZarrArray {
    /// Returns the stored chunks with their places in the grid.
    fn chunks(&self) -> Result<Vec<(Vec<usize>, &Value)>> {
        let mut chunks = Vec::new();
        if let Some(key) = &self.scalar_key {
            chunks.extend(self.keys.get(key).map(|value| (Vec::new(), value)));
            return Ok(chunks);
        }
        for (rest, value) in self.keys.with_prefix(&self.prefix) {
            // The metadata, and arrays whose name continues this one.
            let place: Option<Vec<usize>> =
                rest.split(self.separator).map(|index| index.parse().ok()).collect();
            let Some(place) = place.filter(|place| place.len() == self.shape.len()) else {
                continue;
            };
            let is_inside =
                place.iter().zip(&self.chunk).zip(&self.shape).all(|((&at, &chunk), &size)| {
                    at.checked_mul(chunk).is_some_and(|start| start < size)
                });
            if !is_inside {
                let rest = shortened(rest);
                return Err(Error::new(format!("the chunk `{rest}` is outside of the array")));
            }
            chunks.push((place, value));
        }
        Ok(chunks)
    }
}
