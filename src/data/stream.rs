//! Streams of examples.

use super::prefetch::Prefetch;
use crate::core::{Error, RuleError, throw_operands};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt;

/// An iterator of examples or batches, each of which may have failed to be read.
///
/// Lazy: nothing is read before it is asked for, but by [`Stream::prefetch`].
pub struct Stream<T> {
    items: Box<dyn Iterator<Item = Result<T, Error>> + Send>,
}

/// An example that can be put together with others to a batch.
pub trait Collate: Sized {
    /// The batch.
    type Batch;
    /// Puts at least one example together.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if the arrays cannot be put on the device; `Op` if the examples do not
    /// fit together.
    fn collate(examples: &[Self]) -> Result<Self::Batch, Error>;
}

impl<T: Send + 'static> Stream<T> {
    /// A stream of what an iterator gives.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// let stream = Stream::new((0..3).map(Ok)).then(|number| Ok(number * 2));
    /// assert_eq!(stream.collect::<Result<Vec<_>, _>>()?, [0, 2, 4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn new<I>(items: I) -> Stream<T>
    where
        I: IntoIterator<Item = Result<T, Error>>,
        I::IntoIter: Send + 'static,
    {
        Stream { items: Box::new(items.into_iter()) }
    }

    /// What `f` makes of each item; errors pass by.
    pub fn then<U: Send + 'static>(
        self,
        mut f: impl FnMut(T) -> Result<U, Error> + Send + 'static,
    ) -> Stream<U> {
        Stream::new(self.items.map(move |item| item.and_then(&mut f)))
    }

    /// The items in random order: each is drawn from a buffer that holds the next `capacity` ones.
    ///
    /// Uniform over all orders if the buffer holds the whole stream; a capacity of 0 or 1 keeps the
    /// order. The order follows from `seed` alone; give every epoch its own. Errors are passed on as
    /// they are met.
    pub fn shuffle(self, capacity: usize, seed: u64) -> Stream<T> {
        let mut items = self.items;
        let mut random = StdRng::seed_from_u64(seed);
        let mut buffer = Vec::new();
        Stream::new(std::iter::from_fn(move || {
            while buffer.len() < capacity.max(1) {
                match items.next() {
                    Some(Ok(item)) => buffer.push(item),
                    Some(Err(error)) => return Some(Err(error)),
                    None => break,
                }
            }
            if buffer.is_empty() {
                return None;
            }
            let drawn = random.random_range(0..buffer.len());
            Some(Ok(buffer.swap_remove(drawn)))
        }))
    }

    /// Runs the stream on a thread of its own, which keeps up to `count` items ready. See
    /// [`Prefetch`].
    pub fn prefetch(self, count: usize) -> Prefetch<T> {
        Prefetch::new(self, count)
    }
}

impl<T: Collate + Send + 'static> Stream<T> {
    /// Batches of exactly `size` examples; what is left at the end and does not fill one is dropped,
    /// so that every batch has one shape.
    ///
    /// An error is passed on in place of the batch that it interrupts, whose examples are lost.
    ///
    /// Throws `Op` (value) if `size` is 0.
    #[track_caller]
    pub fn batch(self, size: usize) -> Stream<T::Batch>
    where
        T::Batch: Send + 'static,
    {
        if size == 0 {
            let error = RuleError::value("a batch needs at least 1 example, got a size of 0");
            throw_operands("batch", error, &[]);
        }
        let mut items = self.items;
        Stream::new(std::iter::from_fn(move || {
            let examples: Result<Vec<T>, Error> = items.by_ref().take(size).collect();
            match examples {
                Ok(examples) if examples.len() < size => None,
                Ok(examples) => Some(T::collate(&examples)),
                Err(error) => Some(Err(error)),
            }
        }))
    }
}

impl<T> Iterator for Stream<T> {
    type Item = Result<T, Error>;
    fn next(&mut self) -> Option<Result<T, Error>> {
        self.items.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream<{}>", std::any::type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Number(u32);

    impl Collate for Number {
        type Batch = Vec<u32>;
        fn collate(examples: &[Number]) -> Result<Vec<u32>, Error> {
            Ok(examples.iter().map(|number| number.0).collect())
        }
    }

    fn failing(at: u32) -> Stream<Number> {
        Stream::new((0..7).map(move |number| match number == at {
            true => Err(Error::Plugin(format!("no {number}"))),
            false => Ok(Number(number)),
        }))
    }

    fn shown(stream: Stream<Vec<u32>>) -> Vec<String> {
        stream
            .map(|item| item.map_or_else(|e| e.to_string(), |batch| format!("{batch:?}")))
            .collect()
    }

    #[test]
    fn batches_have_one_size_and_the_rest_is_dropped() {
        assert_eq!(shown(failing(99).batch(3)), ["[0, 1, 2]", "[3, 4, 5]"]);
        assert_eq!(shown(failing(99).batch(7)), ["[0, 1, 2, 3, 4, 5, 6]"]);
        assert!(shown(failing(99).batch(8)).is_empty());
    }

    #[test]
    fn an_error_takes_the_place_of_its_batch() {
        let expected = ["[0, 1]", "error[plugin]: no 3", "[4, 5]"];
        assert_eq!(shown(failing(3).batch(2)), expected);
        assert_eq!(failing(3).shuffle(10, 0).filter(Result::is_err).count(), 1);
    }

    #[test]
    fn an_empty_batch_is_refused_where_it_is_asked_for() {
        let error = crate::catch(|| failing(99).batch(0)).unwrap_err().to_string();
        assert!(error.starts_with("error[value]: batch: "), "{error}");
        assert!(error.contains(file!()), "{error}");
    }

    #[test]
    fn shuffling_permutes_by_seed() {
        let order = |capacity, seed| -> Vec<u32> {
            failing(99).shuffle(capacity, seed).map(|number| number.unwrap().0).collect()
        };
        assert_eq!(order(100, 1), order(100, 1));
        assert_ne!(order(100, 1), order(100, 2));
        assert_eq!(order(1, 3), [0, 1, 2, 3, 4, 5, 6]);
        for seed in 0..20 {
            let mut sorted = order(3, seed);
            // An item comes no earlier than the buffer can have seen it.
            assert!(sorted.iter().enumerate().all(|(at, &number)| number as usize <= at + 2));
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
}
