//! Values by key, and the coordinator's memory limit.

use super::failure::Failure;
use super::message::MAX_KEY;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use tokio::sync::oneshot::{self, Receiver, Sender};

/// Memory of a value besides its bytes and its key.
const OVERHEAD: u64 = 64;

/// The coordinator's memory.
pub(super) struct Store {
    values: BTreeMap<Vec<u8>, Bytes>,
    waiting: HashMap<Vec<u8>, Vec<Sender<Bytes>>>,
    /// Bytes that are stored or expected.
    reserved: u64,
    limit: u64,
}

/// A value, or requests that wait for it.
pub(super) enum Value {
    Here(Bytes),
    Later(Receiver<Bytes>),
}

impl Store {
    pub(super) fn new(limit: u64) -> Store {
        Store { values: BTreeMap::new(), waiting: HashMap::new(), reserved: 0, limit }
    }

    /// Reserves memory for expected bytes. The caller releases it.
    pub(super) fn reserve(&mut self, bytes: u64, what: &str) -> Result<u64, Failure> {
        let cost = bytes.saturating_add(OVERHEAD);
        let free = self.limit.saturating_sub(self.reserved);
        if cost > free {
            return Err(Failure::refused(format!(
                "{what} takes {cost} bytes, and of the coordinator's {} only {free} are free",
                self.limit
            ))
            .help("send less data at once, delete unused keys, or raise `store_limit`"));
        }
        self.reserved += cost;
        Ok(cost)
    }

    pub(super) fn release(&mut self, cost: u64) {
        self.reserved -= cost;
    }

    /// Stores a value in reserved memory, replacing an older one.
    pub(super) fn put(&mut self, key: Vec<u8>, value: Bytes) {
        for waiter in self.waiting.remove(&key).unwrap_or_default() {
            // The receiver may have given up.
            drop(waiter.send(value.clone()));
        }
        let len = key.len() as u64;
        if let Some(old) = self.values.insert(key, value) {
            self.release(len + old.len() as u64 + OVERHEAD);
        }
    }

    pub(super) fn get(&mut self, key: &[u8]) -> Value {
        match self.values.get(key) {
            Some(value) => Value::Here(value.clone()),
            None => {
                let (sender, receiver) = oneshot::channel();
                self.waiting.entry(key.to_vec()).or_default().push(sender);
                Value::Later(receiver)
            }
        }
    }

    /// Returns the value, if it is set.
    pub(super) fn try_get(&self, key: &[u8]) -> Option<Bytes> {
        self.values.get(key).cloned()
    }

    /// Removes requests for a key that have given up.
    pub(super) fn tidy(&mut self, key: &[u8]) {
        if let Some(waiters) = self.waiting.get_mut(key) {
            waiters.retain(|waiter| !waiter.is_closed());
            if waiters.is_empty() {
                self.waiting.remove(key);
            }
        }
    }

    /// Removes a key. Returns true if it existed.
    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        let removed = self.values.remove(key);
        if let Some(value) = &removed {
            self.release(key.len() as u64 + value.len() as u64 + OVERHEAD);
        }
        removed.is_some()
    }

    /// Returns the keys with a prefix, sorted.
    pub(super) fn list(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let from = self.values.range(prefix.to_vec()..);
        from.map(|(key, _)| key).take_while(|key| key.starts_with(prefix)).cloned().collect()
    }
}

/// Checks the length of a key.
pub(super) fn check_key(key: &[u8]) -> Result<(), Failure> {
    match key.len() {
        1..=MAX_KEY => Ok(()),
        0 => Err(Failure::refused("a key must have at least one byte")),
        len => Err(Failure::refused(format!("a key has at most {MAX_KEY} bytes, this one {len}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, key: &str, value: &'static [u8]) -> Result<(), Failure> {
        store.reserve((key.len() + value.len()) as u64, "a value")?;
        store.put(key.into(), Bytes::from_static(value));
        Ok(())
    }

    #[test]
    fn values_are_replaced_listed_and_deleted() {
        let mut store = Store::new(10_000);
        for (key, value) in [("b/1", "x"), ("a/2", "y"), ("a/1", "z"), ("a/1", "zz")] {
            put(&mut store, key, value.as_bytes()).unwrap();
        }
        assert_eq!(store.list(b"a/"), [b"a/1", b"a/2"]);
        assert_eq!(store.list(b"").len(), 3);
        assert_eq!(store.try_get(b"a/1").unwrap(), "zz");
        assert!(store.delete(b"a/1") && !store.delete(b"a/1"));
        assert!(store.delete(b"a/2") && store.delete(b"b/1"));
        assert_eq!(store.reserved, 0, "what was taken is given back");
    }

    #[test]
    fn waiting_requests_get_the_value() {
        let mut store = Store::new(10_000);
        let (Value::Later(mut first), Value::Later(second)) = (store.get(b"k"), store.get(b"k"))
        else {
            panic!("there is no value yet");
        };
        drop(second);
        store.tidy(b"k");
        assert_eq!(store.waiting[b"k".as_slice()].len(), 1);
        put(&mut store, "k", b"v").unwrap();
        assert_eq!(first.try_recv().unwrap(), "v");
        assert!(store.waiting.is_empty());
        assert!(matches!(store.get(b"k"), Value::Here(value) if value == "v"));
    }

    #[test]
    fn memory_is_limited() {
        let mut store = Store::new(200);
        put(&mut store, "a", &[0; 100]).unwrap();
        let refused = put(&mut store, "b", &[0; 100]).unwrap_err();
        assert!(refused.message().contains("165 bytes, and of the coordinator's 200 only 35"));
        assert!(store.delete(b"a"));
        put(&mut store, "b", &[0; 100]).unwrap();
        assert!(store.reserve(u64::MAX, "too much").is_err());
    }

    #[test]
    fn key_lengths_are_limited() {
        assert!(check_key(b"").is_err());
        assert!(check_key(&vec![0; MAX_KEY]).is_ok());
        assert!(check_key(&vec![0; MAX_KEY + 1]).is_err());
    }
}
