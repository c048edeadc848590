//! What becomes of errors.

use crate::core::Error;
use crate::data::instruments::{Meter, Work};
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

/// What [`Stream::on_error`] does with errors. Without it they are passed on, and the stream goes on
/// after them where it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnError {
    /// Pass the first one on, and end.
    Stop,
    /// Pass over them and count them, but no more than so many: the next is passed on, and the stream ends.
    Skip {
        /// The most that are passed over.
        at_most: u64,
    },
}

impl<T: Send + 'static> Stream<T> {
    /// Ends at the first error that reaches this place of the pipeline, or passes over so many.
    ///
    /// What was passed over is counted in [`Instruments`](crate::data::Instruments), and in the position.
    ///
    /// ```
    /// use oxidax::data::{OnError, Stream};
    /// let lines = ["1", "x", "3"].map(|line| Ok(line.to_owned()));
    /// let numbers = Stream::new(lines)
    ///     .map(|line: String| line.parse::<u32>().map_err(|e| oxidax::Error::data("line", e.to_string())))
    ///     .on_error(OnError::Skip { at_most: 10 });
    /// let instruments = numbers.instruments();
    /// assert_eq!(numbers.collect::<Result<Vec<_>, _>>()?, [1, 3]);
    /// assert_eq!(instruments.report().skipped(), 1);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "ignore_errors")]
    pub fn on_error(self, policy: OnError) -> Stream<T> {
        let at_most = match policy {
            OnError::Stop => 0,
            OnError::Skip { at_most } => at_most,
        };
        self.through(|above, instruments| Errors {
            above,
            at_most,
            skipped: 0,
            ended: false,
            meter: instruments.stage("on_error", Work::Decode, 1),
        })
    }
}

struct Errors<T> {
    above: BoxedStage<T>,
    at_most: u64,
    skipped: u64,
    ended: bool,
    meter: Arc<Meter>,
}

impl<T: Send> Stage<T> for Errors<T> {
    fn next(&mut self) -> Next<T> {
        while !self.ended {
            match self.above.next()? {
                Err(_) if self.skipped < self.at_most => {
                    self.skipped += 1;
                    self.meter.skip();
                }
                item => {
                    self.ended = item.is_err();
                    return Some(item);
                }
            }
        }
        None
    }

    fn position(&self, at: &mut Position) {
        at.push("on_error", &[self.skipped, self.ended.into()]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let [skipped, ended] = at.take("on_error", &[])?;
        (self.skipped, self.ended) = (skipped, ended != 0);
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        // The count goes on: a budget that is given anew each epoch would last for ever.
        self.above.restart(epoch)
    }
}
