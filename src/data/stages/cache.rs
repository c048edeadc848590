//! Keeping the items of the first epoch in memory.

use crate::core::Error;
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next};
use crate::data::position::{Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::sync::Arc;

const NAME: &str = "cache";

impl<T: Clone + Send + 'static> Stream<T> {
    /// Keeps the items in memory as they are read. Later epochs, of a [`Stream::repeat`] after this
    /// stage, clone them instead of reading and decoding again.
    ///
    /// All epochs have the order of the first: shuffle after this stage, not before. Random
    /// augmentation belongs after it too. An error is returned in the first epoch, and is not part
    /// of later ones. A position stores the number of items, and [`Stream::resume`] reads them
    /// again. [`Stream::cache_on_disk`] survives the program, and is for more data than fits into
    /// memory.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// static DECODED: AtomicUsize = AtomicUsize::new(0);
    /// let decoded = Stream::new((0..10).map(Ok)).map(|n: u32| {
    ///     DECODED.fetch_add(1, Ordering::Relaxed);
    ///     Ok(n * n)
    /// });
    /// let epochs = decoded.cache().shuffle(10, 7).repeat(3);
    /// assert_eq!(epochs.count(), 30);
    /// assert_eq!(DECODED.load(Ordering::Relaxed), 10);
    /// ```
    #[track_caller]
    pub fn cache(self) -> Stream<T> {
        self.through(|upstream, instruments| {
            let mut start = Position::default();
            upstream.position(&mut start);
            let meter = instruments.stage(NAME, Work::Source, 1);
            Cache { upstream, start, items: Vec::new(), next: 0, pulled: 0, complete: false, meter }
        })
    }
}

struct Cache<T> {
    upstream: BoxedStage<T>,
    /// The upstream position before the first item.
    start: Position,
    items: Vec<Item<T>>,
    /// The index of the next item.
    next: usize,
    /// Items and errors pulled.
    pulled: u64,
    /// True if upstream has ended.
    complete: bool,
    meter: Arc<Meter>,
}

impl<T: Clone> Cache<T> {
    fn pull(&mut self) -> Option<Result<(), Error>> {
        if self.complete {
            return None;
        }
        let Some(item) = self.upstream.next() else {
            self.complete = true;
            return None;
        };
        self.pulled += 1;
        Some(item.map(|item| self.items.push(item)))
    }
}

impl<T: Clone + Send> Stage<T> for Cache<T> {
    fn next(&mut self) -> Next<T> {
        if self.next == self.items.len()
            && let Err(error) = self.pull()?
        {
            return Some(Err(error));
        }
        let item = &self.items[self.next];
        self.next += 1;
        let copy = || Item { value: item.value.clone(), origin: item.origin.clone() };
        Some(Ok(self.meter.time(copy)))
    }

    fn position(&self, position: &mut Position) {
        let (next, items) = (self.next as u64, self.items.len() as u64);
        position.push(NAME, &[next, items, self.pulled, self.complete.into()]);
        position.extend(&self.start);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [next, items, pulled, complete] = cursor.take(NAME, &[])?;
        self.upstream.seek(cursor)?;
        self.start = Position::default();
        self.upstream.position(&mut self.start);
        self.items.clear();
        (self.pulled, self.complete) = (0, false);
        while self.pulled < pulled {
            // An error was returned before.
            if self.pull().is_none() {
                break;
            }
        }
        if complete != 0 && self.pull().is_some() {
            return Err(refused(format!(
                "the data has changed: there are more than {items} items"
            )));
        }
        if self.items.len() as u64 != items || self.pulled != pulled || next > items {
            let found = self.items.len();
            return Err(refused(format!(
                "the data has changed: {items} items had been cached, now there are {found}"
            )));
        }
        self.next = next as usize;
        Ok(())
    }

    fn restart(&mut self, _epoch: u64) -> Result<(), Error> {
        self.next = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_epochs_are_continued_from_upstream() {
        let stream = Stream::new((0..5).map(Ok)).cache().take(3).repeat(2);
        assert_eq!(stream.collect::<Result<Vec<u32>, _>>().unwrap(), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn errors_are_returned_once() {
        let items = (0..4).map(|n| if n == 1 { Err(Error::data("t", "bad")) } else { Ok(n) });
        let all: Vec<_> = Stream::new(items).cache().repeat(2).collect();
        assert_eq!(all.iter().filter(|item| item.is_err()).count(), 1);
        assert_eq!(all.len(), 7);
    }
}
