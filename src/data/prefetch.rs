//! Reading ahead on another thread.

use super::stream::Stream;
use crate::core::{Error, catch};
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// A stream that runs on a thread of its own and keeps items ready: made by [`Stream::prefetch`].
///
/// The items come in the stream's order. After an error the thread stops: the error is the last
/// item. A panic of the stream goes on in the thread that asks for the next item. Dropping the
/// iterator stops the thread, waiting for the one item that it is making.
pub struct Prefetch<T> {
    items: Option<Receiver<Result<T, Error>>>,
    worker: Option<JoinHandle<()>>,
    failure: Option<Error>,
}

impl<T: Send + 'static> Prefetch<T> {
    pub(super) fn new(stream: Stream<T>, count: usize) -> Prefetch<T> {
        let (sender, items) = sync_channel(count);
        let builder = thread::Builder::new().name("oxidax-prefetch".into());
        match builder.spawn(move || produce(stream, &sender)) {
            Ok(worker) => Prefetch { items: Some(items), worker: Some(worker), failure: None },
            Err(source) => {
                let failure = Some(no_thread(source));
                Prefetch { items: None, worker: None, failure }
            }
        }
    }
}

fn no_thread(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("prefetch thread"), source }
}

/// Sends items until the stream ends, one fails, or nobody is there to receive.
fn produce<T>(mut stream: Stream<T>, sender: &SyncSender<Result<T, Error>>) {
    loop {
        // An operation that throws here has no boundary above it but this one.
        let item = match catch(|| stream.next()) {
            Ok(Some(item)) => item,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let last = item.is_err();
        if sender.send(item).is_err() || last {
            return;
        }
    }
}

impl<T> Iterator for Prefetch<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        if let Some(item) = self.items.as_ref().and_then(|items| items.recv().ok()) {
            return Some(item);
        }
        self.items = None;
        if let Some(Err(panic)) = self.worker.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        None
    }
}

impl<T> Drop for Prefetch<T> {
    fn drop(&mut self) {
        // Without a receiver the thread's next `send` fails, and a blocked one returns.
        self.items = None;
        if let Some(worker) = self.worker.take() {
            // A panic nobody asked for any more has been printed by the panic hook already.
            drop(worker.join());
        }
    }
}

impl<T> fmt::Debug for Prefetch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefetch<{}>", std::any::type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_come_in_order() {
        for count in [0, 1, 2, 100] {
            let items: Result<Vec<u32>, Error> =
                Stream::new((0..50).map(Ok)).prefetch(count).collect();
            assert_eq!(items.unwrap(), (0..50).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn the_first_error_is_the_last_item() {
        let fails = |n: u32| if n == 2 { Err(Error::Plugin("broken".into())) } else { Ok(n) };
        let items: Vec<_> = Stream::new((0..9).map(fails)).prefetch(4).collect();
        assert_eq!(items.len(), 3);
        assert_eq!(items[2].as_ref().unwrap_err().to_string(), "error[plugin]: broken");
    }

    #[test]
    fn what_an_operation_throws_arrives_as_an_error() {
        let zero = Stream::new((0..3).map(Ok)).then(|n: u32| match n {
            1 => crate::core::throw_operands("then", crate::core::RuleError::value("one"), &[]),
            n => Ok(n),
        });
        let items: Vec<_> = zero.prefetch(1).collect();
        assert_eq!(items.len(), 2);
        assert!(items[1].as_ref().unwrap_err().to_string().starts_with("error[value]: then: one"));
    }

    #[test]
    fn a_panic_reaches_the_consumer() {
        let stream = Stream::new((0..3).map(|n: u32| match n {
            1 => panic!("mine"),
            n => Ok(n),
        }));
        let mut items = stream.prefetch(1);
        assert_eq!(items.next().unwrap().unwrap(), 0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| items.next()));
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
        assert!(items.next().is_none());
    }

    #[test]
    fn dropping_it_stops_an_endless_stream() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let endless = std::iter::repeat_with(move || Ok(counter.fetch_add(1, Ordering::Relaxed)));
        let mut items = Stream::new(endless).prefetch(2);
        assert_eq!(items.next().unwrap().unwrap(), 0);
        drop(items);
        // One was taken, two are ready, and the thread holds one at most.
        assert!(made.load(Ordering::Relaxed) <= 4);
    }
}
