//! Reading ahead on another thread.

use crate::core::Error;
use crate::data::origin::{Next, guarded};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

impl<T: Send + 'static> Stream<T> {
    /// Runs the stream on a thread of its own, which keeps up to `count` items ready.
    ///
    /// The items come in the stream's order. The thread starts when the first is asked for. A panic of an
    /// iterator is an error, the last item. Dropping the stream stops the thread, waiting for the one item
    /// that it is making.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let ahead = Stream::new((0..100).map(Ok)).prefetch(4);
    /// assert_eq!(ahead.collect::<Result<Vec<_>, _>>()?.len(), 100);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn prefetch(self, count: usize) -> Stream<T> {
        self.through(|above, _| Prefetch { above: Above::Here(above), count })
    }
}

struct Prefetch<T> {
    above: Above<T>,
    count: usize,
}

/// Where the stage above is.
enum Above<T> {
    Here(BoxedStage<T>),
    Away(Runner<T>),
    /// It could not be sent away, or did not come back.
    Lost,
}

/// The stage above on its thread.
struct Runner<T> {
    items: Option<Receiver<(Next<T>, Position)>>,
    thread: Option<JoinHandle<BoxedStage<T>>>,
    /// Where the stage stood after the last item that was received.
    at: Position,
    ended: bool,
}

impl<T: Send + 'static> Runner<T> {
    fn start(mut above: BoxedStage<T>, count: usize) -> Result<Runner<T>, Error> {
        let mut at = Position::default();
        above.position(&mut at);
        let (sender, items) = sync_channel(count);
        let work = move || {
            produce(&mut above, &sender);
            above
        };
        let thread = thread::Builder::new().name("oxidax-prefetch".into()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::data("prefetch", format!("the thread could not start: {error}"))
        })?;
        Ok(Runner { items: Some(items), thread: Some(thread), at, ended: false })
    }

    fn next(&mut self) -> Next<T> {
        if self.ended {
            return None;
        }
        match self.items.as_ref().and_then(|items| items.recv().ok()) {
            Some((item, at)) => {
                self.at = at;
                self.ended = item.is_none();
                item
            }
            None => {
                self.ended = true;
                Some(Err(Error::data("prefetch", "the thread ended with a panic")))
            }
        }
    }

    /// Stops the thread, and takes the stage back from it.
    fn stop(&mut self) -> Option<BoxedStage<T>> {
        // Without a receiver the thread's next `send` fails, and a blocked one returns.
        self.items = None;
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// Sends items until the stream ends, panics, or nobody is there to receive.
fn produce<T>(above: &mut BoxedStage<T>, sender: &SyncSender<(Next<T>, Position)>) {
    loop {
        let (item, last): (Next<T>, bool) = match guarded("prefetch", None, || Ok(above.next())) {
            Ok(item) => {
                let last = item.is_none();
                (item, last)
            }
            Err(error) => (Some(Err(error)), true),
        };
        let ended_early = last && item.is_some();
        let mut at = Position::default();
        above.position(&mut at);
        if sender.send((item, at.clone())).is_err() {
            return;
        }
        if ended_early && sender.send((None, at)).is_err() {
            return;
        }
        if last {
            return;
        }
    }
}

impl<T> Drop for Runner<T> {
    fn drop(&mut self) {
        self.items = None;
        if let Some(thread) = self.thread.take() {
            // A panic nobody asked for any more has been printed by the panic hook already.
            drop(thread.join());
        }
    }
}

impl<T: Send + 'static> Prefetch<T> {
    /// The stage above, on this thread.
    fn bring_back(&mut self) -> Result<&mut BoxedStage<T>, Error> {
        self.above = match std::mem::replace(&mut self.above, Above::Lost) {
            Above::Away(mut runner) => runner.stop().map_or(Above::Lost, Above::Here),
            other => other,
        };
        match &mut self.above {
            Above::Here(above) => Ok(above),
            Above::Away(_) | Above::Lost => {
                Err(Error::data("prefetch", "the stream ended with a panic and cannot go on"))
            }
        }
    }
}

impl<T: Send + 'static> Stage<T> for Prefetch<T> {
    fn next(&mut self) -> Next<T> {
        self.above = match std::mem::replace(&mut self.above, Above::Lost) {
            Above::Here(above) => match Runner::start(above, self.count) {
                Ok(runner) => Above::Away(runner),
                Err(error) => return Some(Err(error)),
            },
            other => other,
        };
        match &mut self.above {
            Above::Away(runner) => runner.next(),
            Above::Here(_) | Above::Lost => None,
        }
    }

    fn position(&self, at: &mut Position) {
        // No counts of its own: a stream stands where it stands, read ahead or not.
        match &self.above {
            Above::Here(above) => above.position(at),
            Above::Away(runner) => at.extend(&runner.at),
            Above::Lost => {}
        }
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        self.bring_back()?.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.bring_back()?.restart(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_come_in_order() {
        for count in [0, 1, 2, 100] {
            let items: Result<Vec<u32>, Error> =
                Stream::new((0..50).map(Ok)).prefetch(count).collect();
            assert_eq!(items.unwrap(), (0..50).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn errors_come_in_their_places() {
        let fails = |n: u32| if n == 2 { Err(Error::Plugin("broken".into())) } else { Ok(n) };
        let items: Vec<_> = Stream::new((0..9).map(fails)).prefetch(4).collect();
        assert_eq!(items.len(), 9);
        assert_eq!(items[2].as_ref().unwrap_err().to_string(), "error[plugin]: broken");
        assert_eq!(*items[8].as_ref().unwrap(), 8);
    }

    #[test]
    fn what_an_operation_throws_arrives_as_an_error() {
        let zero = Stream::new((0..3).map(Ok)).map(|n: u32| match n {
            1 => crate::core::throw_operands("then", crate::core::RuleError::value("one"), &[]),
            n => Ok(n),
        });
        let items: Vec<_> = zero.prefetch(1).collect();
        assert_eq!(items.len(), 3);
        assert!(items[1].as_ref().unwrap_err().to_string().starts_with("error[value]: then: one"));
    }

    #[test]
    fn a_panic_of_an_iterator_is_the_last_item() {
        let stream = Stream::new((0..3).map(|n: u32| match n {
            1 => panic!("mine"),
            n => Ok(n),
        }));
        let mut items = stream.prefetch(1);
        assert_eq!(items.next().unwrap().unwrap(), 0);
        let error = items.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, "error[data]: prefetch: the closure panicked: mine");
        assert!(items.next().is_none());
        assert!(items.next().is_none());
    }

    #[test]
    fn dropping_it_stops_an_endless_stream() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let endless = std::iter::repeat_with(move || Ok(counter.fetch_add(1, Ordering::Relaxed)));
        let mut items = Stream::new(endless).prefetch(2);
        assert_eq!(items.next().unwrap().unwrap(), 0);
        drop(items);
        // One was taken, two are ready, and the thread holds one at most.
        assert!(made.load(Ordering::Relaxed) <= 4);
        // The thread is gone, and with it its counter.
        assert_eq!(Arc::strong_count(&made), 1);
    }
}
