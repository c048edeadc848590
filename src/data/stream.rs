//! Streams of examples.

use super::instruments::{Instruments, Meter, Work};
use super::origin::{Item, Next};
use super::position::{Cursor, Position, refused};
use crate::core::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A pipeline: an iterator of records or batches, each of which may have failed to be read.
///
/// Lazy: nothing is read before it is asked for, but by [`Stream::prefetch`], [`Stream::to_device`] and
/// [`Stream::parallel_map`]. Dropping it stops its threads. [`Stream::position`] says where it stands, and
/// [`Stream::resume`] goes on from there.
///
/// The methods here see items and let errors pass, unlike those of [`Iterator`] by the same names.
#[doc(alias = "Dataset")]
#[doc(alias = "DataLoader")]
pub struct Stream<T> {
    stage: BoxedStage<T>,
    instruments: Instruments,
    /// When the last item was given to the consumer.
    given: Option<Instant>,
}

/// One step of a pipeline. The position, written by `position` and read by `seek`, is this stage's counts
/// followed by those of the stages above.
pub(super) trait Stage<T>: Send {
    /// The next item. After the end it stays at the end.
    fn next(&mut self) -> Next<T>;
    /// Adds where the stage stands: what it takes to go on after the last item given.
    fn position(&self, at: &mut Position);
    /// Goes to a position.
    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error>;
    /// Goes to the beginning of an epoch: what shuffles does so in another order each time.
    fn restart(&mut self, epoch: u64) -> Result<(), Error>;
}

pub(super) type BoxedStage<T> = Box<dyn Stage<T>>;

impl<T: Send + 'static> Stream<T> {
    /// A stream of what an iterator gives.
    ///
    /// [`Stream::resume`] passes over the items that were given. An iterator goes by once: to repeat it, say
    /// how it is made with [`Stream::from_generator`].
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let stream = Stream::new((0..3).map(Ok)).map(|number| Ok(number * 2));
    /// assert_eq!(stream.collect::<Result<Vec<_>, _>>()?, [0, 2, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn new<I>(items: I) -> Stream<T>
    where
        I: IntoIterator<Item = Result<T, Error>>,
        I::IntoIter: Send + 'static,
    {
        let items: BoxedItems<T> = Box::new(items.into_iter().fuse());
        Stream::source("iterator", |meter| Iterated {
            make: None,
            items,
            epoch: 0,
            given: 0,
            meter,
        })
    }

    /// A stream of what the iterator gives that `make` makes of the number of the epoch, from 0 on.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let count = Stream::from_generator(|epoch| (0..2).map(move |n| Ok(10 * epoch + n)));
    /// let numbers: Vec<u64> = count.repeat(3).collect::<Result<_, _>>()?;
    /// assert_eq!(numbers, [0, 1, 10, 11, 20, 21]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn from_generator<I>(make: impl Fn(u64) -> I + Send + 'static) -> Stream<T>
    where
        I: IntoIterator<Item = Result<T, Error>>,
        I::IntoIter: Send + 'static,
    {
        let make = move |epoch| Box::new(make(epoch).into_iter().fuse()) as BoxedItems<T>;
        Stream::source("generator", |meter| Iterated {
            items: make(0),
            make: Some(Box::new(make)),
            epoch: 0,
            given: 0,
            meter,
        })
    }

    /// A stream of what a stage reads.
    pub(super) fn source<S: Stage<T> + 'static>(
        name: &'static str,
        make: impl FnOnce(Arc<Meter>) -> S,
    ) -> Stream<T> {
        let mut instruments = Instruments::default();
        let meter = instruments.stage(name, Work::Source, 1);
        Stream { stage: Box::new(make(meter)), instruments, given: None }
    }

    /// The stream of a stage that joins several.
    pub(super) fn of<S: Stage<T> + 'static>(stage: S, instruments: Instruments) -> Stream<T> {
        Stream { stage: Box::new(stage), instruments, given: None }
    }

    pub(super) fn into_parts(self) -> (BoxedStage<T>, Instruments) {
        (self.stage, self.instruments)
    }

    /// The stream that another stage makes of this one's items.
    pub(super) fn through<U, S: Stage<U> + 'static>(
        self,
        make: impl FnOnce(BoxedStage<T>, &mut Instruments) -> S,
    ) -> Stream<U> {
        let Stream { stage, mut instruments, .. } = self;
        let stage = Box::new(make(stage, &mut instruments));
        Stream { stage, instruments, given: None }
    }

    /// Where the stream stands: small, and to be stored in a checkpoint. See [`Position`].
    pub fn position(&self) -> Position {
        let mut position = Position::default();
        self.stage.position(&mut position);
        position
    }

    /// The stream from a position on, which a stream built the same way gave.
    ///
    /// What has to be read again, because it lay in a buffer, is read now; what was given is not made
    /// again.
    ///
    /// # Errors
    /// `Data` if the pipeline is not built as the other was, or its data has changed; what reading gives.
    pub fn resume(mut self, position: &Position) -> Result<Stream<T>, Error> {
        let mut cursor = position.cursor();
        self.stage.seek(&mut cursor)?;
        cursor.finish()?;
        Ok(self)
    }

    /// The clocks of this pipeline, to be read while and after it runs. See [`Instruments`].
    pub fn instruments(&self) -> Instruments {
        self.instruments.clone()
    }
}

impl<T> Iterator for Stream<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        let asked = Instant::now();
        let item = self.stage.next();
        let now = Instant::now();
        if item.is_some() {
            let stepped = self.given.replace(now).map(|given| asked - given);
            self.instruments.consumed(now - asked, stepped);
        }
        item.map(|item| item.map(|item| item.value))
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream<{}>", std::any::type_name::<T>())
    }
}

type BoxedItems<T> = Box<dyn Iterator<Item = Result<T, Error>> + Send>;

/// The items of an iterator, counted.
struct Iterated<T> {
    make: Option<Box<dyn Fn(u64) -> BoxedItems<T> + Send>>,
    items: BoxedItems<T>,
    epoch: u64,
    given: u64,
    meter: Arc<Meter>,
}

impl<T> Iterated<T> {
    const NAME: &'static str = "iterator";
}

impl<T: Send + 'static> Stage<T> for Iterated<T> {
    fn next(&mut self) -> Next<T> {
        let item = self.meter.time_next(|| self.items.next())?;
        self.given += 1;
        Some(item.map(|value| Item { value, origin: None }))
    }

    fn position(&self, at: &mut Position) {
        at.push(Self::NAME, &[self.epoch, self.given]);
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let [epoch, given] = at.take(Self::NAME, &[])?;
        if epoch != self.epoch || given < self.given {
            self.restart(epoch)?;
        }
        while self.given < given {
            if self.items.next().is_none() {
                let found = self.given;
                return Err(refused(format!("{given} items were given, there are only {found}")));
            }
            self.given += 1;
        }
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        let Some(make) = &self.make else {
            return match (epoch, self.given) {
                (0, 0) => Ok(()),
                _ => Err(Error::Data {
                    doing: "repeat".into(),
                    place: None,
                    message: format!("an iterator cannot begin again, for epoch {epoch}"),
                    help: Some("say how it is made with `Stream::from_generator`".into()),
                }),
            };
        };
        self.items = make(epoch);
        (self.epoch, self.given) = (epoch, 0);
        Ok(())
    }
}
