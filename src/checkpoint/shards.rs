//! Arrays stored as separate shards.

use super::fault::{Read, abridged};
use super::header::Entry;
use crate::core::{DType, Shape};
use std::ops::Range;

/// The stored shards of an array, checked to cover it exactly.
pub(super) struct JoinedShards {
    /// The type of the joined array.
    pub(super) entry: Entry,
    dtype: DType,
    shards: Vec<StoredShard>,
}

struct StoredShard {
    name: String,
    index: Vec<Range<usize>>,
}

impl StoredShard {
    fn size(&self) -> usize {
        self.index.iter().map(Range::len).product()
    }

    fn overlaps(&self, other: &StoredShard) -> bool {
        let mut axes = self.index.iter().zip(&other.index);
        axes.all(|(a, b)| a.start < b.end && b.start < a.end)
    }
}

impl JoinedShards {
    /// Joins shards, each with its name, entry and start along each axis.
    ///
    /// # Errors
    /// An explanation why the shards do not form an array of this shape.
    pub(super) fn new(
        shape: &[usize],
        stored: &[(&str, &Entry, &[usize])],
    ) -> Result<JoinedShards, String> {
        let Some(&(_, first, _)) = stored.first() else { return Err("there are none".into()) };
        let Some(dtype) = first.dtype else {
            return Err(format!("`{first}` has a dtype that oxidax does not have"));
        };
        let mut shards: Vec<StoredShard> = Vec::new();
        for &(name, entry, start) in stored {
            let index =
                if entry.dtype == first.dtype { index_of(shape, entry, start) } else { None };
            let Some(index) = index else {
                let name = abridged(name);
                return Err(format!(
                    "`{name}`, {entry} at {start:?}, is not a part of {dtype}{shape:?}"
                ));
            };
            let shard = StoredShard { name: name.to_owned(), index };
            if let Some(other) = shards.iter().find(|other| shard.overlaps(other)) {
                let [a, b] = [abridged(&other.name), abridged(name)];
                return Err(format!("`{a}` and `{b}` overlap"));
            }
            shards.push(shard);
        }
        // Shards inside the array that do not overlap cover it if they have as many elements.
        let covered: usize = shards.iter().map(StoredShard::size).sum();
        let size: usize = shape.iter().product();
        if covered != size {
            return Err(format!("they have {covered} elements, {dtype}{shape:?} has {size}"));
        }
        let bytes = stored.iter().map(|(_, entry, _)| entry.bytes).sum();
        let entry = Entry { shape: Shape::new(shape), bytes, ..first.clone() };
        Ok(JoinedShards { entry, dtype, shards })
    }

    /// Returns the stored names of the shards.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|shard| shard.name.as_str())
    }

    /// Reads every shard with `read` and joins their elements.
    pub(super) fn read(&self, read: &dyn Fn(&str) -> Read<Vec<u8>>) -> Read<Vec<u8>> {
        let width = self.dtype.host_bytes();
        let shape = &self.entry.shape;
        let mut joined = vec![0; shape.size() * width];
        for shard in &self.shards {
            shape.write_slice(&shard.index, width, &read(&shard.name)?, &mut joined);
        }
        Ok(joined)
    }
}

/// Returns the range of a shard along each axis, or `None` if it is not inside an array of this
/// shape.
fn index_of(shape: &[usize], entry: &Entry, start: &[usize]) -> Option<Vec<Range<usize>>> {
    if entry.shape.rank() != shape.len() || start.len() != shape.len() {
        return None;
    }
    let mut index = Vec::with_capacity(shape.len());
    for ((&start, &size), &whole) in start.iter().zip(entry.shape.iter()).zip(shape) {
        let end = start.checked_add(size).filter(|&end| end <= whole)?;
        index.push(start..end);
    }
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::Dtype;

    fn entry(shape: &[usize]) -> Entry {
        let bytes = 4 * shape.iter().product::<usize>() as u64;
        let shape = Shape::new(shape);
        Entry { file: Dtype::F32, dtype: Some(DType::F32), shape, start: 0, bytes }
    }

    #[test]
    fn shards_must_cover_the_array_exactly() {
        let (half, quarter) = (entry(&[2, 4]), entry(&[2, 2]));
        let joined = |shards: &[(&str, &Entry, &[usize])]| JoinedShards::new(&[4, 4], shards);
        let good =
            joined(&[("a", &half, &[0, 0]), ("b", &quarter, &[2, 0]), ("c", &quarter, &[2, 2])]);
        let read = good.unwrap_or_else(|why| panic!("{why}")).read(&|name| {
            let n = if name == "a" { 8 } else { 4 };
            Ok([name.as_bytes()[0]; 4].repeat(n))
        });
        let read = read.unwrap_or_else(|fault| panic!("{}", fault.error));
        let letters: String = read.chunks(4).map(|x| x[0] as char).collect();
        assert_eq!(letters, "aaaaaaaabbccbbcc");
        let error = |shards: &[(&str, &Entry, &[usize])]| joined(shards).err().unwrap_or_default();
        assert!(error(&[("a", &half, &[0, 0])]).contains("8 elements"));
        assert!(error(&[("a", &half, &[0, 0]), ("b", &half, &[1, 0])]).contains("overlap"));
        assert!(error(&[("a", &half, &[3, 0])]).contains("not a part"));
        assert!(error(&[("a", &half, &[usize::MAX, 0])]).contains("not a part"));
        assert!(error(&[]).contains("there are none"));
    }
}
