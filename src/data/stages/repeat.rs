//! Epochs.

use crate::core::Error;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};

impl<T: Send + 'static> Stream<T> {
    /// The items `epochs` times over. What shuffles above does so in another order each time.
    ///
    /// An epoch without any good item is the last one, even of [`Stream::repeat_forever`]: it ends with an
    /// error if all its items were errors.
    ///
    /// ```
    /// use oxidax::data::{Source, Synthetic};
    /// let twice = Synthetic::new(3, Ok).stream().repeat(2);
    /// assert_eq!(twice.collect::<Result<Vec<_>, _>>()?, [0, 1, 2, 0, 1, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn repeat(self, epochs: u64) -> Stream<T> {
        let above = |above, _: &mut _| Repeat {
            above,
            epochs,
            first: 0,
            epoch: 0,
            good: 0,
            bad: 0,
            ended: false,
        };
        self.through(above)
    }

    /// The items over and over, for programs that count steps. See [`Stream::repeat`].
    pub fn repeat_forever(self) -> Stream<T> {
        self.repeat(u64::MAX)
    }
}

struct Repeat<T> {
    above: BoxedStage<T>,
    epochs: u64,
    /// The number of the first epoch: an outer `repeat` begins where its last round ended.
    first: u64,
    epoch: u64,
    /// Items and errors of this epoch.
    good: u64,
    bad: u64,
    ended: bool,
}

impl<T> Repeat<T> {
    /// Goes on to the next epoch, if there is one.
    fn turn(&mut self) -> Result<(), Error> {
        let (good, bad) = (self.good, self.bad);
        self.ended = good == 0 || self.epoch + 1 >= self.epochs;
        if self.ended {
            let futile = good == 0 && bad > 0 && self.epoch + 1 < self.epochs;
            return match futile {
                true => Err(Error::data(
                    "repeat",
                    format!("all {bad} records of epoch {} failed; no other is begun", self.epoch),
                )),
                false => Ok(()),
            };
        }
        self.epoch += 1;
        (self.good, self.bad) = (0, 0);
        let restarted = self.above.restart(self.first.saturating_add(self.epoch));
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
            match self.above.next() {
                Some(item) => {
                    match item.is_ok() {
                        true => self.good += 1,
                        false => self.bad += 1,
                    }
                    return Some(item);
                }
                None => {
                    if let Err(error) = self.turn() {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }

    fn position(&self, at: &mut Position) {
        at.push("repeat", &[self.first, self.epoch, self.good, self.bad, self.ended.into()]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let [first, epoch, good, bad, ended] = at.take("repeat", &[])?;
        (self.first, self.epoch) = (first, epoch);
        (self.good, self.bad, self.ended) = (good, bad, ended != 0);
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.first = epoch.saturating_mul(self.epochs);
        self.above.restart(self.first)?;
        (self.epoch, self.good, self.bad, self.ended) = (0, 0, 0, false);
        Ok(())
    }
}
