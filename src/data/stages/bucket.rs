//! Batches of examples with similar lengths.

use super::Remainder;
use super::batch::collated;
use crate::core::{Error, RuleError, throw_operands};
use crate::data::collate::{BatchPadding, CollatePadded};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, catch_errors};
use crate::data::position::{Anchors, Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::HashSet;
use std::sync::Arc;

/// Batch sizes of [`Stream::bucket_by_length`]. A number, or a list with one number per bucket,
/// converts into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BucketSizes {
    /// One number of examples for all batches.
    Same(usize),
    /// The number of examples for each boundary, as in `bucket_batch_sizes` of tf.data.
    PerBucket(Vec<usize>),
    /// As many examples as have at most this number of tokens after padding: `max_tokens /
    /// boundary`, rounded down. Batches of short examples have more rows.
    MaxTokens(usize),
}

impl From<usize> for BucketSizes {
    fn from(size: usize) -> BucketSizes {
        BucketSizes::Same(size)
    }
}

impl From<Vec<usize>> for BucketSizes {
    fn from(sizes: Vec<usize>) -> BucketSizes {
        BucketSizes::PerBucket(sizes)
    }
}

impl From<&[usize]> for BucketSizes {
    fn from(sizes: &[usize]) -> BucketSizes {
        BucketSizes::PerBucket(sizes.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for BucketSizes {
    fn from(sizes: [usize; N]) -> BucketSizes {
        BucketSizes::PerBucket(sizes.to_vec())
    }
}

impl BucketSizes {
    /// Returns the batch size of each bucket.
    fn per_bucket(&self, boundaries: &[usize]) -> Result<Vec<usize>, String> {
        let sizes: Vec<usize> = match self {
            BucketSizes::Same(size) => vec![*size; boundaries.len()],
            BucketSizes::PerBucket(sizes) => sizes.clone(),
            BucketSizes::MaxTokens(tokens) => {
                boundaries.iter().map(|&boundary| tokens / boundary.max(1)).collect()
            }
        };
        if sizes.len() != boundaries.len() {
            return Err(format!(
                "got {} batch sizes for {} boundaries: {sizes:?} for {boundaries:?}",
                sizes.len(),
                boundaries.len()
            ));
        }
        match (self, sizes.iter().position(|&size| size == 0)) {
            (_, None) => Ok(sizes),
            (BucketSizes::MaxTokens(tokens), Some(bucket)) => Err(format!(
                "an example of length {} has more than {tokens} tokens; raise `MaxTokens` or \
                 remove the boundary",
                boundaries[bucket]
            )),
            (_, Some(bucket)) => Err(format!(
                "a batch needs at least 1 example, got a size of 0 for boundary {}",
                boundaries[bucket]
            )),
        }
    }
}

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
    /// `size` is the number of examples in a batch: a number for all buckets, a list with one
    /// number per bucket, or [`BucketSizes::MaxTokens`].
    ///
    /// An example longer than all boundaries is an error. At the end, incomplete buckets are
    /// dropped or kept as set by the padding. A position stores the numbers of the buffered
    /// examples, and [`Stream::resume`] reads them again from the oldest on.
    ///
    /// Throws `Op` (value) if a size is 0, the number of sizes is not that of the boundaries, or
    /// the boundaries are not ascending.
    ///
    /// ```
    /// use oxidax::data::{HostArray, BatchPadding, Stream};
    /// let texts = [3, 9, 4, 10].map(|n| HostArray::from_slice(&vec![1; n], [n]));
    /// let batches = Stream::new(texts)
    ///     .bucket_by_length(|text| text.shape()[0], &[4, 16], 2, BatchPadding::with(0.0));
    /// let shapes: Vec<String> =
    ///     batches.map(|batch| Ok(batch.aval().to_string())).collect::<Result<_, _>>()?;
    /// assert_eq!(shapes, ["i32[2,4]", "i32[2,16]"]);
    ///
    /// // At most 16 tokens in a batch: 4 rows of length 4, or 1 row of length 16.
    /// use oxidax::data::BucketSizes;
    /// let texts = [3, 9, 4, 4, 1].map(|n| HostArray::from_slice(&vec![1; n], [n]));
    /// let sizes = BucketSizes::MaxTokens(16);
    /// let batches = Stream::new(texts)
    ///     .bucket_by_length(|text| text.shape()[0], &[4, 16], sizes, BatchPadding::with(0.0));
    /// let shapes: Vec<String> =
    ///     batches.map(|batch| Ok(batch.aval().to_string())).collect::<Result<_, _>>()?;
    /// assert_eq!(shapes, ["i32[1,16]", "i32[4,4]"]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "bucket_by_sequence_length")]
    #[track_caller]
    pub fn bucket_by_length(
        self,
        length: impl Fn(&T) -> usize + Send + 'static,
        boundaries: &[usize],
        size: impl Into<BucketSizes>,
        padding: BatchPadding,
    ) -> Stream<T::Batch> {
        if boundaries.is_empty() || !boundaries.is_sorted_by(|a, b| a < b) {
            let message = format!("needs ascending boundaries, got {boundaries:?}");
            throw_operands("bucket_by_length", RuleError::value(message), &[]);
        }
        let sizes = match size.into().per_bucket(boundaries) {
            Ok(sizes) => sizes,
            Err(message) => throw_operands("bucket_by_length", RuleError::value(message), &[]),
        };
        let boundaries = boundaries.to_vec();
        self.through(|upstream, instruments| Buckets {
            upstream,
            length,
            buckets: boundaries.iter().map(|_| Vec::new()).collect(),
            boundaries,
            sizes,
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
    /// Examples in a batch of each bucket.
    sizes: Vec<usize>,
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
        let mut settings = vec![("number of buckets", self.buckets.len() as u64)];
        settings.extend(self.boundaries.iter().map(|&boundary| ("boundary", boundary as u64)));
        settings.extend(self.sizes.iter().map(|&size| ("size", size as u64)));
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
                    if self.buckets[bucket].len() == self.sizes[bucket] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn sizes_of_buckets_are_checked() {
        let sizes = |sizes: BucketSizes| sizes.per_bucket(&[4, 16, 64]);
        assert_eq!(sizes(7.into()), Ok(vec![7, 7, 7]));
        assert_eq!(sizes([9, 3, 1].into()), Ok(vec![9, 3, 1]));
        assert_eq!(sizes(BucketSizes::MaxTokens(130)), Ok(vec![32, 8, 2]));
        let refused = |wrong: BucketSizes| sizes(wrong).unwrap_err();
        expect!["a batch needs at least 1 example, got a size of 0 for boundary 4"]
            .assert_eq(&refused(0.into()));
        expect!["got 2 batch sizes for 3 boundaries: [9, 3] for [4, 16, 64]"]
            .assert_eq(&refused(vec![9, 3].into()));
        expect![
            "an example of length 64 has more than 63 tokens; raise `MaxTokens` or remove the boundary"
        ]
        .assert_eq(&refused(BucketSizes::MaxTokens(63)));
    }
}
