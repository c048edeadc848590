//! Reading ahead on another thread.

use crate::core::Error;
use crate::data::origin::{Next, catch_errors};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

impl<T: Send + 'static> Stream<T> {
    /// Runs the stream on a background thread that keeps up to `count` items ready.
    ///
    /// Items keep their order. The thread starts when the first item is pulled. A panic of an
    /// iterator becomes an error, which is the last item. Dropping the stream stops the thread
    /// after its current item.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let ahead = Stream::new((0..100).map(Ok)).prefetch(4);
    /// assert_eq!(ahead.collect::<Result<Vec<_>, _>>()?.len(), 100);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn prefetch(self, count: usize) -> Stream<T> {
        self.through(|upstream, _| Prefetch { upstream: Upstream::Local(upstream), count })
    }
}

struct Prefetch<T> {
    upstream: Upstream<T>,
    count: usize,
}

/// Location of the upstream stage.
enum Upstream<T> {
    Local(BoxedStage<T>),
    Remote(Runner<T>),
    /// The thread could not start, or ended with a panic.
    Lost,
}

/// The upstream stage on its thread.
struct Runner<T> {
    items: Option<Receiver<(Next<T>, Position)>>,
    thread: Option<JoinHandle<BoxedStage<T>>>,
    /// The upstream position after the last received item.
    upstream_position: Position,
    ended: bool,
}

impl<T: Send + 'static> Runner<T> {
    fn start(mut upstream: BoxedStage<T>, count: usize) -> Result<Runner<T>, Error> {
        let mut upstream_position = Position::default();
        upstream.position(&mut upstream_position);
        let (sender, items) = sync_channel(count);
        let work = move || {
            produce(&mut upstream, &sender);
            upstream
        };
        let thread = thread::Builder::new().name("oxidax-prefetch".into()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::data("prefetch", format!("the thread could not start: {error}"))
        })?;
        Ok(Runner { items: Some(items), thread: Some(thread), upstream_position, ended: false })
    }

    fn next(&mut self) -> Next<T> {
        if self.ended {
            return None;
        }
        match self.items.as_ref().and_then(|items| items.recv().ok()) {
            Some((item, upstream_position)) => {
                self.upstream_position = upstream_position;
                self.ended = item.is_none();
                item
            }
            None => {
                self.ended = true;
                Some(Err(Error::data("prefetch", "the thread ended with a panic")))
            }
        }
    }

    /// Stops the thread and returns its stage.
    fn stop(&mut self) -> Option<BoxedStage<T>> {
        // Without a receiver the thread's next `send` fails, and a blocked one returns.
        self.items = None;
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// Sends items until the stream ends, panics, or the receiver is dropped.
fn produce<T>(upstream: &mut BoxedStage<T>, sender: &SyncSender<(Next<T>, Position)>) {
    loop {
        let (item, last): (Next<T>, bool) =
            match catch_errors("prefetch", None, || Ok(upstream.next())) {
                Ok(item) => {
                    let last = item.is_none();
                    (item, last)
                }
                Err(error) => (Some(Err(error)), true),
            };
        let ended_early = last && item.is_some();
        let mut upstream_position = Position::default();
        upstream.position(&mut upstream_position);
        if sender.send((item, upstream_position.clone())).is_err() {
            return;
        }
        if ended_early && sender.send((None, upstream_position)).is_err() {
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
            // The panic hook has already printed the message of a panic.
            drop(thread.join());
        }
    }
}

impl<T: Send + 'static> Prefetch<T> {
    /// Returns the upstream stage, moved back to this thread.
    fn reclaim(&mut self) -> Result<&mut BoxedStage<T>, Error> {
        self.upstream = match std::mem::replace(&mut self.upstream, Upstream::Lost) {
            Upstream::Remote(mut runner) => runner.stop().map_or(Upstream::Lost, Upstream::Local),
            other => other,
        };
        match &mut self.upstream {
            Upstream::Local(upstream) => Ok(upstream),
            Upstream::Remote(_) | Upstream::Lost => {
                Err(Error::data("prefetch", "the stream ended with a panic and cannot go on"))
            }
        }
    }
}

impl<T: Send + 'static> Stage<T> for Prefetch<T> {
    fn next(&mut self) -> Next<T> {
        self.upstream = match std::mem::replace(&mut self.upstream, Upstream::Lost) {
            Upstream::Local(upstream) => match Runner::start(upstream, self.count) {
                Ok(runner) => Upstream::Remote(runner),
                Err(error) => return Some(Err(error)),
            },
            other => other,
        };
        match &mut self.upstream {
            Upstream::Remote(runner) => runner.next(),
            Upstream::Local(_) | Upstream::Lost => None,
        }
    }

    fn position(&self, position: &mut Position) {
        // Prefetching does not change the position, so it adds no counts.
        match &self.upstream {
            Upstream::Local(upstream) => upstream.position(position),
            Upstream::Remote(runner) => position.extend(&runner.upstream_position),
            Upstream::Lost => {}
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        self.reclaim()?.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.reclaim()?.restart(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn prefetched_items_keep_their_order() {
        for count in [0, 1, 2, 100] {
            let items: Result<Vec<u32>, Error> =
                Stream::new((0..50).map(Ok)).prefetch(count).collect();
            assert_eq!(items.unwrap(), (0..50).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn prefetched_errors_keep_their_places() {
        let fails = |n: u32| if n == 2 { Err(Error::Plugin("broken".into())) } else { Ok(n) };
        let items: Vec<_> = Stream::new((0..9).map(fails)).prefetch(4).collect();
        assert_eq!(items.len(), 9);
        assert_eq!(items[2].as_ref().unwrap_err().to_string(), "error[plugin]: broken");
        assert_eq!(*items[8].as_ref().unwrap(), 8);
    }

    #[test]
    fn thrown_errors_are_returned() {
        let zero = Stream::new((0..3).map(Ok)).map(|n: u32| match n {
            1 => crate::core::throw_operands("then", crate::core::RuleError::value("one"), &[]),
            n => Ok(n),
        });
        let items: Vec<_> = zero.prefetch(1).collect();
        assert_eq!(items.len(), 3);
        assert!(items[1].as_ref().unwrap_err().to_string().starts_with("error[value]: then: one"));
    }

    #[test]
    fn iterator_panic_is_the_last_item() {
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
    fn dropping_stops_an_endless_stream() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let endless = std::iter::repeat_with(move || Ok(counter.fetch_add(1, Ordering::Relaxed)));
        let mut items = Stream::new(endless).prefetch(2);
        assert_eq!(items.next().unwrap().unwrap(), 0);
        drop(items);
        // One was consumed, two are ready, and the thread holds at most one.
        assert!(made.load(Ordering::Relaxed) <= 4);
        // The thread has ended and dropped its counter.
        assert_eq!(Arc::strong_count(&made), 1);
    }
}
