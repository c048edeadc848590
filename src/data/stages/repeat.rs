//! Epochs.

use crate::core::Error;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};

impl<T: Send + 'static> Stream<T> {
    /// Repeats the items `epochs` times. Upstream stages that shuffle use another order in each
    /// epoch.
    ///
    /// An epoch without items ends the stream, even with [`Stream::repeat_forever`]. If the epoch
    /// had only errors, the stream ends with an error.
    ///
    /// ```
    /// use oxidax::data::{Source, Synthetic};
    /// let twice = Synthetic::new(3, Ok).stream().repeat(2);
    /// assert_eq!(twice.collect::<Result<Vec<_>, _>>()?, [0, 1, 2, 0, 1, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(self, epochs: u64) -> Stream<T> {
        let upstream = |upstream, _: &mut _| Repeat {
            upstream,
            epochs,
            first: 0,
            epoch: 0,
            good: 0,
            bad: 0,
            ended: false,
        };
        self.through(upstream)
    }

    /// Repeats the items without end, for programs that count steps. See [`Stream::repeat`].
    #[track_caller]
    pub fn repeat_forever(self) -> Stream<T> {
        self.repeat(u64::MAX)
    }
}

struct Repeat<T> {
    upstream: BoxedStage<T>,
    epochs: u64,
    /// The number of the first epoch: an outer `repeat` continues where its last round ended.
    first: u64,
    epoch: u64,
    /// Items and errors of this epoch.
    good: u64,
    bad: u64,
    ended: bool,
}

impl<T> Repeat<T> {
    /// Starts the next epoch, if there is one.
    fn next_epoch(&mut self) -> Result<(), Error> {
        let (good, bad) = (self.good, self.bad);
        self.ended = good == 0 || self.epoch + 1 >= self.epochs;
        if self.ended {
            let futile = good == 0 && bad > 0 && self.epoch + 1 < self.epochs;
            return if futile {
                Err(Error::data(
                    "repeat",
                    format!(
                        "all {bad} records of epoch {} failed; no further epoch starts",
                        self.epoch
                    ),
                ))
            } else {
                Ok(())
            };
        }
        self.epoch += 1;
        (self.good, self.bad) = (0, 0);
        let restarted = self.upstream.restart(self.first.saturating_add(self.epoch));
        self.ended = restarted.is_err();
        restarted
    }
}

impl<T: Send> Stage<T> for Repeat<T> {
    fn next(&mut self) -> Next<T> {
        if self.epochs == 0 {
            return None;
        }
        while !self.ended {
            match self.upstream.next() {
                Some(item) => {
                    if item.is_ok() {
                        self.good += 1
                    } else {
                        self.bad += 1
                    }
                    return Some(item);
                }
                None => {
                    if let Err(error) = self.next_epoch() {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }

    fn position(&self, position: &mut Position) {
        position.push("repeat", &[self.first, self.epoch, self.good, self.bad, self.ended.into()]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [first, epoch, good, bad, ended] = cursor.take("repeat", &[])?;
        (self.first, self.epoch) = (first, epoch);
        (self.good, self.bad, self.ended) = (good, bad, ended != 0);
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.first = epoch.saturating_mul(self.epochs);
        self.upstream.restart(self.first)?;
        (self.epoch, self.good, self.bad, self.ended) = (0, 0, 0, false);
        Ok(())
    }
}
