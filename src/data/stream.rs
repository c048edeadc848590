//! Streams of examples.

use super::instruments::{Instruments, Meter, Work};
use super::origin::{Item, Next, catch_errors};
use super::position::{Cursor, Position, refused};
use crate::core::{Error, Loc};
use crate::profile::{EventKind, TraceAnnotation};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A pipeline: an iterator of records or batches, each wrapped in a `Result`.
///
/// Streams are lazy. Only [`Stream::prefetch`], [`Stream::to_device`] and [`Stream::parallel_map`]
/// read ahead. Dropping a stream stops its threads. [`Stream::position`] returns the current
/// position, and [`Stream::resume`] continues from it.
///
/// Unlike the methods of [`Iterator`] with the same names, these methods apply to items and pass
/// errors through.
#[doc(alias = "Dataset")]
#[doc(alias = "DataLoader")]
pub struct Stream<T> {
    stage: BoxedStage<T>,
    instruments: Instruments,
    /// The time at which the consumer received the last item.
    yielded: Option<Instant>,
}

/// One stage of a pipeline. `position` writes, and `seek` reads, this stage's counts followed by
/// those of the upstream stages.
pub(super) trait Stage<T>: Send {
    /// Returns the next item. After the end it keeps returning `None`.
    fn next(&mut self) -> Next<T>;
    /// Adds the stage's position: the counts needed to continue after the last item.
    fn position(&self, position: &mut Position);
    /// Moves to a position.
    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error>;
    /// Moves to the start of an epoch. Stages that shuffle use another order in each epoch.
    fn restart(&mut self, epoch: u64) -> Result<(), Error>;
}

pub(super) type BoxedStage<T> = Box<dyn Stage<T>>;

/// A stage with the line of the program that added it. Errors that the stage raises have this line.
/// Those of upstream stages have their own already, and so do those of threads.
struct Located<S> {
    stage: S,
    loc: Loc,
}

impl<S> Located<S> {
    #[track_caller]
    fn new(stage: S) -> Located<S> {
        let loc = Loc::caller();
        // In `files.iter().map(data::csv)` the standard library is the caller. Then the errors have
        // the line of the next stage.
        let is_std = loc.get().is_some_and(|at| at.file().ends_with("core/src/ops/function.rs"));
        Located { stage, loc: if is_std { Loc::UNKNOWN } else { loc } }
    }
}

/// Sets the line of an error of a file or of data that has none.
fn located(mut error: Error, stage: Loc) -> Error {
    if let Error::Io { loc, .. } | Error::Data { loc, .. } = &mut error {
        *loc = loc.or(stage);
    }
    error
}

impl<T, S: Stage<T>> Stage<T> for Located<S> {
    fn next(&mut self) -> Next<T> {
        self.stage.next().map(|item| item.map_err(|error| located(error, self.loc)))
    }

    fn position(&self, position: &mut Position) {
        self.stage.position(position);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        self.stage.seek(cursor).map_err(|error| located(error, self.loc))
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.stage.restart(epoch).map_err(|error| located(error, self.loc))
    }
}

impl<T: Send + 'static> Stream<T> {
    /// Creates a stream of an iterator's items.
    ///
    /// [`Stream::resume`] skips the items that were consumed. An iterator cannot restart: to repeat
    /// it, use [`Stream::from_generator`].
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let stream = Stream::new((0..3).map(Ok)).map(|number| Ok(number * 2));
    /// assert_eq!(stream.collect::<Result<Vec<_>, _>>()?, [0, 2, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
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
            yielded: 0,
            meter,
        })
    }

    /// Creates a stream from a function that returns the iterator of an epoch, numbered from 0.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let count = Stream::from_generator(|epoch| (0..2).map(move |n| Ok(10 * epoch + n)));
    /// let numbers: Vec<u64> = count.repeat(3).collect::<Result<_, _>>()?;
    /// assert_eq!(numbers, [0, 1, 10, 11, 20, 21]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
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
            yielded: 0,
            meter,
        })
    }

    /// Creates a stream that starts with a stage.
    #[track_caller]
    pub(super) fn source<S: Stage<T> + 'static>(
        name: &'static str,
        make: impl FnOnce(Arc<Meter>) -> S,
    ) -> Stream<T> {
        let mut instruments = Instruments::default();
        let meter = Loc::caller().scope(|| instruments.stage(name, Work::Source, 1));
        Stream { stage: Box::new(Located::new(make(meter))), instruments, yielded: None }
    }

    /// Creates a stream from a stage that reads several streams.
    #[track_caller]
    pub(super) fn of<S: Stage<T> + 'static>(stage: S, instruments: Instruments) -> Stream<T> {
        Stream { stage: Box::new(Located::new(stage)), instruments, yielded: None }
    }

    pub(super) fn into_parts(self) -> (BoxedStage<T>, Instruments) {
        (self.stage, self.instruments)
    }

    /// Appends a stage.
    #[track_caller]
    pub(super) fn through<U, S: Stage<U> + 'static>(
        self,
        make: impl FnOnce(BoxedStage<T>, &mut Instruments) -> S,
    ) -> Stream<U> {
        let Stream { stage, mut instruments, .. } = self;
        let made = Loc::caller().scope(|| make(stage, &mut instruments));
        let stage = Box::new(Located::new(made));
        Stream { stage, instruments, yielded: None }
    }

    /// Returns the current position, small enough for a checkpoint. See [`Position`].
    pub fn position(&self) -> Position {
        let mut position = Position::default();
        self.stage.position(&mut position);
        position
    }

    /// Continues from a position of a stream that was built the same way.
    ///
    /// Items that were buffered are read again now. Items that were consumed are not decoded again.
    ///
    /// # Errors
    /// `Data` if the pipeline is built differently, or its data has changed. Any error of reading.
    #[track_caller]
    pub fn resume(mut self, position: &Position) -> Result<Stream<T>, Error> {
        let mut cursor = position.cursor();
        let sought = self.stage.seek(&mut cursor).and_then(|()| cursor.finish());
        let caller = Loc::caller();
        sought.map_err(|error| located(error, caller))?;
        Ok(self)
    }

    /// Returns the counters of this pipeline, to be read while it runs or afterwards. See
    /// [`Instruments`].
    pub fn instruments(&self) -> Instruments {
        self.instruments.clone()
    }
}

impl<T> Iterator for Stream<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        let wait = TraceAnnotation::of_kind(EventKind::DataWait, Loc::UNKNOWN, "");
        let pulled = Instant::now();
        let item = self.stage.next();
        let now = Instant::now();
        drop(wait);
        if item.is_some() {
            let stepped = self.yielded.replace(now).map(|yielded| pulled - yielded);
            self.instruments.consumed(now - pulled, stepped);
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
    yielded: u64,
    meter: Arc<Meter>,
}

impl<T: 'static> Iterated<T> {
    const NAME: &'static str = "iterator";

    /// Takes an item. A panic of the iterator is the last one.
    fn pull(&mut self) -> Option<Result<T, Error>> {
        let items = &mut self.items;
        catch_errors(Self::NAME, None, || Ok(items.next())).unwrap_or_else(|error| {
            self.items = Box::new(std::iter::empty());
            Some(Err(error))
        })
    }
}

impl<T: Send + 'static> Stage<T> for Iterated<T> {
    fn next(&mut self) -> Next<T> {
        let meter = self.meter.clone();
        let item = meter.time_next(|| self.pull())?;
        self.yielded += 1;
        Some(item.map(|value| Item { value, origin: None }))
    }

    fn position(&self, position: &mut Position) {
        position.push(Self::NAME, &[self.epoch, self.yielded]);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [epoch, yielded] = cursor.take(Self::NAME, &[])?;
        if epoch != self.epoch || yielded < self.yielded {
            self.restart(epoch)?;
        }
        while self.yielded < yielded {
            if self.pull().is_none() {
                let found = self.yielded;
                return Err(refused(format!(
                    "{yielded} items were consumed, but there are only {found}"
                )));
            }
            self.yielded += 1;
        }
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        let Some(make) = &self.make else {
            return match (epoch, self.yielded) {
                (0, 0) => Ok(()),
                _ => Err(Error::Data {
                    doing: "repeat".into(),
                    place: None,
                    message: format!("an iterator cannot restart for epoch {epoch}"),
                    loc: Loc::UNKNOWN,
                    help: Some("use `Stream::from_generator`".into()),
                }),
            };
        };
        self.items = catch_errors(Self::NAME, None, || Ok(make(epoch)))?;
        (self.epoch, self.yielded) = (epoch, 0);
        Ok(())
    }
}
