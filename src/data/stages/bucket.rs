//! Batches of examples of about the same length.

use super::Remainder;
use super::batch::{check_size, collated};
use crate::core::{Error, RuleError, throw_operands};
use crate::data::collate::{Pad, Padding};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, guarded};
use crate::data::position::{Anchors, Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::HashSet;
use std::sync::Arc;

/// After how many items it is noted where the stream above stands.
const SPACING: u64 = 64;

impl<T: Pad + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Batches of examples of about the same length, so that little is padded: an example goes to the first
    /// bucket whose boundary its length does not exceed, and a bucket of `size` is a batch, padded to
    /// the boundary. So there are as many shapes as boundaries, and as many compilations.
    ///
    /// An example longer than all boundaries is an error. At the end, buckets that are not full are dropped
    /// or kept as the padding says. A position holds the numbers of the examples in the buckets; those are
    /// read again by [`Stream::resume`], from the oldest on.
    ///
    /// Throws `Op` (value) if `size` is 0, or the boundaries do not ascend.
    ///
    /// ```
    /// use oxidax::data::{HostArray, Padding, Stream};
    /// let texts = [3, 9, 4, 10].map(|n| HostArray::from_slice(&vec![1; n], [n]));
    /// let batches = Stream::new(texts)
    ///     .bucket_by_length(|text| text.shape()[0], &[4, 16], 2, Padding::with(0.0));
    /// let shapes: Vec<String> =
    ///     batches.map(|batch| Ok(batch.aval().to_string())).collect::<Result<_, _>>()?;
    /// assert_eq!(shapes, ["i32[2,4]", "i32[2,16]"]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "bucket_by_sequence_length")]
    #[track_caller]
    pub fn bucket_by_length(
        self,
        length: impl Fn(&T) -> usize + Send + 'static,
        boundaries: &[usize],
        size: usize,
        padding: Padding,
    ) -> Stream<T::Batch> {
        check_size("bucket_by_length", size);
        if boundaries.is_empty() || !boundaries.is_sorted_by(|a, b| a < b) {
            let message = format!("boundaries must ascend, and be some; got {boundaries:?}");
            throw_operands("bucket_by_length", RuleError::value(message), &[]);
        }
        let boundaries = boundaries.to_vec();
        self.through(|above, instruments| Buckets {
            above,
            length,
            buckets: boundaries.iter().map(|_| Vec::new()).collect(),
            boundaries,
            size,
            padding,
            read: 0,
            asked: 0,
            ended: false,
            anchors: Anchors::new(SPACING),
            meter: instruments.stage("batch", Work::Batch, 1),
        })
    }
}

struct Buckets<T, F> {
    above: BoxedStage<T>,
    length: F,
    boundaries: Vec<usize>,
    buckets: Vec<Vec<(u64, Item<T>)>>,
    size: usize,
    padding: Padding,
    read: u64,
    /// Items and errors.
    asked: u64,
    ended: bool,
    anchors: Anchors,
    meter: Arc<Meter>,
}

const NAME: &str = "bucket_by_length";

impl<T: Pad + Send, F: Fn(&T) -> usize + Send> Buckets<T, F> {
    fn ask(&mut self) -> Option<Result<(u64, Item<T>), Error>> {
        let above = &self.above;
        self.anchors.before(self.read, self.asked, |at| above.position(at));
        let item = self.above.next()?;
        self.asked += 1;
        Some(item.map(|item| {
            self.read += 1;
            (self.read - 1, item)
        }))
    }

    /// The bucket that an item belongs to.
    fn bucket_of(&self, item: &Item<T>) -> Result<usize, Error> {
        guarded(NAME, item.origin.as_ref(), || {
            let length = (self.length)(&item.value);
            let bucket = self.boundaries.partition_point(|&boundary| boundary < length);
            match bucket < self.boundaries.len() {
                true => Ok(bucket),
                false => {
                    let longest = self.boundaries[self.boundaries.len() - 1];
                    let message = format!("length {length} exceeds the last boundary, {longest}");
                    Err(Error::data(NAME, message))
                }
            }
        })
    }

    fn give(&mut self, bucket: usize) -> Result<Item<T::Batch>, Error> {
        let numbered = std::mem::take(&mut self.buckets[bucket]);
        let mut items = Vec::with_capacity(numbered.len());
        for (number, item) in numbered {
            self.anchors.given(number);
            items.push(item);
        }
        let padding = self.padding.clone().length(self.boundaries[bucket]);
        collated(items, &self.meter, |examples| T::pad(examples, &padding))
    }

    fn settings(&self) -> Vec<(&'static str, u64)> {
        let mut settings = vec![("size", self.size as u64), ("buckets", self.buckets.len() as u64)];
        settings.extend(self.boundaries.iter().map(|&boundary| ("boundary", boundary as u64)));
        settings
    }

    fn begin(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
        self.anchors.clear();
        (self.read, self.asked, self.ended) = (0, 0, false);
    }
}

impl<T: Pad + Send, F: Fn(&T) -> usize + Send> Stage<T::Batch> for Buckets<T, F> {
    fn next(&mut self) -> Next<T::Batch> {
        while !self.ended {
            match self.ask() {
                Some(Ok((number, item))) => {
                    let bucket = match self.bucket_of(&item) {
                        Ok(bucket) => bucket,
                        Err(error) => return Some(Err(error)),
                    };
                    self.anchors.held(number);
                    self.buckets[bucket].push((number, item));
                    if self.buckets[bucket].len() == self.size {
                        return Some(self.give(bucket));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.ended = true;
                    if self.padding.remainder == Remainder::Drop {
                        self.buckets.iter_mut().for_each(Vec::clear);
                    }
                }
            }
        }
        let left = self.buckets.iter().position(|bucket| !bucket.is_empty())?;
        Some(self.give(left))
    }

    fn position(&self, at: &mut Position) {
        let mut counts: Vec<u64> = self.settings().iter().map(|(_, setting)| *setting).collect();
        let held = self.buckets.iter().flatten().map(|(number, _)| *number);
        match self.anchors.oldest() {
            Some((read, asked, position)) => {
                counts.extend([self.ended.into(), self.read, read, self.asked - asked]);
                counts.extend(held);
                at.push(NAME, &counts);
                at.extend(position);
            }
            None => {
                counts.extend([self.ended.into(), self.read, self.read, 0]);
                at.push(NAME, &counts);
                self.above.position(at);
            }
        }
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = at.take_all(NAME, &self.settings())?;
        let [ended, read, from, again, held @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        self.begin();
        self.above.seek(at)?;
        self.read = *from;
        let wanted: HashSet<u64> = held.iter().copied().collect();
        let mut found = 0;
        for _ in 0..*again {
            match self.ask() {
                Some(Ok((number, item))) => {
                    if wanted.contains(&number) {
                        let bucket = self.bucket_of(&item)?;
                        self.anchors.held(number);
                        self.buckets[bucket].push((number, item));
                        found += 1;
                    }
                }
                // It was passed on the first time.
                Some(Err(_)) => {}
                None => break,
            }
        }
        self.ended = *ended != 0;
        match self.read == *read && found == wanted.len() {
            true => Ok(()),
            false => Err(refused(format!(
                "the data has changed: {read} items had been read, now there are {}",
                self.read
            ))),
        }
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin();
        self.above.restart(epoch)
    }
}
