//! Selecting a part of a stream.

use crate::core::Error;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::source::check_shard;
use crate::data::stream::{BoxedStage, Stage, Stream};

impl<T: Send + 'static> Stream<T> {
    /// Takes the first `count` items. Errors count.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let three = Stream::new((0..9).map(Ok)).skip(2).take(3);
    /// assert_eq!(three.collect::<Result<Vec<_>, _>>()?, [2, 3, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn take(self, count: u64) -> Stream<T> {
        self.through(|upstream, _| Part { upstream, start: 0, step: 1, end: count, seen: 0 })
    }

    /// Skips the first `count` items. Errors count.
    #[track_caller]
    pub fn skip(self, count: u64) -> Stream<T> {
        self.through(|upstream, _| Part { upstream, start: count, step: 1, end: u64::MAX, seen: 0 })
    }

    /// Selects the items `index`, `index + count`, …: the share of process `index` of `count`.
    /// Errors count.
    ///
    /// On several hosts, `index` and `count` are
    /// [`process_index`](crate::distributed::process_index) and
    /// [`process_count`](crate::distributed::process_count). The other items are read and dropped.
    /// With random access, [`Source::shard`](crate::data::Source::shard) does not read them at all.
    /// With many files, giving each process its own files is as cheap.
    ///
    /// Throws `Op` (value) unless `index < count`.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let share = Stream::new((0..7).map(Ok)).shard(1, 3);
    /// assert_eq!(share.collect::<Result<Vec<_>, _>>()?, [1, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn shard(self, index: usize, count: usize) -> Stream<T> {
        check_shard(index, count);
        let (start, step) = (index as u64, count as u64);
        self.through(|upstream, _| Part { upstream, start, step, end: u64::MAX, seen: 0 })
    }
}

/// The items at `start`, `start + step`, … before `end`.
struct Part<T> {
    upstream: BoxedStage<T>,
    start: u64,
    step: u64,
    end: u64,
    seen: u64,
}

impl<T: Send> Stage<T> for Part<T> {
    fn next(&mut self) -> Next<T> {
        while self.seen < self.end {
            let item = self.upstream.next()?;
            let at = self.seen;
            self.seen += 1;
            if at >= self.start && (at - self.start).is_multiple_of(self.step) {
                return Some(item);
            }
        }
        None
    }

    fn position(&self, position: &mut Position) {
        position.push("part", &[self.start, self.step, self.end, self.seen]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let settings = [("start", self.start), ("step", self.step), ("end", self.end)];
        [self.seen] = cursor.take("part", &settings)?;
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.seen = 0;
        self.upstream.restart(epoch)
    }
}
