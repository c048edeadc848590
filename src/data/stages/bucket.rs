//! Batches of examples with similar lengths.

use super::Remainder;
use super::batch::{check_size, collated};
use crate::core::{Error, RuleError, throw_operands};
use crate::data::collate::{BatchPadding, CollatePadded};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, catch_errors};
use crate::data::position::{Anchors, Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::HashSet;
use std::sync::Arc;

/// Number of items between recorded upstream positions.
const SPACING: u64 = 64;

impl<T: CollatePadded + Send + 'static> Stream<T>
where
    T::Batch: Send + 'static,
{
    /// Batches examples of similar length, to reduce padding. An example goes to the first bucket
    /// whose boundary is not below its length. A full bucket becomes a batch, padded to the
    /// boundary. There are at most as many shapes, and compilations, as boundaries.
    ///
    /// An example longer than all boundaries is an error. At the end, incomplete buckets are
    /// dropped or kept as set by the padding. A position stores the numbers of the buffered
    /// examples, and [`Stream::resume`] reads them again from the oldest on.
    ///
    /// Throws `Op` (value) if `size` is 0, or the boundaries are not ascending.
    ///
    /// ```
    /// use oxidax::data::{HostArray, BatchPadding, Stream};
    /// let texts = [3, 9, 4, 10].map(|n| HostArray::from_slice(&vec![1; n], [n]));
    /// let batches = Stream::new(texts)
    ///     .bucket_by_length(|text| text.shape()[0], &[4, 16], 2, BatchPadding::with(0.0));
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
        padding: BatchPadding,
    ) -> Stream<T::Batch> {
        check_size("bucket_by_length", size);
        if boundaries.is_empty() || !boundaries.is_sorted_by(|a, b| a < b) {
            let message = format!("needs ascending boundaries, got {boundaries:?}");
            throw_operands("bucket_by_length", RuleError::value(message), &[]);
        }
        let boundaries = boundaries.to_vec();
        self.through(|upstream, instruments| Buckets {
            upstream,
            length,
            buckets: boundaries.iter().map(|_| Vec::new()).collect(),
            boundaries,
            size,
            padding,
            read: 0,
            pulled: 0,
            ended: false,
            anchors: Anchors::new(SPACING),
            meter: instruments.stage("batch", Work::Batch, 1),
        })
    }
}

struct Buckets<T, F> {
    upstream: BoxedStage<T>,
    length: F,
    boundaries: Vec<usize>,
    buckets: Vec<Vec<(u64, Item<T>)>>,
    size: usize,
    padding: BatchPadding,
    read: u64,
    /// Items and errors.
    pulled: u64,
    ended: bool,
    anchors: Anchors,
    meter: Arc<Meter>,
}

const NAME: &str = "bucket_by_length";

impl<T: CollatePadded + Send, F: Fn(&T) -> usize + Send> Buckets<T, F> {
    fn pull(&mut self) -> Option<Result<(u64, Item<T>), Error>> {
        let upstream = &self.upstream;
        self.anchors.before(self.read, self.pulled, |at| upstream.position(at));
        let item = self.upstream.next()?;
        self.pulled += 1;
        Some(item.map(|item| {
            self.read += 1;
            (self.read - 1, item)
        }))
    }

    /// Returns the bucket of an item.
    fn bucket_of(&self, item: &Item<T>) -> Result<usize, Error> {
        catch_errors(NAME, item.origin.as_ref(), || {
            let length = (self.length)(&item.value);
            let bucket = self.boundaries.partition_point(|&boundary| boundary < length);
            if bucket < self.boundaries.len() {
                Ok(bucket)
            } else {
                let longest = self.boundaries[self.boundaries.len() - 1];
                let message = format!("length {length} exceeds the last boundary, {longest}");
                Err(Error::data(NAME, message))
            }
        })
    }

    fn give(&mut self, bucket: usize) -> Result<Item<T::Batch>, Error> {
        let numbered = std::mem::take(&mut self.buckets[bucket]);
        let mut items = Vec::with_capacity(numbered.len());
        for (number, item) in numbered {
            self.anchors.released(number);
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
        (self.read, self.pulled, self.ended) = (0, 0, false);
    }
}

impl<T: CollatePadded + Send, F: Fn(&T) -> usize + Send> Stage<T::Batch> for Buckets<T, F> {
    fn next(&mut self) -> Next<T::Batch> {
        while !self.ended {
            match self.pull() {
                Some(Ok((number, item))) => {
                    let bucket = match self.bucket_of(&item) {
                        Ok(bucket) => bucket,
                        Err(error) => return Some(Err(error)),
                    };
                    self.anchors.buffered(number);
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

    fn position(&self, position: &mut Position) {
        let mut counts: Vec<u64> = self.settings().iter().map(|(_, setting)| *setting).collect();
        let buffered = self.buckets.iter().flatten().map(|(number, _)| *number);
        match self.anchors.oldest() {
            Some((read, pulled, anchor)) => {
                counts.extend([self.ended.into(), self.read, read, self.pulled - pulled]);
                counts.extend(buffered);
                position.push(NAME, &counts);
                position.extend(anchor);
            }
            None => {
                counts.extend([self.ended.into(), self.read, self.read, 0]);
                position.push(NAME, &counts);
                self.upstream.position(position);
            }
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = cursor.take_all(NAME, &self.settings())?;
        let [ended, read, from, again, buffered @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        self.begin();
        self.upstream.seek(cursor)?;
        self.read = *from;
        let wanted: HashSet<u64> = buffered.iter().copied().collect();
        let mut found = 0;
        for _ in 0..*again {
            match self.pull() {
                Some(Ok((number, item))) => {
                    if wanted.contains(&number) {
                        let bucket = self.bucket_of(&item)?;
                        self.anchors.buffered(number);
                        self.buckets[bucket].push((number, item));
                        found += 1;
                    }
                }
                // This error was returned before.
                Some(Err(_)) => {}
                None => break,
            }
        }
        self.ended = *ended != 0;
        if self.read == *read && found == wanted.len() {
            Ok(())
        } else {
            Err(refused(format!(
                "the data has changed: {read} items had been read, now there are {}",
                self.read
            )))
        }
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin();
        self.upstream.restart(epoch)
    }
}
