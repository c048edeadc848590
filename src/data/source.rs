//! Sources with random access to their records.

use super::instruments::Meter;
use super::origin::{Item, Next, RecordOrigin, catch_errors};
use super::permutation::Permutation;
use super::position::{Cursor, Position, epoch_seed, mix_bits};
use super::stream::{Stage, Stream};
use crate::core::{Error, RuleError, throw_operands};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A source of records that any thread can read in any order: a file of rows, a folder of images,
/// data in memory.
///
/// [`Source::stream`] turns it into a [`Stream`]. Before that, [`Source::shuffled`] selects a
/// random permutation of all records and [`Source::shard`] the share of one process. Both are free:
/// no record is buffered.
///
/// ```
/// use oxidax::data::{Source, Synthetic};
/// let numbers = || Synthetic::new(1_000_000_000, |index| Ok(index)).shuffled(42);
/// let first: Vec<usize> = numbers().stream().take(3).collect::<Result<_, _>>()?;
/// let of_two: Vec<usize> = numbers().shard(0, 2).stream().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(of_two, [first[0], first[2]]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "DataLoader")]
#[doc(alias = "RandomAccessDataSource")]
#[doc(alias = "MapDataset")]
pub trait Source: Send + Sync + Sized + 'static {
    /// The type of a record.
    type Record: Send + 'static;

    /// Returns the number of records.
    fn len(&self) -> usize;

    /// Reads the record at `index`, which is below [`Source::len`].
    ///
    /// # Errors
    /// Any error of reading it.
    fn get(&self, index: usize) -> Result<Self::Record, Error>;

    /// Returns the record's location, for error messages.
    fn origin(&self, _index: usize) -> Option<RecordOrigin> {
        None
    }

    /// Returns true if there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the records in their own order, ready to be reordered.
    fn indexed(self) -> Indexed<Self::Record> {
        Indexed { len: self.len(), records: Arc::new(self), order: Vec::new() }
    }

    /// Returns the records in random order, different in each epoch. See [`Indexed::shuffled`].
    fn shuffled(self, seed: u64) -> Indexed<Self::Record> {
        self.indexed().shuffled(seed)
    }

    /// Returns one process's share of the records. See [`Indexed::shard`].
    #[track_caller]
    fn shard(self, index: usize, count: usize) -> Indexed<Self::Record> {
        self.indexed().shard(index, count)
    }

    /// Streams the records in order.
    #[track_caller]
    fn stream(self) -> Stream<Self::Record> {
        self.indexed().stream()
    }
}

/// A [`Source`] with a changed order: permuted, sharded or restricted. Clones share the records.
pub struct Indexed<T> {
    records: Arc<dyn Records<T>>,
    order: Vec<Reorder>,
    len: usize,
}

/// An object-safe view of a [`Source`].
trait Records<T>: Send + Sync {
    fn record(&self, index: usize) -> Result<T, Error>;
    fn origin(&self, index: usize) -> Option<RecordOrigin>;
}

impl<S: Source> Records<S::Record> for S {
    fn record(&self, index: usize) -> Result<S::Record, Error> {
        self.get(index)
    }
    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        Source::origin(self, index)
    }
}

/// Maps an index of one order to an index of the previous order.
#[derive(Clone, Copy)]
enum Reorder {
    Shuffle { seed: u64, len: usize },
    Shard { index: usize, count: usize },
    From { start: usize },
}

impl<T: Send + 'static> Indexed<T> {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shuffles the records. The order depends on the seed and the epoch's number, and all orders
    /// are possible.
    ///
    /// The permutation is computed index by index, without memory or setup time, by a Feistel
    /// network with cycle walking.
    ///
    /// # Reference
    /// J. Black, P. Rogaway: Ciphers with arbitrary finite domains, CT-RSA 2002, section 3.
    pub fn shuffled(mut self, seed: u64) -> Indexed<T> {
        self.order.push(Reorder::Shuffle { seed, len: self.len });
        self
    }

    /// Selects the records `index`, `index + count`, …: the share of process `index` of `count`.
    ///
    /// After [`Indexed::shuffled`] all processes share one order, and each sees other records in
    /// every epoch. The first `len % count` shares have one more record than the rest. If processes
    /// step together, drop the rest first with `range(0..len / count * count)`.
    ///
    /// Throws `Op` (value) unless `index < count`.
    ///
    /// ```
    /// use oxidax::data::{Source as _, Synthetic};
    /// use oxidax::distributed::{process_count, process_index};
    /// let records = Synthetic::new(60_000, |index| Ok(index)).shuffled(7);
    /// let per_process = records.len() / process_count();
    /// let records = records.range(0..per_process * process_count());
    /// let mine = records.shard(process_index(), process_count());
    /// assert_eq!(mine.len(), per_process);
    /// ```
    #[track_caller]
    pub fn shard(mut self, index: usize, count: usize) -> Indexed<T> {
        check_shard(index, count);
        self.order.push(Reorder::Shard { index, count });
        self.len = (self.len + count - 1 - index) / count;
        self
    }

    /// Selects a range of the order.
    ///
    /// Throws `Op` (value) if the range is out of bounds.
    #[track_caller]
    pub fn range(mut self, range: Range<usize>) -> Indexed<T> {
        if range.start > range.end || range.end > self.len {
            let message = format!("{range:?} is not a range of {} records", self.len);
            throw_operands("range", RuleError::value(message), &[]);
        }
        self.order.push(Reorder::From { start: range.start });
        self.len = range.len();
        self
    }

    /// Reads the record at a position of an epoch's order.
    ///
    /// # Errors
    /// Any error of reading it.
    ///
    /// # Panics
    /// If `position` is not below [`Indexed::len`].
    pub fn get(&self, place: usize, epoch: u64) -> Result<T, Error> {
        self.records.record(self.index_of(place, epoch))
    }

    /// Streams the records in order.
    #[track_caller]
    pub fn stream(self) -> Stream<T> {
        Stream::source("index", |meter| InOrder { records: self, epoch: 0, next: 0, meter })
    }

    /// Returns a number that differs for other seeds, shards and ranges. 0 is the source's order.
    fn order_hash(&self) -> u64 {
        let hash = self.order.iter().fold(0, |hash, step| {
            let (kind, a, b) = match *step {
                Reorder::Shuffle { seed, len } => (1, seed, len),
                Reorder::Shard { index, count } => (2, index as u64, count),
                Reorder::From { start } => (3, start as u64, 0),
            };
            [kind, a, b as u64].into_iter().fold(hash, |hash, n| mix_bits(hash ^ mix_bits(n)))
        });
        hash >> 32
    }

    fn index_of(&self, place: usize, epoch: u64) -> usize {
        assert!(place < self.len, "place {place} of {} records", self.len);
        self.order.iter().rev().fold(place, |place, step| match *step {
            Reorder::Shuffle { seed, len } => {
                Permutation::new(len as u64, epoch_seed(seed, epoch)).get(place as u64) as usize
            }
            Reorder::Shard { index, count } => place * count + index,
            Reorder::From { start } => place + start,
        })
    }
}

/// Throws unless `index < count`.
#[track_caller]
pub(super) fn check_shard(index: usize, count: usize) {
    if index >= count {
        let message = format!("there is no shard {index} of {count}; shards count from 0");
        throw_operands("shard", RuleError::value(message), &[]);
    }
}

impl<T> Clone for Indexed<T> {
    fn clone(&self) -> Indexed<T> {
        Indexed { records: self.records.clone(), order: self.order.clone(), len: self.len }
    }
}

impl<T> fmt::Debug for Indexed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Indexed<{}>({} records)", std::any::type_name::<T>(), self.len)
    }
}

/// Reads the records of an order one by one.
struct InOrder<T> {
    records: Indexed<T>,
    epoch: u64,
    next: u64,
    meter: Arc<Meter>,
}

impl<T> InOrder<T> {
    const NAME: &'static str = "index";
}

impl<T: Send + 'static> Stage<T> for InOrder<T> {
    fn next(&mut self) -> Next<T> {
        if self.next >= self.records.len as u64 {
            return None;
        }
        let index = self.records.index_of(self.next as usize, self.epoch);
        self.next += 1;
        let records = &self.records.records;
        let origin = records.origin(index);
        let value =
            self.meter.time(|| catch_errors("source", origin.as_ref(), || records.record(index)));
        Some(value.map(|value| Item { value, origin }))
    }

    fn position(&self, position: &mut Position) {
        let order = self.records.order_hash();
        position.push(Self::NAME, &[self.records.len as u64, order, self.epoch, self.next]);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let len = self.records.len as u64;
        let order = ("order (a hash of seeds, shards and ranges)", self.records.order_hash());
        let settings = [("number of records", len), order];
        [self.epoch, self.next] = cursor.take(Self::NAME, &settings)?;
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        (self.epoch, self.next) = (epoch, 0);
        Ok(())
    }
}

/// A source whose records are computed from their index. Use it in tests, and to measure a program
/// without the time for reading.
///
/// ```
/// use oxidax::data::{HostArray, Source, Synthetic};
/// let images = Synthetic::new(60_000, |_| HostArray::from_slice(&[0.5f32; 784], [784]));
/// assert_eq!(images.get(7)?.shape().dims(), [784]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct Synthetic<F> {
    len: usize,
    make: F,
}

impl<F> Synthetic<F> {
    /// Creates `len` records with a function of their index.
    pub fn new<T>(len: usize, make: F) -> Synthetic<F>
    where
        F: Fn(usize) -> Result<T, Error> + Send + Sync + 'static,
    {
        Synthetic { len, make }
    }
}

impl<T: Send + 'static, F> Source for Synthetic<F>
where
    F: Fn(usize) -> Result<T, Error> + Send + Sync + 'static,
{
    type Record = T;
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, index: usize) -> Result<T, Error> {
        (self.make)(index)
    }
}

impl<F> fmt::Debug for Synthetic<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Synthetic({} records)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize) -> Indexed<usize> {
        Synthetic::new(len, Ok).indexed()
    }

    fn read(records: Indexed<usize>) -> Vec<usize> {
        records.stream().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn orders_compose() {
        let shuffled = read(numbers(11).shuffled(3));
        assert_eq!(
            read(numbers(11).shuffled(3).range(2..9).shard(1, 3)),
            [shuffled[3], shuffled[6]]
        );
        assert_eq!(read(numbers(11).shard(10, 11)), [10]);
        assert!(read(numbers(2).shard(4, 5)).is_empty());
        for count in 1..14 {
            let lens = (0..count).map(|index| numbers(11).shard(index, count).len());
            assert_eq!(lens.sum::<usize>(), 11);
        }
    }

    #[test]
    fn epochs_have_different_orders() {
        let twice: Vec<usize> =
            numbers(50).shuffled(1).stream().repeat(2).collect::<Result<_, _>>().unwrap();
        assert_ne!(twice[..50], twice[50..]);
        for epoch in twice.chunks(50) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn invalid_shards_and_ranges_are_refused() {
        let refused = |f: &dyn Fn() -> Indexed<usize>| crate::catch(f).unwrap_err().to_string();
        let error = refused(&|| numbers(5).shard(2, 2));
        assert!(error.starts_with("error[value]: shard: there is no shard 2 of 2"), "{error}");
        let error = refused(&|| numbers(5).range(2..6));
        assert!(error.starts_with("error[value]: range: 2..6 is not a range of 5"), "{error}");
    }
}
