//! Memory mappings of the operating system.

use std::ffi::{c_int, c_long, c_void};

use super::blocks::{HUGE_PAGE, Source};

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const MAP_PRIVATE: c_int = 2;
const MAP_ANONYMOUS: c_int = 0x20;
const MADV_FREE: c_int = 8;
const MADV_HUGEPAGE: c_int = 14;
const SC_PAGESIZE: c_int = 30;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(address: *mut c_void, length: usize) -> c_int;
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    safe fn sysconf(name: c_int) -> c_long;
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) length: usize,
}

/// Anonymous memory of the process.
pub(super) struct System;

impl Source for System {
    fn map(&mut self, bytes: usize) -> Option<usize> {
        // Room to align the region; what is left over at both ends is returned.
        let length = bytes.checked_add(HUGE_PAGE)?;
        // SAFETY: a new anonymous mapping at an address that the system chooses.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address.addr() == usize::MAX {
            return None;
        }
        let address = address.addr();
        let start = address.next_multiple_of(HUGE_PAGE);
        for (start, length) in
            [(address, start - address), (start + bytes, address + length - start - bytes)]
        {
            if length > 0 {
                self.unmap(Region { start, length });
            }
        }
        self.advise(Region { start, length: bytes }, MADV_HUGEPAGE);
        Some(start)
    }

    fn unmap(&mut self, range: Region) {
        // SAFETY: the range was mapped by `map`, and nothing in it is in use. A failure leaves it
        // mapped, which wastes memory but is otherwise harmless.
        unsafe { munmap(range.start as *mut c_void, range.length) };
    }

    fn make_reclaimable(&mut self, range: Region) {
        self.advise(range, MADV_FREE);
    }
}

impl System {
    /// Advises the kernel, which may ignore it or not know the advice.
    fn advise(&mut self, range: Region, advice: c_int) {
        // SAFETY: the range was mapped by `map` and holds no block, so that its contents may
        // change.
        unsafe { madvise(range.start as *mut c_void, range.length, advice) };
    }
}

/// Returns the size of a page.
pub(super) fn page_size() -> usize {
    usize::try_from(sysconf(SC_PAGESIZE)).unwrap_or(4096)
}

/// Makes whole pages writable, or read-only again. Returns false if the system refuses.
///
/// # Safety
/// The pages belong to a loaded library, and nothing relies on their protection.
pub(super) unsafe fn protect(range: Region, writable: bool) -> bool {
    let protection = if writable { PROT_READ | PROT_WRITE } else { PROT_READ };
    // SAFETY: the caller guarantees the pages.
    unsafe { mprotect(range.start as *mut c_void, range.length, protection) == 0 }
}
