//! A pool for the large memory blocks of a CPU plugin.
//!
//! A CPU plugin takes the temporary memory and the results of each call from the C library and
//! returns them afterwards. The C library maps each block of more than 32 MiB on its own and unmaps
//! it when it is freed. Each call then faults all its pages in again, and the kernel clears them,
//! which takes a third of the processor time of a GPT-2 step. Settings of the C library that avoid
//! it must be made before the process has threads, and fragment its heap.
//!
//! [`Plugin::use_host_pool`](crate::Plugin::use_host_pool) redirects the plugin's own imports of
//! `posix_memalign`, `free` and `realloc`, and nothing else in the process. Blocks of at least
//! 1 MiB then come from a pool, which keeps freed memory for the next block and requests huge
//! pages. Freed memory stays mapped, but the kernel may reclaim large ranges when memory is short.
//! The pool holds at most what was in use at one time, besides fragments.
//!
//! - `imports` finds and exchanges the addresses of imported functions.
//! - `allocator` holds the replacements.
//! - `blocks` decides which addresses a block gets. Tests run it without memory.
//! - `mapping` maps and unmaps memory.
//!
//! Systems other than Linux with glibc, and other processors, have no pool.

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[path = ""]
mod imp {
    mod allocator;
    mod blocks;
    mod imports;
    mod mapping;

    pub(crate) use allocator::redirect;
    pub use allocator::{set_enabled, stats};
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod imp {
    use super::HostPoolStats;

    pub(crate) unsafe fn redirect(_library: *mut std::ffi::c_void) -> Result<(), String> {
        Err("the pool needs Linux with glibc on x86-64 or aarch64".to_owned())
    }

    /// Does nothing: there is no pool.
    pub fn set_enabled(_enabled: bool) {}

    /// Returns zeros: there is no pool.
    pub fn stats() -> HostPoolStats {
        HostPoolStats::default()
    }
}

pub(crate) use imp::redirect;
pub use imp::{set_enabled, stats};

/// Sizes of the pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostPoolStats {
    /// Memory of blocks in use.
    pub in_use: usize,
    /// Memory that the pool has mapped: in use, idle, or not touched yet.
    pub held: usize,
    /// The most memory that was in use at one time.
    pub peak: usize,
}
