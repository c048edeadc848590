//! Error handling policies of a pipeline stage.

use crate::core::Error;
use crate::data::instruments::{Meter, Work};
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

/// A policy for errors, set with [`Stream::on_error`]. Without a policy, errors are returned and
/// the stream continues if it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnError {
    /// Return the first error and end the stream.
    Stop,
    /// Skip and count up to `at_most` errors. The next one is returned and ends the stream.
    Skip {
        /// The number of errors to skip.
        at_most: u64,
    },
}

impl<T: Send + 'static> Stream<T> {
    /// Sets the handling of errors from earlier stages.
    ///
    /// Skipped errors are counted in [`Instruments`](crate::data::Instruments) and in the position.
    ///
    /// ```
    /// use oxidax::data::{OnError, Stream};
    /// let lines = ["1", "x", "3"].map(|line| Ok(line.to_owned()));
    /// let numbers = Stream::new(lines)
    ///     .map(|line: String| {
    ///         line.parse::<u32>().map_err(|e| oxidax::Error::data("line", e.to_string()))
    ///     })
    ///     .on_error(OnError::Skip { at_most: 10 });
    /// let instruments = numbers.instruments();
    /// assert_eq!(numbers.collect::<Result<Vec<_>, _>>()?, [1, 3]);
    /// assert_eq!(instruments.report().skipped(), 1);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "ignore_errors")]
    #[track_caller]
    pub fn on_error(self, policy: OnError) -> Stream<T> {
        let at_most = match policy {
            OnError::Stop => 0,
            OnError::Skip { at_most } => at_most,
        };
        self.through(|upstream, instruments| Errors {
            upstream,
            at_most,
            skipped: 0,
            ended: false,
            meter: instruments.stage("on_error", Work::Decode, 1),
        })
    }
}

struct Errors<T> {
    upstream: BoxedStage<T>,
    at_most: u64,
    skipped: u64,
    ended: bool,
    meter: Arc<Meter>,
}

impl<T: Send> Stage<T> for Errors<T> {
    fn next(&mut self) -> Next<T> {
        while !self.ended {
            match self.upstream.next()? {
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

    fn position(&self, position: &mut Position) {
        position.push("on_error", &[self.skipped, self.ended.into()]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [skipped, ended] = cursor.take("on_error", &[])?;
        (self.skipped, self.ended) = (skipped, ended != 0);
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        // The count is not reset: a new budget for each epoch would never end.
        self.upstream.restart(epoch)
    }
}
