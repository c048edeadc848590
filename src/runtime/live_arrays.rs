//! [`LiveArray`]: the arrays in the memory of this process's devices, while they are tracked.

use crate::core::{Aval, Error, Loc, Placement, units};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// True while new arrays are tracked.
static TRACKED: AtomicBool = AtomicBool::new(false);
/// True once the program has started or stopped tracking.
static IS_SET: AtomicBool = AtomicBool::new(false);
/// Arrays that were created while they were tracked, by number.
static ARRAYS: Mutex<Registry> = Mutex::new(Registry { next: 1, arrays: BTreeMap::new() });

struct Registry {
    next: u64,
    arrays: BTreeMap<u64, LiveArray>,
}

/// The elements of an array in the memory of devices. Prints as
/// `4.00 KiB  f32[32,32]  cpu:0  at src/main.rs:12:9`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveArray {
    /// The type of the whole array.
    pub aval: Aval,
    /// The device, or the devices and the sharding, that it is stored on.
    pub placement: Placement,
    /// Bytes of all its shards on this process's devices together.
    pub bytes: u64,
    /// The line that created it: an operation, a call of a `jit` function, or a copy from the host.
    /// [`Loc::UNKNOWN`] for arrays that oxidax creates for itself, such as constants.
    pub created_at: Loc,
}

impl fmt::Display for LiveArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}  {}", units::size(self.bytes), self.aval, self.placement)?;
        match self.created_at.get() {
            Some(location) => write!(f, "  at {location}"),
            None => Ok(()),
        }
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    // Each change is one insertion or removal, which a panic cannot interrupt halfway.
    ARRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts or stops tracking of new arrays. Arrays tracked before remain listed while they live.
pub(crate) fn set_tracked(tracked: bool) {
    IS_SET.store(true, Ordering::Relaxed);
    TRACKED.store(tracked, Ordering::Relaxed);
}

/// Starts tracking because the environment requests it, unless the program has set it.
pub(super) fn set_tracked_by_environment() {
    if !IS_SET.load(Ordering::Relaxed) {
        TRACKED.store(true, Ordering::Relaxed);
    }
}

/// Returns true while new arrays are tracked.
pub(crate) fn is_tracked() -> bool {
    TRACKED.load(Ordering::Relaxed)
}

/// Returns the tracked arrays, the largest first; arrays of equal size in the order of creation.
///
/// # Errors
/// `Plugin` if arrays are not tracked.
pub(crate) fn live_arrays() -> Result<Vec<LiveArray>, Error> {
    let registry = registry();
    if !is_tracked() && registry.arrays.is_empty() {
        return Err(Error::Plugin(
            "live_arrays: arrays are not tracked\n  help: OXIDAX_TRACK_ARRAYS=1 tracks all arrays \
             of the process, `config::update(ProcessConfig::new().track_arrays(true))` those that \
             are created afterwards"
                .into(),
        ));
    }
    let mut arrays: Vec<LiveArray> = registry.arrays.values().cloned().collect();
    arrays.sort_by_key(|array| std::cmp::Reverse(array.bytes));
    Ok(arrays)
}

/// Membership of a buffer in the registry; it ends with the buffer. 0 if it is not tracked.
#[derive(Debug, Default)]
pub(super) struct Tracked(AtomicU64);

impl Tracked {
    /// Registers a buffer, if arrays are tracked.
    #[inline]
    pub(super) fn new(aval: &Arc<Aval>, placement: impl FnOnce() -> Placement) -> Tracked {
        if is_tracked() { Tracked::register(aval, placement()) } else { Tracked::default() }
    }

    #[cold]
    fn register(aval: &Arc<Aval>, placement: Placement) -> Tracked {
        let bytes = match &placement {
            Placement::Device(_) => aval.bytes() as u64,
            Placement::Mesh(sharding) => {
                let local = sharding.devices().iter().filter(|device| device.is_local()).count();
                let shard = sharding.shard_shape(&aval.shape);
                shard.map_or(0, |shape| aval.with_shape(shape).bytes() as u64 * local as u64)
            }
        };
        let (aval, created_at) = ((**aval).clone(), Loc::scoped());
        let mut registry = registry();
        let number = registry.next;
        registry.next += 1;
        registry.arrays.insert(number, LiveArray { aval, placement, bytes, created_at });
        Tracked(AtomicU64::new(number))
    }

    /// Removes the buffer from the registry: its elements are gone.
    #[inline]
    pub(super) fn release(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.remove();
        }
    }

    #[cold]
    fn remove(&self) {
        registry().arrays.remove(&self.0.swap(0, Ordering::Relaxed));
    }
}

impl Drop for Tracked {
    #[inline]
    fn drop(&mut self) {
        self.release();
    }
}
