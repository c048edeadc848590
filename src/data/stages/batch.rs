//! Batches of a fixed number of examples.

use crate::core::{Error, RuleError, throw_operands};
use crate::data::collate::{BatchPadding, Collate, CollatePadded};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, catch_errors};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

/// Handling of the examples at the end that do not fill a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "drop_remainder")]
pub enum Remainder {
    /// Drops them. Every batch has the same shape, so a program compiles once.
    #[default]
    Drop,
    /// Returns them as a smaller batch.
    Keep,
}

/// Options of [`Stream::batch_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchOptions {
    /// Handling of an incomplete last batch.
    pub remainder: Remainder,
}

impl<T: Collate + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Assembles batches of exactly `size` examples. An incomplete last batch is dropped, so every
    /// batch has the same shape.
    ///
    /// An error replaces the batch in which it occurs, and that batch's examples are lost. To lose
    /// only the bad record, call [`Stream::on_error`] first.
    ///
    /// Throws `Op` (value) if `size` is 0.
    ///
    /// ```
    /// use oxidax::data::{HostArray, Stream};
    /// let rows = Stream::new((0..5).map(|n| HostArray::from_slice(&[n, n], [2])));
    /// let batches: Vec<HostArray> = rows.batch(2).collect::<Result<_, _>>()?;
    /// assert_eq!(batches.len(), 2);
    /// assert_eq!(batches[1].shape().dims(), [2, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "Batcher")]
    #[track_caller]
    pub fn batch(self, size: usize) -> Stream<T::Batch> {
        self.batch_with(size, BatchOptions::default())
    }

    /// Assembles batches of `size` examples with options. See [`Stream::batch`].
    ///
    /// Throws `Op` (value) if `size` is 0.
    #[track_caller]
    pub fn batch_with(self, size: usize, options: BatchOptions) -> Stream<T::Batch> {
        check_size("batch", size);
        batches(self, size, options.remainder, T::collate)
    }
}

impl<T: CollatePadded + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Assembles batches of examples with different lengths, padded to the longest of each batch.
    ///
    /// [`BatchPadding`] sets the value, the length and the handling of the remainder. Every new
    /// shape compiles again: set a length, or a multiple to round up to.
    ///
    /// Throws `Op` (value) if `size` is 0.
    ///
    /// ```
    /// use oxidax::data::{HostArray, BatchPadding, Stream};
    /// let texts = [vec![1, 2, 3], vec![4]].map(|ids| HostArray::from_slice(&ids, [ids.len()]));
    /// let mut batches = Stream::new(texts).pad_batch(2, BatchPadding::with(0.0).multiple_of(4));
    /// let batch = batches.next().unwrap()?;
    /// assert_eq!(batch.shape().dims(), [2, 4]);
    /// assert_eq!(batch.to_vec::<i32>()?, [1, 2, 3, 0, 4, 0, 0, 0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "padded_batch")]
    #[track_caller]
    pub fn pad_batch(self, size: usize, padding: BatchPadding) -> Stream<T::Batch> {
        check_size("pad_batch", size);
        let remainder = padding.remainder;
        batches(self, size, remainder, move |examples| T::pad(examples, &padding))
    }
}

#[track_caller]
pub(super) fn check_size(name: &str, size: usize) {
    if size == 0 {
        let error = RuleError::value("a batch needs at least 1 example, got a size of 0");
        throw_operands(name, error, &[]);
    }
}

#[track_caller]
fn batches<T: Send + 'static, U: Send + 'static>(
    stream: Stream<T>,
    size: usize,
    remainder: Remainder,
    collate: impl Fn(Vec<T>) -> Result<U, Error> + Send + 'static,
) -> Stream<U> {
    stream.through(|upstream, instruments| {
        let meter = instruments.stage("batch", Work::Batch, 1);
        Batches { upstream, size, remainder, collate, meter, ended: false }
    })
}

struct Batches<T, F> {
    upstream: BoxedStage<T>,
    size: usize,
    remainder: Remainder,
    collate: F,
    meter: Arc<Meter>,
    ended: bool,
}

/// Assembles items into a batch, which keeps the origin of the first.
pub(super) fn collated<T, U>(
    items: Vec<Item<T>>,
    meter: &Meter,
    collate: impl Fn(Vec<T>) -> Result<U, Error>,
) -> Result<Item<U>, Error> {
    let origin = items.first().and_then(|item| item.origin.clone());
    let examples: Vec<T> = items.into_iter().map(|item| item.value).collect();
    let value = meter.time(|| catch_errors("batch", origin.as_ref(), || collate(examples)))?;
    Ok(Item { value, origin })
}

impl<T: Send, U, F: Fn(Vec<T>) -> Result<U, Error> + Send> Stage<U> for Batches<T, F> {
    fn next(&mut self) -> Next<U> {
        if self.ended {
            return None;
        }
        let upstream = std::iter::from_fn(|| self.upstream.next());
        let items: Result<Vec<Item<T>>, Error> = upstream.take(self.size).collect();
        let items = match items {
            Ok(items) => items,
            Err(error) => return Some(Err(error)),
        };
        self.ended = items.len() < self.size;
        let yielded = match self.remainder {
            Remainder::Drop => !self.ended,
            Remainder::Keep => !items.is_empty(),
        };
        yielded.then(|| collated(items, &self.meter, &self.collate))
    }

    fn position(&self, position: &mut Position) {
        position.push("batch", &[self.size as u64, self.ended.into()]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [ended] = cursor.take("batch", &[("size", self.size as u64)])?;
        self.ended = ended != 0;
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.ended = false;
        self.upstream.restart(epoch)
    }
}
