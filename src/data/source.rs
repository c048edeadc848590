//! Sources whose records can be read in any order.

use super::instruments::Meter;
use super::origin::{Item, Next, Origin, guarded};
use super::permutation::Permutation;
use super::position::{Cursor, Position, epoch_seed};
use super::stream::{Stage, Stream};
use crate::core::{Error, RuleError, throw_operands};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Records that can be read in any order, by any thread: a file of rows, a folder of images, what is in
/// memory.
///
/// It becomes a [`Stream`] by [`Source::stream`]; before that its order can be chosen, at no cost and
/// without holding a record: [`Source::shuffled`] is a random permutation of all of them, and
/// [`Source::shard`] one process's share.
///
/// ```
/// use oxidax::data::{Source, Synthetic};
/// let numbers = || Synthetic::new(1_000_000_000, |index| Ok(index)).shuffled(42);
/// let first: Vec<usize> = numbers().stream().take(3).collect::<Result<_, _>>()?;
/// let of_two: Vec<usize> = numbers().shard(0, 2).stream().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(of_two, [first[0], first[2]]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "RandomAccessDataSource")]
#[doc(alias = "MapDataset")]
pub trait Source: Send + Sync + Sized + 'static {
    /// What is read.
    type Record: Send + 'static;

    /// Number of records.
    fn len(&self) -> usize;

    /// The record at an index below [`Source::len`].
    ///
    /// # Errors
    /// Whatever reading it meets.
    fn get(&self, index: usize) -> Result<Self::Record, Error>;

    /// Where the record stands, for error messages.
    fn origin(&self, _index: usize) -> Option<Origin> {
        None
    }

    /// Whether there is no record.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records as they are, their order to be chosen.
    fn indexed(self) -> Indexed<Self::Record> {
        Indexed { len: self.len(), records: Arc::new(self), order: Vec::new() }
    }

    /// The records in random order, another one each epoch. See [`Indexed::shuffled`].
    fn shuffled(self, seed: u64) -> Indexed<Self::Record> {
        self.indexed().shuffled(seed)
    }

    /// One process's share of the records. See [`Indexed::shard`].
    #[track_caller]
    fn shard(self, index: usize, count: usize) -> Indexed<Self::Record> {
        self.indexed().shard(index, count)
    }

    /// The records one after the other.
    fn stream(self) -> Stream<Self::Record> {
        self.indexed().stream()
    }
}

/// A [`Source`] in an order of its own: permuted, or a part of it. Cloning shares the records.
pub struct Indexed<T> {
    records: Arc<dyn Records<T>>,
    order: Vec<Reorder>,
    len: usize,
}

/// What a [`Source`] is when its type is forgotten.
trait Records<T>: Send + Sync {
    fn record(&self, index: usize) -> Result<T, Error>;
    fn origin(&self, index: usize) -> Option<Origin>;
}

impl<S: Source> Records<S::Record> for S {
    fn record(&self, index: usize) -> Result<S::Record, Error> {
        self.get(index)
    }
    fn origin(&self, index: usize) -> Option<Origin> {
        Source::origin(self, index)
    }
}

/// How the index of one order is that of the order before.
#[derive(Clone, Copy)]
enum Reorder {
    Shuffle { seed: u64, len: usize },
    Shard { index: usize, count: usize },
    From { start: usize },
}

impl<T: Send + 'static> Indexed<T> {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The records in an order that is one of all possible ones, chosen by the seed and the number of the
    /// epoch.
    ///
    /// The permutation is computed index by index, so it takes no memory and no time up front: a Feistel
    /// network with cycle walking.
    ///
    /// # Reference
    /// J. Black, P. Rogaway: Ciphers with arbitrary finite domains, CT-RSA 2002, section 3.
    pub fn shuffled(mut self, seed: u64) -> Indexed<T> {
        self.order.push(Reorder::Shuffle { seed, len: self.len });
        self
    }

    /// The records `index`, `index + count`, …: the share of process `index` of `count`.
    ///
    /// After [`Indexed::shuffled`] all processes divide one order among them, and each sees other records
    /// every epoch. The first `len % count` shares have one record more than the rest; processes that step
    /// together want equal ones, so cut the rest off before by `range(0..len / count * count)`.
    ///
    /// Throws `Op` (value) unless `index < count`.
    ///
    /// ```
    /// use oxidax::data::{Source as _, Synthetic};
    /// use oxidax::distributed::{process_count, process_index};
    /// let records = Synthetic::new(60_000, |index| Ok(index)).shuffled(7);
    /// let per_process = records.len() / process_count();
    /// let mine = records.range(0..per_process * process_count()).shard(process_index(), process_count());
    /// assert_eq!(mine.len(), per_process);
    /// ```
    #[track_caller]
    pub fn shard(mut self, index: usize, count: usize) -> Indexed<T> {
        check_shard(index, count);
        self.order.push(Reorder::Shard { index, count });
        self.len = (self.len + count - 1 - index) / count;
        self
    }

    /// The records at these places of the order.
    ///
    /// Throws `Op` (value) if the range does not lie within it.
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

    /// The record that stands at `place` in the order of an epoch.
    ///
    /// # Errors
    /// Whatever reading it meets.
    ///
    /// # Panics
    /// If `place` is not below [`Indexed::len`].
    pub fn get(&self, place: usize, epoch: u64) -> Result<T, Error> {
        self.records.record(self.index_of(place, epoch))
    }

    /// The records one after the other.
    pub fn stream(self) -> Stream<T> {
        Stream::source("index", |meter| InOrder { records: self, epoch: 0, next: 0, meter })
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

/// Refuses a share that is none.
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
            self.meter.time(|| guarded("source", origin.as_ref(), || records.record(index)));
        Some(value.map(|value| Item { value, origin }))
    }

    fn position(&self, at: &mut Position) {
        at.push(Self::NAME, &[self.records.len as u64, self.epoch, self.next]);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let len = self.records.len as u64;
        [self.epoch, self.next] = at.take(Self::NAME, &[("number of records", len)])?;
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        (self.epoch, self.next) = (epoch, 0);
        Ok(())
    }
}

/// Records that are computed from their index: for tests, and to see how fast a program would run if reading
/// took no time.
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
    /// `len` records, made by a function of their index.
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
    fn every_epoch_has_its_order() {
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
    fn what_is_no_part_is_refused() {
        let refused = |f: &dyn Fn() -> Indexed<usize>| crate::catch(f).unwrap_err().to_string();
        let error = refused(&|| numbers(5).shard(2, 2));
        assert!(error.starts_with("error[value]: shard: there is no shard 2 of 2"), "{error}");
        let error = refused(&|| numbers(5).range(2..6));
        assert!(error.starts_with("error[value]: range: 2..6 is not a range of 5"), "{error}");
    }
}
