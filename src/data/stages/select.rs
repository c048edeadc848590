//! Parts of a stream.

use crate::core::Error;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::source::check_shard;
use crate::data::stream::{BoxedStage, Stage, Stream};

impl<T: Send + 'static> Stream<T> {
    /// The first `count` items; errors count.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let three = Stream::new((0..9).map(Ok)).skip(2).take(3);
    /// assert_eq!(three.collect::<Result<Vec<_>, _>>()?, [2, 3, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn take(self, count: u64) -> Stream<T> {
        self.through(|above, _| Part { above, start: 0, step: 1, end: count, seen: 0 })
    }

    /// All but the first `count` items; errors count.
    pub fn skip(self, count: u64) -> Stream<T> {
        self.through(|above, _| Part { above, start: count, step: 1, end: u64::MAX, seen: 0 })
    }

    /// The items `index`, `index + count`, …: the share of process `index` of `count`. Errors count.
    ///
    /// On several hosts, `index` and `count` are [`process_index`](crate::distributed::process_index) and
    /// [`process_count`](crate::distributed::process_count). The others are read and dropped. Where the records can be read in any order,
    /// [`Source::shard`](crate::data::Source::shard) does not even read them, and where there are many
    /// files, giving each process its own is as cheap.
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
        self.through(|above, _| Part { above, start, step, end: u64::MAX, seen: 0 })
    }
}

/// The items at `start`, `start + step`, … before `end`.
struct Part<T> {
    above: BoxedStage<T>,
    start: u64,
    step: u64,
    end: u64,
    seen: u64,
}

impl<T: Send> Stage<T> for Part<T> {
    fn next(&mut self) -> Next<T> {
        while self.seen < self.end {
            let item = self.above.next()?;
            let at = self.seen;
            self.seen += 1;
            if at >= self.start && (at - self.start).is_multiple_of(self.step) {
                return Some(item);
            }
        }
        None
    }

    fn position(&self, at: &mut Position) {
        at.push("part", &[self.start, self.step, self.end, self.seen]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let settings = [("start", self.start), ("step", self.step), ("end", self.end)];
        [self.seen] = at.take("part", &settings)?;
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.seen = 0;
        self.above.restart(epoch)
    }
}
