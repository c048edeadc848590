//! Shuffling what goes by.

use crate::core::Error;
use crate::data::origin::{Item, Next};
use crate::data::position::{Anchors, Cursor, Position, epoch_seed, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

impl<T: Send + 'static> Stream<T> {
    /// The items in random order: each is drawn from a buffer that holds the next `capacity` ones.
    ///
    /// Uniform over all orders if the buffer holds the whole stream; a capacity of 0 or 1 keeps the
    /// order. The order follows from `seed` and, below a [`Stream::repeat`], the number of the epoch.
    /// Errors are passed on as they are met. Records that can be read in any order need no buffer:
    /// [`Source::shuffled`](crate::data::Source::shuffled).
    ///
    /// A position holds no item of the buffer but how often was drawn. [`Stream::resume`] draws again,
    /// numbers instead of items, and reads the items again that lay in the buffer: from the oldest of them
    /// on, about `capacity · ln(capacity)` items as a rule.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let shuffled = |seed| Stream::new((0..100).map(Ok)).shuffle(100, seed);
    /// let order: Vec<i32> = shuffled(1).collect::<Result<_, _>>()?;
    /// assert_eq!(order, shuffled(1).collect::<Result<Vec<_>, _>>()?);
    /// assert_ne!(order, shuffled(2).collect::<Result<Vec<_>, _>>()?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn shuffle(self, capacity: usize, seed: u64) -> Stream<T> {
        let capacity = capacity.max(1);
        self.through(|above, _| Shuffle {
            above,
            capacity,
            seed,
            epoch: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            buffer: Vec::new(),
            read: 0,
            asked: 0,
            drawn: 0,
            anchors: Anchors::new(capacity as u64),
        })
    }
}

struct Shuffle<T> {
    above: BoxedStage<T>,
    capacity: usize,
    seed: u64,
    epoch: u64,
    random: Xoshiro256PlusPlus,
    /// Items with their numbers, by which they were read.
    buffer: Vec<(u64, Item<T>)>,
    read: u64,
    /// Items and errors.
    asked: u64,
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
        (self.read, self.asked, self.drawn) = (0, 0, 0);
    }

    /// Asks the stage above once. An item is numbered; whether it is held is the caller's affair.
    fn ask(&mut self) -> Option<Result<(u64, Item<T>), Error>> {
        let above = &self.above;
        self.anchors.before(self.read, self.asked, |at| above.position(at));
        let item = self.above.next()?;
        self.asked += 1;
        Some(item.map(|item| {
            self.read += 1;
            (self.read - 1, item)
        }))
    }

    fn draw(&mut self, held: usize) -> usize {
        self.drawn += 1;
        self.random.random_range(0..held)
    }

    /// The numbers that lay in the buffer, in its order, after so many draws and reads.
    fn drawn_again(&mut self, drawn: u64, read: u64) -> Result<Vec<u64>, Error> {
        let (mut held, mut next) = (Vec::new(), 0);
        loop {
            let missing = (self.capacity - held.len()) as u64;
            let upto = next + missing.min(read - next);
            held.extend(next..upto);
            next = upto;
            if self.drawn == drawn {
                return match next == read {
                    true => Ok(held),
                    false => {
                        Err(refused(format!("{read} items cannot be read with {drawn} draws")))
                    }
                };
            }
            if held.is_empty() {
                return Err(refused(format!("{drawn} items cannot be drawn of {read}")));
            }
            let at = self.draw(held.len());
            held.swap_remove(at);
        }
    }
}

impl<T: Send> Stage<T> for Shuffle<T> {
    fn next(&mut self) -> Next<T> {
        while self.buffer.len() < self.capacity {
            match self.ask() {
                Some(Ok((number, item))) => {
                    self.anchors.held(number);
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
        self.anchors.given(number);
        Some(Ok(item))
    }

    fn position(&self, at: &mut Position) {
        let settings = [self.capacity as u64, self.seed];
        let counts = |from: u64, again: u64| [self.epoch, self.drawn, self.read, from, again];
        match self.anchors.oldest() {
            Some((read, asked, position)) => {
                at.push(NAME, &[&settings[..], &counts(read, self.asked - asked)].concat());
                at.extend(position);
            }
            None => {
                at.push(NAME, &[&settings[..], &counts(self.read, 0)].concat());
                self.above.position(at);
            }
        }
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let settings = [("capacity", self.capacity as u64), ("seed", self.seed)];
        let [epoch, drawn, read, from, again] = at.take(NAME, &settings)?;
        self.begin(epoch);
        self.above.seek(at)?;
        let held = self.drawn_again(drawn, read)?;
        let places: HashMap<u64, usize> =
            held.iter().enumerate().map(|(place, &number)| (number, place)).collect();
        let mut buffer: Vec<Option<Item<T>>> = held.iter().map(|_| None).collect();
        (self.read, self.asked) = (from, 0);
        for _ in 0..again {
            match self.ask() {
                Some(Ok((number, item))) => {
                    if let Some(&place) = places.get(&number) {
                        self.anchors.held(number);
                        buffer[place] = Some(item);
                    }
                }
                // It was passed on the first time.
                Some(Err(_)) => {}
                None => break,
            }
        }
        let items: Option<Vec<Item<T>>> = buffer.into_iter().collect();
        match items {
            Some(items) if self.read == read => {
                self.buffer = held.into_iter().zip(items).collect();
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
        self.above.restart(epoch)
    }
}
