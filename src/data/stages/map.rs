//! Making something of each item, one after the other.

use crate::core::Error;
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, guarded};
use crate::data::position::{Cursor, Position};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

impl<T: Send + 'static> Stream<T> {
    /// What `f` makes of each item; errors pass by.
    ///
    /// An error of `f`, and a panic, comes out in place of the item and names the record. `f` is to give the
    /// same for the same item whenever it is called, or a resumed stream is another one; for random changes
    /// [`Stream::enumerate`] first, and take the number for a seed.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let halves = Stream::new([2, 4].map(Ok)).map(|number: u32| Ok(number / 2));
    /// assert_eq!(halves.collect::<Result<Vec<_>, _>>()?, [1, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn map<U: Send + 'static>(
        self,
        f: impl Fn(T) -> Result<U, Error> + Send + 'static,
    ) -> Stream<U> {
        self.through(|above, instruments| Map {
            above,
            f,
            meter: instruments.stage("map", Work::Decode, 1),
        })
    }

    /// The items for which `keep` holds.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let even = Stream::new((0..6).map(Ok)).filter(|number| number % 2 == 0);
    /// assert_eq!(even.collect::<Result<Vec<i32>, _>>()?, [0, 2, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn filter(self, keep: impl Fn(&T) -> bool + Send + 'static) -> Stream<T> {
        self.through(|above, instruments| Filter {
            above,
            keep,
            meter: instruments.stage("filter", Work::Decode, 1),
        })
    }

    /// The items with their numbers, from 0 on; errors have none.
    ///
    /// The numbers go on through the epochs of a [`Stream::repeat`] above, so that they can seed a random
    /// change of each record, however the records are divided among threads.
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
    pub fn enumerate(self) -> Stream<(u64, T)> {
        self.through(|above, _| Enumerate { above, next: 0 })
    }
}

pub(super) struct Map<T, F> {
    pub(super) above: BoxedStage<T>,
    pub(super) f: F,
    pub(super) meter: Arc<Meter>,
}

/// The stage's name in positions, shared with the parallel kind: which of the two it is may change.
pub(super) const MAP: &str = "map";

impl<T: Send, U: Send, F: Fn(T) -> Result<U, Error> + Send> Stage<U> for Map<T, F> {
    fn next(&mut self) -> Next<U> {
        let item = self.above.next()?;
        Some(item.and_then(|item| self.meter.time(|| applied(item, &self.f))))
    }

    fn position(&self, at: &mut Position) {
        at.push(MAP, &[0]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        seek_past(&mut self.above, at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.above.restart(epoch)
    }
}

/// What `f` makes of an item.
pub(super) fn applied<T, U>(
    item: Item<T>,
    f: impl Fn(T) -> Result<U, Error>,
) -> Result<Item<U>, Error> {
    let Item { value, origin } = item;
    let value = guarded(MAP, origin.as_ref(), || f(value))?;
    Ok(Item { value, origin })
}

/// Goes to a position of either kind of map: so many items behind one of the stage above.
pub(super) fn seek_past<T>(above: &mut BoxedStage<T>, at: &mut Cursor<'_>) -> Result<(), Error> {
    let [given] = at.take(MAP, &[])?;
    above.seek(at)?;
    for _ in 0..given {
        // Errors among them were given too.
        drop(above.next());
    }
    Ok(())
}

struct Filter<T, F> {
    above: BoxedStage<T>,
    keep: F,
    meter: Arc<Meter>,
}

impl<T: Send, F: Fn(&T) -> bool + Send> Stage<T> for Filter<T, F> {
    fn next(&mut self) -> Next<T> {
        loop {
            let item = match self.above.next()? {
                Ok(item) => item,
                Err(error) => return Some(Err(error)),
            };
            let keep = || guarded("filter", item.origin.as_ref(), || Ok((self.keep)(&item.value)));
            match self.meter.time(keep) {
                Ok(true) => return Some(Ok(item)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn position(&self, at: &mut Position) {
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.above.restart(epoch)
    }
}

struct Enumerate<T> {
    above: BoxedStage<T>,
    next: u64,
}

impl<T: Send> Stage<(u64, T)> for Enumerate<T> {
    fn next(&mut self) -> Next<(u64, T)> {
        let item = self.above.next()?;
        Some(item.map(|Item { value, origin }| {
            let number = self.next;
            self.next += 1;
            Item { value: (number, value), origin }
        }))
    }

    fn position(&self, at: &mut Position) {
        at.push("enumerate", &[self.next]);
        self.above.position(at);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        [self.next] = at.take("enumerate", &[])?;
        self.above.seek(at)
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        // Below a `repeat` the numbers count within the epoch.
        self.next = 0;
        self.above.restart(epoch)
    }
}
