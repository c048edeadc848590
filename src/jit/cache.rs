//! Caches of compiled programs: how large they are, what they have been good for, and where programs are kept on disk.
//!
//! | cache | found by | limit | counted in |
//! |-------|----------|-------|------------|
//! | one for each [`Jit`](crate::jit::Jit) | structure, types and places of the arguments | [`cache_size`](crate::jit::Jit::cache_size) | [`JitStats`](crate::jit::JitStats) |
//! | single operations outside of any trace | operation, types and places of the operands | [`set_limits`] | [`Stats::operations`] |
//! | transforms outside of `jit` | the program, places of the arguments | [`set_limits`] | [`Stats::programs`] |
//! | on disk, for later processes | everything that decides what a program compiles to | [`Settings`] | [`Stats::disk`] |
//!
//! The cache on disk is on by default, in the user's cache folder. `docs/caching.md` says what goes into its keys, what is
//! not kept, and how it is looked at and cleared from the command line.

use crate::core::Error;
use crate::runtime;

pub use crate::runtime::{Counts, DiskStats, Settings};

/// What the caches of this process have been good for so far, but for those of each [`Jit`](crate::jit::Jit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Single operations outside of any trace.
    pub operations: Counts,
    /// Programs of transforms that were called outside of `jit`.
    pub programs: Counts,
    /// Programs on disk.
    pub disk: DiskStats,
}

/// What the caches of this process have been good for so far.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let step = jit(|x: Array| sin(&x));
/// step.call(ones([3], DType::F32))?;
/// let disk = oxidax::jit::cache::stats().disk;
/// println!("{} loaded, {} compiled, {:?} saved", disk.hits, disk.misses, disk.saved);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.monitoring")]
pub fn stats() -> Stats {
    let [operations, programs] = runtime::eager_counts();
    Stats { operations, programs, disk: runtime::disk_stats() }
}

/// Sets how many single operations (4096 unless set) and programs of transforms (1024) are kept compiled in memory. What is
/// longest unused goes at once if there are more. 0 counts as 1.
///
/// ```
/// oxidax::jit::cache::set_limits(500, 100);
/// assert_eq!(oxidax::jit::cache::stats().operations.limit, 500);
/// ```
#[doc(alias = "jax.clear_caches")]
pub fn set_limits(operations: usize, programs: usize) {
    runtime::set_eager_limits(operations, programs);
}

/// The settings of the cache on disk: those of [`set_disk`], else the environment's.
///
/// # Errors
/// `Plugin` if a variable makes no sense, with what it may be.
pub fn disk() -> Result<Settings, Error> {
    runtime::disk_settings()
}

/// Sets where compiled programs are kept from here on, and how many, whatever the environment says.
///
/// # Errors
/// [`Error::Io`] for a folder that others own or can write, with the remedy: what lies in it is machine code.
///
/// ```
/// use oxidax::jit::cache::{Settings, disk, set_disk};
/// use std::time::Duration;
/// // Everything is kept, however fast it compiles, in a folder of this program's own.
/// let folder = tempfile::tempdir()?;
/// set_disk(Settings { min_compile: Duration::ZERO, ..Settings::in_folder(folder.path()) })?;
/// assert!(disk()?.is_on());
/// // Nothing is kept.
/// set_disk(Settings::off())?;
/// assert!(!disk()?.is_on());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_disk(settings: Settings) -> Result<(), Error> {
    runtime::set_disk(settings)
}
