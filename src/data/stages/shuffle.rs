//! Shuffling a stream through a buffer.

use crate::core::Error;
use crate::data::origin::{Item, Next};
use crate::data::position::{Anchors, Cursor, Position, epoch_seed, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

impl<T: Send + 'static> Stream<T> {
    /// Shuffles the items: each is drawn from a buffer of the next `capacity` items.
    ///
    /// All orders are equally likely if the buffer holds the whole stream. A capacity of 0 or 1
    /// keeps the order. The order depends on `seed` and, upstream of a [`Stream::repeat`], on the
    /// epoch's number. Errors are returned immediately. Sources with random access need no buffer:
    /// [`Source::shuffled`](crate::data::Source::shuffled).
    ///
    /// A position stores the number of draws, not the buffered items. [`Stream::resume`] repeats
    /// the draws with numbers instead of items, then reads the buffered items again, starting at
    /// the oldest. That is usually about `capacity · ln(capacity)` items.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let shuffled = |seed| Stream::new((0..100).map(Ok)).shuffle(100, seed);
    /// let order: Vec<i32> = shuffled(1).collect::<Result<_, _>>()?;
    /// assert_eq!(order, shuffled(1).collect::<Result<Vec<_>, _>>()?);
    /// assert_ne!(order, shuffled(2).collect::<Result<Vec<_>, _>>()?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn shuffle(self, capacity: usize, seed: u64) -> Stream<T> {
        let capacity = capacity.max(1);
        self.through(|upstream, _| Shuffle {
            upstream,
            capacity,
            seed,
            epoch: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            buffer: Vec::new(),
            read: 0,
            pulled: 0,
            drawn: 0,
            anchors: Anchors::new(capacity as u64),
        })
    }
}

struct Shuffle<T> {
    upstream: BoxedStage<T>,
    capacity: usize,
    seed: u64,
    epoch: u64,
    random: Xoshiro256PlusPlus,
    /// Buffered items with their numbers.
    buffer: Vec<(u64, Item<T>)>,
    read: u64,
    /// Items and errors.
    pulled: u64,
    drawn: u64,
    anchors: Anchors,
}

const NAME: &str = "shuffle";

impl<T: Send> Shuffle<T> {
    fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.random = Xoshiro256PlusPlus::seed_from_u64(epoch_seed(self.seed, epoch));
        self.buffer.clear();
        self.anchors.clear();
        (self.read, self.pulled, self.drawn) = (0, 0, 0);
    }

    /// Pulls and numbers one item. The caller marks it as buffered.
    fn pull(&mut self) -> Option<Result<(u64, Item<T>), Error>> {
        let upstream = &self.upstream;
        self.anchors.before(self.read, self.pulled, |at| upstream.position(at));
        let item = self.upstream.next()?;
        self.pulled += 1;
        Some(item.map(|item| {
            self.read += 1;
            (self.read - 1, item)
        }))
    }

    fn draw(&mut self, buffered: usize) -> usize {
        self.drawn += 1;
        self.random.random_range(0..buffered)
    }

    /// Repeats draws and reads with item numbers only, and returns the buffered numbers in order.
    fn drawn_again(&mut self, drawn: u64, read: u64) -> Result<Vec<u64>, Error> {
        let (mut buffered, mut next) = (Vec::new(), 0);
        loop {
            let missing = (self.capacity - buffered.len()) as u64;
            let upto = next + missing.min(read - next);
            buffered.extend(next..upto);
            next = upto;
            if self.drawn == drawn {
                return if next == read {
                    Ok(buffered)
                } else {
                    Err(refused(format!("{read} items cannot be read with {drawn} draws")))
                };
            }
            if buffered.is_empty() {
                return Err(refused(format!("{drawn} items cannot be drawn of {read}")));
            }
            let at = self.draw(buffered.len());
            buffered.swap_remove(at);
        }
    }
}

impl<T: Send> Stage<T> for Shuffle<T> {
    fn next(&mut self) -> Next<T> {
        while self.buffer.len() < self.capacity {
            match self.pull() {
                Some(Ok((number, item))) => {
                    self.anchors.buffered(number);
                    self.buffer.push((number, item));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        if self.buffer.is_empty() {
            return None;
        }
        let at = self.draw(self.buffer.len());
        let (number, item) = self.buffer.swap_remove(at);
        self.anchors.released(number);
        Some(Ok(item))
    }

    fn position(&self, position: &mut Position) {
        let settings = [self.capacity as u64, self.seed];
        let counts = |from: u64, again: u64| [self.epoch, self.drawn, self.read, from, again];
        match self.anchors.oldest() {
            Some((read, pulled, anchor)) => {
                position.push(NAME, &[&settings[..], &counts(read, self.pulled - pulled)].concat());
                position.extend(anchor);
            }
            None => {
                position.push(NAME, &[&settings[..], &counts(self.read, 0)].concat());
                self.upstream.position(position);
            }
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let settings = [("capacity", self.capacity as u64), ("seed", self.seed)];
        let [epoch, drawn, read, from, again] = cursor.take(NAME, &settings)?;
        self.begin(epoch);
        self.upstream.seek(cursor)?;
        let buffered = self.drawn_again(drawn, read)?;
        let places: HashMap<u64, usize> =
            buffered.iter().enumerate().map(|(place, &number)| (number, place)).collect();
        let mut buffer: Vec<Option<Item<T>>> = buffered.iter().map(|_| None).collect();
        (self.read, self.pulled) = (from, 0);
        for _ in 0..again {
            match self.pull() {
                Some(Ok((number, item))) => {
                    if let Some(&place) = places.get(&number) {
                        self.anchors.buffered(number);
                        buffer[place] = Some(item);
                    }
                }
                // This error was returned before.
                Some(Err(_)) => {}
                None => break,
            }
        }
        let items: Option<Vec<Item<T>>> = buffer.into_iter().collect();
        match items {
            Some(items) if self.read == read => {
                self.buffer = buffered.into_iter().zip(items).collect();
                Ok(())
            }
            _ => Err(refused(format!(
                "the data has changed: {read} items had been read, now there are {}",
                self.read
            ))),
        }
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin(epoch);
        self.upstream.restart(epoch)
    }
}
