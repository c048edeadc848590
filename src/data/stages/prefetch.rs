//! Reading ahead on another thread.

use super::autotune::{DepthMeasurements, MemoryBudget, Parallelism};
use super::queue::Queue;
use crate::core::Error;
use crate::data::instruments::Gauge;
use crate::data::origin::{Next, catch_errors};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Items between two decisions about the depth.
const DECISION_ITEMS: u64 = 32;

impl<T: Send + 'static> Stream<T> {
    /// Runs the stream on a background thread that keeps up to `count` items ready.
    ///
    /// `count` is a number, or [`Parallelism::Auto`]. Items keep their order. The thread starts
    /// when the first item is pulled. A panic of an iterator becomes an error, which is the last
    /// item. Dropping the stream stops the thread after its current item.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let ahead = Stream::new((0..100).map(Ok)).prefetch(4);
    /// assert_eq!(ahead.collect::<Result<Vec<_>, _>>()?.len(), 100);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn prefetch(self, count: impl Into<Parallelism>) -> Stream<T> {
        self.prefetch_named("prefetch", count.into())
    }

    /// Reads ahead under another name in reports.
    #[track_caller]
    pub(super) fn prefetch_named(self, name: &'static str, count: Parallelism) -> Stream<T> {
        self.through(|upstream, instruments| {
            let (depth, most) = count.depth();
            let gauge = instruments.queue(name, most.is_some());
            gauge.set_capacity(depth);
            Prefetch { upstream: Upstream::Local(upstream), depth: Depth::new(depth, most), gauge }
        })
    }
}

struct Prefetch<T> {
    upstream: Upstream<T>,
    depth: Depth,
    gauge: Arc<Gauge>,
}

/// The depth of a queue, and the measurements since the last decision about it.
struct Depth {
    depth: usize,
    /// The largest depth, if it is chosen automatically.
    most: Option<usize>,
    budget: Option<MemoryBudget>,
    pulls: u64,
    fill: (usize, usize),
    /// Items that had waited for space at the last decision.
    blocked: u64,
}

impl Depth {
    fn new(depth: usize, most: Option<usize>) -> Depth {
        Depth { depth, most, budget: None, pulls: 0, fill: (usize::MAX, 0), blocked: 0 }
    }

    /// Counts a pull that found `fill` items. Returns another depth after enough pulls.
    fn pulled(&mut self, fill: usize, gauge: &Gauge) -> Option<usize> {
        let most = self.most?;
        let budget = *self.budget.get_or_insert_with(MemoryBudget::now);
        self.fill = (self.fill.0.min(fill), self.fill.1.max(fill));
        self.pulls += 1;
        if self.pulls < DECISION_ITEMS {
            return None;
        }
        let blocked = gauge.blocked();
        let measured = DepthMeasurements {
            depth: self.depth,
            fill: self.fill,
            blocked: blocked > self.blocked,
            over_budget: budget.exceeded(),
        };
        (self.pulls, self.fill, self.blocked) = (0, (usize::MAX, 0), blocked);
        let depth = std::mem::replace(&mut self.depth, measured.decide(most));
        (depth != self.depth).then_some(self.depth)
    }
}

/// Location of the upstream stage.
enum Upstream<T> {
    Local(BoxedStage<T>),
    Remote(Runner<T>),
    /// The thread could not start, or ended with a panic.
    Lost,
}

/// An item and the upstream position after it.
type Produced<T> = (Next<T>, Position);

/// The upstream stage on its thread.
struct Runner<T> {
    items: Arc<Queue<Produced<T>>>,
    thread: Option<JoinHandle<BoxedStage<T>>>,
    /// The upstream position after the last received item.
    upstream_position: Position,
    ended: bool,
}

impl<T: Send + 'static> Runner<T> {
    fn start(
        mut upstream: BoxedStage<T>,
        depth: usize,
        gauge: &Arc<Gauge>,
    ) -> Result<Runner<T>, Error> {
        let mut upstream_position = Position::default();
        upstream.position(&mut upstream_position);
        let items = Arc::new(Queue::new(depth, gauge.clone()));
        let queue = Closing(items.clone());
        let work = move || {
            produce(&mut upstream, &queue.0);
            upstream
        };
        let thread = thread::Builder::new().name("oxidax-prefetch".into()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::data("prefetch", format!("the thread could not start: {error}"))
        })?;
        Ok(Runner { items, thread: Some(thread), upstream_position, ended: false })
    }

    fn next(&mut self, depth: &mut Depth, gauge: &Gauge) -> Next<T> {
        if self.ended {
            return None;
        }
        let (fill, popped) = self.items.pop();
        match popped {
            Some((item, upstream_position)) => {
                self.upstream_position = upstream_position;
                self.ended = item.is_none();
                if let Some(depth) = depth.pulled(fill, gauge) {
                    self.items.resize(depth);
                }
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
        self.items.cancel();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// The sender's end of a queue, closed when it is dropped: also if the thread panics.
struct Closing<T>(Arc<Queue<T>>);

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Sends items until the stream ends, panics, or the receiver is gone.
fn produce<T>(upstream: &mut BoxedStage<T>, queue: &Queue<Produced<T>>) {
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
        if !queue.push((item, upstream_position.clone())) {
            return;
        }
        if ended_early {
            queue.push((None, upstream_position));
        }
        if last {
            return;
        }
    }
}

impl<T> Drop for Runner<T> {
    fn drop(&mut self) {
        self.items.cancel();
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
            Upstream::Local(upstream) => {
                match Runner::start(upstream, self.depth.depth, &self.gauge) {
                    Ok(runner) => Upstream::Remote(runner),
                    Err(error) => return Some(Err(error)),
                }
            }
            other => other,
        };
        match &mut self.upstream {
            Upstream::Remote(runner) => runner.next(&mut self.depth, &self.gauge),
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
        let expected = "error[data]: iterator: the closure panicked: mine\n   --> src/data/stages/";
        assert!(error.starts_with(expected), "{error}");
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
