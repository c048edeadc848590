//! Batches.

use crate::core::{Error, RuleError, throw_operands};
use crate::data::collate::{Collate, Pad, Padding};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, guarded};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

/// What becomes of the examples at the end that do not fill a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "drop_remainder")]
pub enum Remainder {
    /// They are left out, so that every batch has one shape: a program is compiled once.
    Drop,
    /// They make a smaller batch.
    Keep,
}

impl<T: Collate + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Batches of exactly `size` examples; what is left at the end and does not fill one is dropped,
    /// so that every batch has one shape.
    ///
    /// An error is passed on in place of the batch that it interrupts, whose examples are lost. To lose the
    /// bad record alone, put [`Stream::on_error`] before.
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
    #[track_caller]
    pub fn batch(self, size: usize) -> Stream<T::Batch> {
        self.batch_with(size, Remainder::Drop)
    }

    /// Batches of `size` examples, and what becomes of the rest. See [`Stream::batch`].
    ///
    /// Throws `Op` (value) if `size` is 0.
    #[track_caller]
    pub fn batch_with(self, size: usize, remainder: Remainder) -> Stream<T::Batch> {
        check_size("batch", size);
        batches(self, size, remainder, T::collate)
    }
}

impl<T: Pad + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Batches of examples of different lengths, each padded to the longest of its batch.
    ///
    /// The [`Padding`] says with what, up to which length, and what becomes of the remainder. Each new
    /// shape is another compilation: give a length, or a multiple to round it up to.
    ///
    /// Throws `Op` (value) if `size` is 0.
    ///
    /// ```
    /// use oxidax::data::{HostArray, Padding, Stream};
    /// let texts = [vec![1, 2, 3], vec![4]].map(|ids| HostArray::from_slice(&ids, [ids.len()]));
    /// let mut batches = Stream::new(texts).pad_batch(2, Padding::with(0.0).multiple_of(4));
    /// let batch = batches.next().unwrap()?;
    /// assert_eq!(batch.shape().dims(), [2, 4]);
    /// assert_eq!(batch.to_vec::<i32>()?, [1, 2, 3, 0, 4, 0, 0, 0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "padded_batch")]
    #[track_caller]
    pub fn pad_batch(self, size: usize, padding: Padding) -> Stream<T::Batch> {
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

fn batches<T: Send + 'static, U: Send + 'static>(
    stream: Stream<T>,
    size: usize,
    remainder: Remainder,
    collate: impl Fn(Vec<T>) -> Result<U, Error> + Send + 'static,
) -> Stream<U> {
    stream.through(|above, instruments| {
        let meter = instruments.stage("batch", Work::Batch, 1);
        Batches { above, size, remainder, collate, meter, ended: false }
    })
}

struct Batches<T, F> {
    above: BoxedStage<T>,
    size: usize,
    remainder: Remainder,
    collate: F,
    meter: Arc<Meter>,
    ended: bool,
}

/// Puts items together, and keeps the origin of the first.
pub(super) fn collated<T, U>(
    items: Vec<Item<T>>,
    meter: &Meter,
    collate: impl Fn(Vec<T>) -> Result<U, Error>,
) -> Result<Item<U>, Error> {
    let origin = items.first().and_then(|item| item.origin.clone());
    let examples: Vec<T> = items.into_iter().map(|item| item.value).collect();
    let value = meter.time(|| guarded("batch", origin.as_ref(), || collate(examples)))?;
    Ok(Item { value, origin })
}

impl<T: Send, U, F: Fn(Vec<T>) -> Result<U, Error> + Send> Stage<U> for Batches<T, F> {
    fn next(&mut self) -> Next<U> {
        if self.ended {
            return None;
        }
        let above = std::iter::from_fn(|| self.above.next());
        let items: Result<Vec<Item<T>>, Error> = above.take(self.size).collect();
        let items = match items {
            Ok(items) => items,
            Err(error) => return Some(Err(error)),
        };
        self.ended = items.len() < self.size;
        let given = match self.remainder {
            Remainder::Drop => !self.ended,
            Remainder::Keep => !items.is_empty(),
        };
        given.then(|| collated(items, &self.meter, &self.collate))
    }

    fn position(&self, at: &mut Position) {
        at.push("batch", &[self.size as u64, self.ended.into()]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let [ended] = at.take("batch", &[("size", self.size as u64)])?;
        self.ended = ended != 0;
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.ended = false;
        self.above.restart(epoch)
    }
}
