//! [`Cache`]: a bounded LRU cache that computes each value once across threads.

use crate::core::monitoring;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// An entry: a key, and its value once it is computed.
pub(crate) struct Slot<K, V> {
    key: K,
    value: OnceLock<V>,
    making: Mutex<()>,
    last_use: AtomicU64,
    /// The bytes of the value.
    bytes: AtomicU64,
}

impl<K, V> Slot<K, V> {
    /// Returns the key.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> &V {
        self.value.get().expect("slots are returned with a value")
    }
}

/// All entries, by the hash of their keys.
type Slots<K, V> = FxHashMap<u64, Vec<Arc<Slot<K, V>>>>;

/// A map from keys, looked up by hash and comparison, to values. When it has too many entries or
/// bytes it evicts the least recently used entries. Holders of an evicted entry keep it alive.
///
/// The map is not locked while a value is computed or used. Each slot has its own lock for that.
pub(crate) struct Cache<K, V> {
    slots: RwLock<Slots<K, V>>,
    /// The last used entry. Most calls need the same entry again and find it without a hash.
    recent: RwLock<Option<Arc<Slot<K, V>>>>,
    capacity: AtomicUsize,
    /// Returns the bytes of a value.
    measure: fn(&V) -> u64,
    bytes: AtomicU64,
    max_bytes: AtomicU64,
    clock: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

impl<K, V> Cache<K, V> {
    /// Creates an empty cache for at most `capacity` entries, at least one.
    pub(crate) fn new(capacity: usize) -> Cache<K, V> {
        Cache {
            slots: RwLock::new(FxHashMap::default()),
            recent: RwLock::new(None),
            capacity: AtomicUsize::new(capacity.max(1)),
            measure: |_| 0,
            bytes: AtomicU64::new(0),
            max_bytes: AtomicU64::new(u64::MAX),
            clock: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Limits the bytes of all values, as `measure` returns them. One entry is always kept.
    pub(crate) fn with_max_bytes(self, max_bytes: u64, measure: fn(&V) -> u64) -> Cache<K, V> {
        Cache { max_bytes: AtomicU64::new(max_bytes), measure, ..self }
    }

    fn find(&self, hash: u64, matches: &impl Fn(&K) -> bool) -> Option<Arc<Slot<K, V>>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(&hash)?.iter().find(|slot| matches(&slot.key)).cloned()
    }

    /// Returns the entry whose key matches, if its value is computed.
    pub(crate) fn get(&self, hash: u64, matches: impl Fn(&K) -> bool) -> Option<Arc<Slot<K, V>>> {
        let slot = self.find(hash, &matches).filter(|slot| slot.value.get().is_some())?;
        self.touch(&slot);
        // If the lock is taken, the entry of the other thread is as recent.
        if let Ok(mut recent) = self.recent.try_write() {
            *recent = Some(slot.clone());
        }
        Some(slot)
    }

    /// Returns the last used entry and the result of `f` for it, unless that is `None`. Repeated
    /// calls need no hash.
    pub(crate) fn get_recent<R>(
        &self,
        f: impl FnOnce(&Slot<K, V>) -> Option<R>,
    ) -> Option<(Arc<Slot<K, V>>, R)> {
        let slot = self.recent.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let result = f(&slot)?;
        self.touch(&slot);
        Some((slot, result))
    }

    fn touch(&self, slot: &Slot<K, V>) {
        slot.last_use.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the entry whose key matches, and computes its value if it is missing. Threads that
    /// request the same key wait for the first. Failures are returned and not cached.
    pub(crate) fn get_or_make<E>(
        &self,
        hash: u64,
        matches: impl Fn(&K) -> bool,
        key: impl FnOnce() -> K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<Slot<K, V>>, E> {
        self.get_or_try_make(hash, matches, || Ok(key()), make)
    }

    /// As [`Cache::get_or_make`], with a `key` that may refuse a new entry. No other entry is
    /// evicted then.
    pub(crate) fn get_or_try_make<E>(
        &self,
        hash: u64,
        matches: impl Fn(&K) -> bool,
        key: impl FnOnce() -> Result<K, E>,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<Slot<K, V>>, E> {
        if let Some(slot) = self.get(hash, &matches) {
            return Ok(slot);
        }
        // Listeners are called after the slot's lock is released.
        let _deferred = monitoring::defer();
        let slot = match self.find(hash, &matches) {
            Some(slot) => slot,
            None => self.insert(hash, &matches, key()?),
        };
        let making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.value.get().is_none() {
            self.misses.fetch_add(1, Ordering::Relaxed);
            match make(&slot.key) {
                Ok(value) => {
                    let bytes = (self.measure)(&value);
                    let set = slot.value.set(value);
                    debug_assert!(set.is_ok(), "the slot's lock is held");
                    self.add_bytes(&slot, bytes);
                }
                Err(error) => {
                    self.remove(hash, &slot);
                    return Err(error);
                }
            }
        }
        drop(making);
        Ok(slot)
    }

    fn insert(&self, hash: u64, matches: &impl Fn(&K) -> bool, key: K) -> Arc<Slot<K, V>> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have inserted it.
        if let Some(slot) = slots.get(&hash).and_then(|list| list.iter().find(|s| matches(&s.key)))
        {
            return slot.clone();
        }
        self.shrink(&mut slots, self.capacity() - 1);
        let slot = Arc::new(Slot {
            key,
            value: OnceLock::new(),
            bytes: AtomicU64::new(0),
            making: Mutex::new(()),
            last_use: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
        });
        slots.entry(hash).or_default().push(slot.clone());
        slot
    }

    /// Counts the bytes of a new value, and evicts other entries if there are too many.
    fn add_bytes(&self, slot: &Slot<K, V>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        slot.bytes.store(bytes, Ordering::Relaxed);
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total > self.max_bytes.load(Ordering::Relaxed) {
            self.touch(slot);
            self.evict_bytes();
        }
    }

    fn evict_bytes(&self) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let max = self.max_bytes.load(Ordering::Relaxed);
        while self.bytes() > max && slots.values().map(Vec::len).sum::<usize>() > 1 {
            self.evict(&mut slots);
        }
    }

    fn remove(&self, hash: u64, slot: &Arc<Slot<K, V>>) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = slots.get_mut(&hash) {
            list.retain(|other| !Arc::ptr_eq(other, slot));
            if list.is_empty() {
                slots.remove(&hash);
            }
        }
    }

    /// Evicts entries until at most `len` are left.
    fn shrink(&self, slots: &mut Slots<K, V>, len: usize) {
        for _ in len..slots.values().map(Vec::len).sum() {
            self.evict(slots);
        }
    }

    fn evict(&self, slots: &mut Slots<K, V>) {
        let age = |slot: &Arc<Slot<K, V>>| slot.last_use.load(Ordering::Relaxed);
        let oldest = slots
            .iter()
            .flat_map(|(&hash, list)| list.iter().map(move |slot| (age(slot), hash)))
            .min();
        if let Some((oldest, hash)) = oldest
            && let Some(list) = slots.get_mut(&hash)
        {
            let evicted = list.iter().filter(|slot| age(slot) == oldest);
            let bytes = evicted.map(|slot| slot.bytes.load(Ordering::Relaxed)).sum();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            list.retain(|slot| age(slot) != oldest);
            if list.is_empty() {
                slots.remove(&hash);
            }
            // With a capacity of one, the last used entry is also the oldest.
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.take_if(|slot| age(slot) == oldest);
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets the capacity, at least one. Evicts the least recently used entries beyond it.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        self.capacity.store(capacity.max(1), Ordering::Relaxed);
        self.shrink(&mut slots, capacity.max(1));
    }

    /// Sets the largest number of bytes of all values. Evicts the least recently used entries
    /// beyond it; one is always kept.
    pub(crate) fn set_max_bytes(&self, bytes: u64) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
        self.evict_bytes();
    }

    /// Returns the bytes of all values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the capacity.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Returns the number of computed values.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Returns the number of evicted entries.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn value(cache: &Cache<u32, u32>, key: u32) -> u32 {
        let made = cache.get_or_make::<Infallible>(
            u64::from(key % 2),
            |other| *other == key,
            || key,
            |key| Ok(key * 10),
        );
        *made.expect("never fails").value()
    }

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let cache = Cache::new(2);
        assert_eq!((value(&cache, 1), value(&cache, 3), value(&cache, 1)), (10, 30, 10));
        assert_eq!(value(&cache, 5), 50);
        assert!(cache.get(1, |key| *key == 3).is_none());
        assert!(cache.get(1, |key| *key == 1).is_some());
        assert_eq!((cache.len(), cache.evictions()), (2, 1));
    }

    #[test]
    fn last_used_entry_is_found_without_a_hash() {
        let recent = |cache: &Cache<u32, u32>, key: u32| {
            cache
                .get_recent(|slot| (*slot.key() == key).then_some(()))
                .map(|(slot, ())| *slot.value())
        };
        let cache = Cache::new(2);
        assert_eq!(recent(&cache, 1), None);
        assert_eq!((value(&cache, 1), value(&cache, 1)), (10, 10));
        assert_eq!((recent(&cache, 1), recent(&cache, 3)), (Some(10), None));
        // That counts as a use, so the other entry is evicted.
        value(&cache, 3);
        assert_eq!(recent(&cache, 1), Some(10));
        value(&cache, 5);
        assert!(cache.get(1, |key| *key == 3).is_none());
        assert_eq!(recent(&cache, 1), Some(10));
        let single = Cache::new(1);
        assert_eq!((value(&single, 1), value(&single, 1)), (10, 10));
        value(&single, 2);
        assert_eq!(recent(&single, 1), None, "an evicted entry is not found");
    }

    #[test]
    fn smaller_capacity_evicts_the_least_recently_used() {
        let cache = Cache::new(4);
        for key in [1, 2, 3, 4, 1] {
            value(&cache, key);
        }
        assert_eq!((cache.len(), cache.misses(), cache.evictions()), (4, 4, 0));
        cache.set_capacity(2);
        assert_eq!((cache.len(), cache.capacity(), cache.evictions()), (2, 2, 2));
        assert!(cache.get(1, |key| *key == 1).is_some() && cache.get(0, |key| *key == 4).is_some());
        cache.set_capacity(0);
        assert_eq!((cache.len(), cache.capacity()), (1, 1), "at least one");
        value(&cache, 9);
        assert_eq!((cache.len(), cache.misses(), cache.evictions()), (1, 5, 4));
        cache.set_capacity(3);
        value(&cache, 8);
        assert_eq!((cache.len(), cache.evictions()), (2, 4), "a larger capacity evicts none");
    }

    #[test]
    fn entries_beyond_the_bytes_are_evicted() {
        let cache = Cache::new(100).with_max_bytes(100, |value: &u32| u64::from(*value));
        for key in [3, 4, 2] {
            value(&cache, key);
        }
        assert_eq!((cache.len(), cache.bytes(), cache.evictions()), (3, 90, 0));
        value(&cache, 5);
        assert_eq!((cache.len(), cache.bytes(), cache.evictions()), (2, 70, 2));
        value(&cache, 20);
        assert_eq!((cache.len(), cache.bytes()), (1, 200), "the newest entry is kept");
        value(&cache, 1);
        assert_eq!((cache.len(), cache.bytes()), (1, 10));
        cache.set_max_bytes(0);
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn failures_are_not_cached() {
        let cache: Cache<u32, u32> = Cache::new(2);
        let failed = cache.get_or_make(0, |_| true, || 0, |_| Err("no"));
        assert_eq!(failed.err(), Some("no"));
        assert_eq!(cache.len(), 0);
        assert_eq!(value(&cache, 0), 0);
        let refused = cache.get_or_try_make(0, |_| false, || Err("full"), |_| Ok(1));
        assert_eq!((refused.err(), cache.len(), cache.evictions()), (Some("full"), 1, 0));
    }

    #[test]
    fn threads_share_one_computation() {
        let cache: Cache<u32, u32> = Cache::new(2);
        let made = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |_: &u32| -> Result<u32, Infallible> {
                        made.fetch_add(1, Ordering::Relaxed);
                        Ok(7)
                    };
                    let slot = cache.get_or_make(0, |_| true, || 0, make).expect("never fails");
                    assert_eq!(*slot.value(), 7);
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}
