//! Arrays stored as separate shards.

use super::fault::{Read, abridged};
use super::file::shape_of_slice;
use super::header::Entry;
use crate::core::{DType, Shape};
use std::ops::Range;

/// Reads a slice of the shard of this name.
type ReadSlice<'a> = dyn Fn(&str, &[Range<usize>]) -> Read<Vec<u8>> + 'a;

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
    /// Returns the number of elements, or `None` if it exceeds a `usize`.
    fn size(&self) -> Option<usize> {
        self.index.iter().try_fold(1usize, |size, range| size.checked_mul(range.len()))
    }

    /// Returns the indices that both have, or `None` if there are none.
    fn intersection(&self, slice: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        let axes = self.index.iter().zip(slice);
        let common = axes.map(|(a, b)| a.start.max(b.start)..a.end.min(b.end));
        let common: Vec<Range<usize>> = common.collect();
        common.iter().all(|range| range.start < range.end).then_some(common)
    }
}

/// Returns two shards that overlap.
fn overlapping(shards: &[StoredShard]) -> Option<(&StoredShard, &StoredShard)> {
    // Only shards whose ranges along the first axis overlap are compared.
    let first = |shard: &StoredShard| shard.index.first().cloned().unwrap_or(0..1);
    let mut sorted: Vec<&StoredShard> = shards.iter().collect();
    sorted.sort_by_key(|shard| first(shard).start);
    let mut active: Vec<&StoredShard> = Vec::new();
    for shard in sorted {
        active.retain(|other| first(other).end > first(shard).start);
        if let Some(other) = active.iter().find(|other| other.intersection(&shard.index).is_some())
        {
            return Some((other, shard));
        }
        active.push(shard);
    }
    None
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
            shards.push(StoredShard { name: name.to_owned(), index });
        }
        if let Some((one, other)) = overlapping(&shards) {
            let [a, b] = [abridged(&one.name), abridged(&other.name)];
            return Err(format!("`{a}` and `{b}` overlap"));
        }
        // Shards inside the array that do not overlap cover it if they have as many elements.
        let mut sizes = shards.iter().map(StoredShard::size);
        let covered = sizes.try_fold(0usize, |sum, size| sum.checked_add(size?));
        let size = shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        if covered.is_none() || covered != size {
            let count = |count: Option<usize>| count.map_or("too many".into(), |n| n.to_string());
            let (covered, size) = (count(covered), count(size));
            return Err(format!("they have {covered} elements, {dtype}{shape:?} has {size}"));
        }
        let bytes = stored.iter().fold(0u64, |sum, (_, entry, _)| sum.saturating_add(entry.bytes));
        let entry = Entry { shape: Shape::new(shape), bytes, ..first.clone() };
        Ok(JoinedShards { entry, dtype, shards })
    }

    /// Returns the stored names of the shards.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|shard| shard.name.as_str())
    }

    /// Reads a slice of the array: with `read` the slices of those shards that hold a part of it.
    pub(super) fn read_slice(&self, slice: &[Range<usize>], read: &ReadSlice<'_>) -> Read<Vec<u8>> {
        let width = self.dtype.host_bytes();
        let shape = shape_of_slice(slice);
        let within = |range: &Range<usize>, outer: &Range<usize>| {
            range.start - outer.start..range.end - outer.start
        };
        let mut joined = vec![0; shape.size() * width];
        for shard in &self.shards {
            let Some(common) = shard.intersection(slice) else { continue };
            let relative_to = |outer: &[Range<usize>]| -> Vec<Range<usize>> {
                common.iter().zip(outer).map(|(range, outer)| within(range, outer)).collect()
            };
            let bytes = read(&shard.name, &relative_to(&shard.index))?;
            shape.write_slice(&relative_to(slice), width, &bytes, &mut joined);
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
        let read =
            good.unwrap_or_else(|why| panic!("{why}")).read_slice(&[0..4, 0..4], &|name, slice| {
                let n = slice[0].len() * slice[1].len();
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
