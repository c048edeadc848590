//! A bounded cache whose values are made once, however many threads ask at a time.

use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// One entry: a key, and the value once it is made.
pub(crate) struct Slot<K, V> {
    key: K,
    value: OnceLock<V>,
    making: Mutex<()>,
    last_use: AtomicU64,
}

impl<K, V> Slot<K, V> {
    /// The key.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// The value.
    pub(crate) fn value(&self) -> &V {
        self.value.get().expect("slots are handed out with their value made")
    }
}

/// All entries by the hash of their keys.
type Slots<K, V> = FxHashMap<u64, Vec<Arc<Slot<K, V>>>>;

/// A map from keys, found by hash and comparison, to values. When it is full the entry that was not
/// used for longest goes; whoever still holds it keeps it alive.
///
/// No lock is held while a value is made or used: a slot has a lock of its own for making.
pub(crate) struct Cache<K, V> {
    slots: RwLock<Slots<K, V>>,
    /// The entry that was used last: most callers want the same one again and need no hash for it.
    recent: RwLock<Option<Arc<Slot<K, V>>>>,
    capacity: AtomicUsize,
    clock: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

impl<K, V> Cache<K, V> {
    /// An empty cache for at most `capacity` entries, and one at least.
    pub(crate) fn new(capacity: usize) -> Cache<K, V> {
        Cache {
            slots: RwLock::new(FxHashMap::default()),
            recent: RwLock::new(None),
            capacity: AtomicUsize::new(capacity.max(1)),
            clock: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    fn find(&self, hash: u64, matches: &impl Fn(&K) -> bool) -> Option<Arc<Slot<K, V>>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(&hash)?.iter().find(|slot| matches(&slot.key)).cloned()
    }

    /// The entry whose key matches, if its value is made already.
    pub(crate) fn get(&self, hash: u64, matches: impl Fn(&K) -> bool) -> Option<Arc<Slot<K, V>>> {
        let slot = self.find(hash, &matches).filter(|slot| slot.value.get().is_some())?;
        self.touch(&slot);
        // Whoever finds the lock taken lets it be: the other thread's entry is as recent.
        if let Ok(mut recent) = self.recent.try_write() {
            *recent = Some(slot.clone());
        }
        Some(slot)
    }

    /// What `f` makes of the key of the entry that was found last, and the entry, if that is
    /// something: a call that is like the last one needs no hash.
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

    /// The entry whose key matches; its value is made if it is not there. Threads that ask for one
    /// key at a time wait for the first. A failure is returned and not kept.
    pub(crate) fn get_or_make<E>(
        &self,
        hash: u64,
        matches: impl Fn(&K) -> bool,
        key: impl FnOnce() -> K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<Slot<K, V>>, E> {
        if let Some(slot) = self.get(hash, &matches) {
            return Ok(slot);
        }
        let slot = match self.find(hash, &matches) {
            Some(slot) => slot,
            None => self.insert(hash, &matches, key()),
        };
        let making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.value.get().is_none() {
            self.misses.fetch_add(1, Ordering::Relaxed);
            match make(&slot.key) {
                Ok(value) => {
                    let set = slot.value.set(value);
                    debug_assert!(set.is_ok(), "the slot's lock is held");
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
        // Another thread may have been faster.
        if let Some(slot) = slots.get(&hash).and_then(|list| list.iter().find(|s| matches(&s.key)))
        {
            return slot.clone();
        }
        self.shrink(&mut slots, self.capacity() - 1);
        let slot = Arc::new(Slot {
            key,
            value: OnceLock::new(),
            making: Mutex::new(()),
            last_use: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
        });
        slots.entry(hash).or_default().push(slot.clone());
        slot
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

    /// Drops entries until there are `left`.
    fn shrink(&self, slots: &mut Slots<K, V>, left: usize) {
        for _ in left..slots.values().map(Vec::len).sum() {
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
            list.retain(|slot| age(slot) != oldest);
            if list.is_empty() {
                slots.remove(&hash);
            }
            // With room for one entry the last one used is the oldest too, and would live on here.
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.take_if(|slot| age(slot) == oldest);
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sets how many entries there may be, one at least; those longest unused go if there are more.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        self.capacity.store(capacity.max(1), Ordering::Relaxed);
        self.shrink(&mut slots, capacity.max(1));
    }

    /// How many entries there may be.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// How often a value had to be made.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// How many entries have been dropped for room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// How many entries there are.
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
    fn the_entry_longest_unused_goes() {
        let cache = Cache::new(2);
        assert_eq!((value(&cache, 1), value(&cache, 3), value(&cache, 1)), (10, 30, 10));
        assert_eq!(value(&cache, 5), 50);
        assert!(cache.get(1, |key| *key == 3).is_none());
        assert!(cache.get(1, |key| *key == 1).is_some());
        assert_eq!((cache.len(), cache.evictions()), (2, 1));
    }

    #[test]
    fn the_entry_used_last_is_found_without_its_hash() {
        let recent = |cache: &Cache<u32, u32>, key: u32| {
            cache
                .get_recent(|slot| (*slot.key() == key).then_some(()))
                .map(|(slot, ())| *slot.value())
        };
        let cache = Cache::new(2);
        assert_eq!(recent(&cache, 1), None);
        assert_eq!((value(&cache, 1), value(&cache, 1)), (10, 10));
        assert_eq!((recent(&cache, 1), recent(&cache, 3)), (Some(10), None));
        // Found that way it counts as used, so the other entry is the one that goes.
        value(&cache, 3);
        assert_eq!(recent(&cache, 1), Some(10));
        value(&cache, 5);
        assert!(cache.get(1, |key| *key == 3).is_none());
        assert_eq!(recent(&cache, 1), Some(10));
        let single = Cache::new(1);
        assert_eq!((value(&single, 1), value(&single, 1)), (10, 10));
        value(&single, 2);
        assert_eq!(recent(&single, 1), None, "an entry that was dropped is not found");
    }

    #[test]
    fn a_smaller_limit_drops_those_longest_unused() {
        let cache = Cache::new(4);
        for key in [1, 2, 3, 4, 1] {
            value(&cache, key);
        }
        assert_eq!((cache.len(), cache.misses(), cache.evictions()), (4, 4, 0));
        cache.set_capacity(2);
        assert_eq!((cache.len(), cache.capacity(), cache.evictions()), (2, 2, 2));
        assert!(cache.get(1, |key| *key == 1).is_some() && cache.get(0, |key| *key == 4).is_some());
        cache.set_capacity(0);
        assert_eq!((cache.len(), cache.capacity()), (1, 1), "one at least");
        value(&cache, 9);
        assert_eq!((cache.len(), cache.misses(), cache.evictions()), (1, 5, 4));
        cache.set_capacity(3);
        value(&cache, 8);
        assert_eq!((cache.len(), cache.evictions()), (2, 4), "a larger one drops none");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let cache: Cache<u32, u32> = Cache::new(2);
        let failed = cache.get_or_make(0, |_| true, || 0, |_| Err("no"));
        assert_eq!(failed.err(), Some("no"));
        assert_eq!(cache.len(), 0);
        assert_eq!(value(&cache, 0), 0);
    }

    #[test]
    fn threads_share_one_making() {
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
