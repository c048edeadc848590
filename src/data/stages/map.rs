//! Applying a function to each item.

use crate::core::Error;
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, catch_errors};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

impl<T: Send + 'static> Stream<T> {
    /// Applies `f` to each item. Errors pass through.
    ///
    /// An error or a panic of `f` replaces the item and names the record. `f` must be deterministic
    /// for resumed streams to be equal: for random augmentation call [`Stream::enumerate`] first
    /// and use the number as a seed.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let halves = Stream::new([2, 4].map(Ok)).map(|number: u32| Ok(number / 2));
    /// assert_eq!(halves.collect::<Result<Vec<_>, _>>()?, [1, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn map<U: Send + 'static>(
        self,
        f: impl Fn(T) -> Result<U, Error> + Send + 'static,
    ) -> Stream<U> {
        self.through(|upstream, instruments| Map {
            upstream,
            f,
            meter: instruments.stage("map", Work::Decode, 1),
        })
    }

    /// Keeps the items for which `keep` returns true.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let even = Stream::new((0..6).map(Ok)).filter(|number| number % 2 == 0);
    /// assert_eq!(even.collect::<Result<Vec<i32>, _>>()?, [0, 2, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn filter(self, keep: impl Fn(&T) -> bool + Send + 'static) -> Stream<T> {
        self.through(|upstream, instruments| Filter {
            upstream,
            keep,
            meter: instruments.stage("filter", Work::Decode, 1),
        })
    }

    /// Numbers the items from 0. Errors get no number.
    ///
    /// The numbers continue through the epochs of an upstream [`Stream::repeat`], so they can seed
    /// the random augmentation of each record, on any number of threads.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
    /// let noisy = Stream::new([0.5, 0.5].map(Ok)).enumerate().map(|(number, x): (u64, f64)| {
    ///     let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
    ///     Ok(x + random.random_range(-0.1..0.1))
    /// });
    /// let noisy: Vec<f64> = noisy.collect::<Result<_, _>>()?;
    /// assert_ne!(noisy[0], noisy[1]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn enumerate(self) -> Stream<(u64, T)> {
        self.through(|upstream, _| Enumerate { upstream, next: 0 })
    }
}

pub(super) struct Map<T, F> {
    pub(super) upstream: BoxedStage<T>,
    pub(super) f: F,
    pub(super) meter: Arc<Meter>,
}

/// The stage's name in positions. `map` and `parallel_map` share it, so one can replace the other.
pub(super) const MAP: &str = "map";

impl<T: Send, U: Send, F: Fn(T) -> Result<U, Error> + Send> Stage<U> for Map<T, F> {
    fn next(&mut self) -> Next<U> {
        let item = self.upstream.next()?;
        Some(item.and_then(|item| self.meter.time(|| applied(item, &self.f))))
    }

    fn position(&self, position: &mut Position) {
        position.push(MAP, &[0]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        seek_past(&mut self.upstream, cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.upstream.restart(epoch)
    }
}

/// Applies `f` to an item.
pub(super) fn applied<T, U>(
    item: Item<T>,
    f: impl Fn(T) -> Result<U, Error>,
) -> Result<Item<U>, Error> {
    let Item { value, origin } = item;
    let value = catch_errors(MAP, origin.as_ref(), || f(value))?;
    Ok(Item { value, origin })
}

/// Moves a map stage to a position: a number of items after an upstream position.
pub(super) fn seek_past<T>(
    upstream: &mut BoxedStage<T>,
    cursor: &mut Cursor<'_>,
) -> Result<(), Error> {
    let [yielded] = cursor.take(MAP, &[])?;
    upstream.seek(cursor)?;
    for _ in 0..yielded {
        // Errors count as well.
        drop(upstream.next());
    }
    Ok(())
}

struct Filter<T, F> {
    upstream: BoxedStage<T>,
    keep: F,
    meter: Arc<Meter>,
}

impl<T: Send, F: Fn(&T) -> bool + Send> Stage<T> for Filter<T, F> {
    fn next(&mut self) -> Next<T> {
        loop {
            let item = match self.upstream.next()? {
                Ok(item) => item,
                Err(error) => return Some(Err(error)),
            };
            let keep =
                || catch_errors("filter", item.origin.as_ref(), || Ok((self.keep)(&item.value)));
            match self.meter.time(keep) {
                Ok(true) => return Some(Ok(item)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn position(&self, position: &mut Position) {
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.upstream.restart(epoch)
    }
}

struct Enumerate<T> {
    upstream: BoxedStage<T>,
    next: u64,
}

impl<T: Send> Stage<(u64, T)> for Enumerate<T> {
    fn next(&mut self) -> Next<(u64, T)> {
        let item = self.upstream.next()?;
        Some(item.map(|Item { value, origin }| {
            let number = self.next;
            self.next += 1;
            Item { value: (number, value), origin }
        }))
    }

    fn position(&self, position: &mut Position) {
        position.push("enumerate", &[self.next]);
        self.upstream.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        [self.next] = cursor.take("enumerate", &[])?;
        self.upstream.seek(cursor)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        // Within a downstream `repeat` the numbers count within the epoch.
        self.next = 0;
        self.upstream.restart(epoch)
    }
}
