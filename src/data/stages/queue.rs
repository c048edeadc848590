//! A bounded queue between two threads, whose capacity may change and whose fill is measured.

use crate::data::instruments::Gauge;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A queue with one sender and one receiver.
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    /// Signals the sender that there is space, or that the receiver is gone.
    space: Condvar,
    /// Signals the receiver that there is an item, or that the sender is gone.
    item: Condvar,
    gauge: Arc<Gauge>,
}

struct Inner<T> {
    items: VecDeque<T>,
    capacity: usize,
    /// True while the receiver waits.
    awaited: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl<T> Queue<T> {
    /// Creates a queue. With a capacity of 0 an item is accepted only while the receiver waits.
    pub(super) fn new(capacity: usize, gauge: Arc<Gauge>) -> Queue<T> {
        gauge.set_capacity(capacity);
        let inner = Inner {
            items: VecDeque::new(),
            capacity,
            awaited: false,
            sender_gone: false,
            receiver_gone: false,
        };
        Queue { inner: Mutex::new(inner), space: Condvar::new(), item: Condvar::new(), gauge }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // Nothing can panic while the lock is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item, and waits for space first. Returns false if the receiver is gone.
    pub(super) fn push(&self, item: T) -> bool {
        let mut inner = self.lock();
        let mut blocked = false;
        loop {
            if inner.receiver_gone {
                return false;
            }
            if inner.items.len() < inner.capacity || (inner.awaited && inner.items.is_empty()) {
                break;
            }
            blocked = true;
            inner = self.space.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        self.gauge.pushed(blocked);
        inner.items.push_back(item);
        self.item.notify_one();
        true
    }

    /// Takes an item, and waits for one first. Returns it with the number of items that were there
    /// before waiting. The item is `None` if the queue is empty and the sender is gone.
    pub(super) fn pop(&self) -> (usize, Option<T>) {
        let mut inner = self.lock();
        let fill = inner.items.len();
        if fill > 0 || !inner.sender_gone {
            self.gauge.pulled(fill);
        }
        loop {
            if let Some(item) = inner.items.pop_front() {
                self.space.notify_one();
                return (fill, Some(item));
            }
            if inner.sender_gone {
                return (fill, None);
            }
            inner.awaited = true;
            self.space.notify_one();
            inner = self.item.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.awaited = false;
        }
    }

    /// Changes the capacity. Items above it stay until they are taken.
    pub(super) fn resize(&self, capacity: usize) {
        self.lock().capacity = capacity;
        self.gauge.set_capacity(capacity);
        self.space.notify_one();
    }

    /// Ends the queue for the receiver, after the items in it.
    pub(super) fn close(&self) {
        self.lock().sender_gone = true;
        self.item.notify_one();
    }

    /// Ends the queue for the sender, and drops the items in it.
    pub(super) fn cancel(&self) {
        let mut inner = self.lock();
        inner.receiver_gone = true;
        let items = std::mem::take(&mut inner.items);
        self.space.notify_one();
        drop(inner);
        drop(items);
    }
}
