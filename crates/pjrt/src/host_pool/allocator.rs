//! The functions that replace a plugin's imports.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::super::HostPoolStats;
use super::blocks::{Blocks, GRAIN};
use super::imports::{Import, imports};
use super::mapping::System;

/// The smallest block that the pool provides, in bytes. The C library reuses smaller ones well.
const LEAST_BLOCK: usize = 1 << 20;

type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;

/// The functions that the plugins called before. They need not be the C library's: a program may
/// link another allocator.
#[derive(Clone, Copy)]
struct Originals {
    posix_memalign: PosixMemalign,
    free: Free,
    realloc: Realloc,
}

unsafe extern "C" {
    #[link_name = "posix_memalign"]
    fn c_posix_memalign(result: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    #[link_name = "free"]
    fn c_free(block: *mut c_void);
    #[link_name = "realloc"]
    fn c_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

/// The functions that this program calls by these names.
const C_LIBRARY: Originals =
    Originals { posix_memalign: c_posix_memalign, free: c_free, realloc: c_realloc };

static ORIGINALS: OnceLock<Originals> = OnceLock::new();
/// True if new blocks come from the pool.
static ENABLED: AtomicBool = AtomicBool::new(true);
static BLOCKS: Mutex<Blocks<System>> = Mutex::new(Blocks::new(System));

/// The imports to redirect, in this order: nothing comes from the pool before it can be freed.
const NAMES: [&CStr; 3] = [c"free", c"realloc", c"posix_memalign"];

fn blocks() -> MutexGuard<'static, Blocks<System>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Uses the pool for new blocks of the plugins that were redirected to it, or no longer. Without
/// it, idle memory is returned to the system; blocks in use stay valid.
pub fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
    if !enabled {
        blocks().shrink(0);
    }
}

/// Returns the sizes of the pool.
pub fn stats() -> HostPoolStats {
    let blocks = blocks();
    HostPoolStats { in_use: blocks.in_use(), held: blocks.held(), peak: blocks.peak() }
}

/// Redirects a library's large blocks to the pool. A second call for a library changes nothing.
///
/// # Errors
/// The reason why it is impossible.
///
/// # Safety
/// `library` was returned by `dlopen` with immediate binding, and is never closed.
pub(crate) unsafe fn redirect(library: *mut c_void) -> Result<(), String> {
    static REDIRECTING: Mutex<()> = Mutex::new(());
    let _redirecting = REDIRECTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller guarantees the library.
    let imports = unsafe { imports(library, &NAMES) };
    let replacements =
        [free as *const c_void, realloc as *const c_void, posix_memalign as *const c_void];
    let is_redirected = |import: &Import| import.target() == replacements[import.function];
    if !imports.is_empty() && imports.iter().all(is_redirected) {
        return Ok(());
    }
    let target = |function: usize| {
        let mut targets = imports.iter().filter(|import| import.function == function);
        let first = targets.next().map(Import::target);
        let first = first.ok_or_else(|| format!("it does not import {:?}", NAMES[function]))?;
        let is_unique = targets.all(|other| other.target() == first);
        is_unique.then_some(first).ok_or_else(|| format!("it has two {:?}", NAMES[function]))
    };
    let targets = [target(0)?, target(1)?, target(2)?];
    // SAFETY: the loader stored these addresses for imports of these names, which have these types
    // in C.
    let originals = unsafe {
        Originals {
            free: std::mem::transmute::<*const c_void, Free>(targets[0]),
            realloc: std::mem::transmute::<*const c_void, Realloc>(targets[1]),
            posix_memalign: std::mem::transmute::<*const c_void, PosixMemalign>(targets[2]),
        }
    };
    let known = ORIGINALS.get_or_init(|| originals);
    if known.free as *const c_void != targets[0] {
        return Err("it frees memory with another allocator than the first plugin".to_owned());
    }
    for function in 0..NAMES.len() {
        for import in imports.iter().filter(|import| import.function == function) {
            // SAFETY: the replacement has the type of the imported function.
            if !unsafe { import.redirect(replacements[function]) } {
                return Err(format!("its import of {:?} cannot be changed", NAMES[function]));
            }
        }
    }
    Ok(())
}

/// Returns the originals, which are set before the first import is redirected.
fn originals() -> Originals {
    *ORIGINALS.get_or_init(|| C_LIBRARY)
}

/// Returns true if the pool can have a block at this address.
fn may_be_pooled(block: *mut c_void) -> bool {
    block.addr().is_multiple_of(GRAIN) && !block.is_null()
}

/// Replaces `posix_memalign` of C.
unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    if size >= LEAST_BLOCK
        && alignment <= GRAIN
        && ENABLED.load(Ordering::Relaxed)
        && let Some(address) = blocks().allocate(size)
    {
        // SAFETY: the caller passes a valid pointer to the result.
        unsafe { *result = address as *mut c_void };
        return 0;
    }
    // SAFETY: the caller fulfils the function's contract.
    unsafe { (originals().posix_memalign)(result, alignment, size) }
}

/// Replaces `free` of C.
unsafe extern "C" fn free(block: *mut c_void) {
    if may_be_pooled(block) && release(block) {
        return;
    }
    // SAFETY: the caller fulfils the function's contract, and the block is not one of the pool.
    unsafe { (originals().free)(block) }
}

/// Releases a block of the pool. Returns false if it is not one.
fn release(block: *mut c_void) -> bool {
    let mut blocks = blocks();
    let released = blocks.release(block.addr());
    if released && !ENABLED.load(Ordering::Relaxed) {
        blocks.shrink(0);
    }
    released
}

/// Replaces `realloc` of C.
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let realloc = originals().realloc;
    let pooled = may_be_pooled(block).then(|| blocks().length(block.addr())).flatten();
    let Some(length) = pooled else {
        // SAFETY: the caller fulfils the function's contract, and the block is not one of the pool.
        return unsafe { realloc(block, size) };
    };
    if size == 0 {
        release(block);
        return std::ptr::null_mut();
    }
    // SAFETY: without a block, `realloc` allocates. Both blocks have the copied bytes and are
    // distinct.
    unsafe {
        let moved = realloc(std::ptr::null_mut(), size);
        if !moved.is_null() {
            block.cast::<u8>().copy_to_nonoverlapping(moved.cast(), size.min(length));
            release(block);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_pool_are_distinct_memory_and_can_be_moved() {
        let allocate = |size: usize| {
            let mut block = std::ptr::null_mut();
            // SAFETY: the result is valid.
            assert_eq!(unsafe { posix_memalign(&raw mut block, 64, size) }, 0);
            block.cast::<u8>()
        };
        let sizes = [LEAST_BLOCK, LEAST_BLOCK + 1, 5 << 20, 100];
        let filled: Vec<*mut u8> = sizes.iter().map(|&size| allocate(size)).collect();
        for (at, (&block, &size)) in filled.iter().zip(&sizes).enumerate() {
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(at as u8 + 1, size) };
        }
        for (at, (&block, &size)) in filled.iter().zip(&sizes).enumerate() {
            // SAFETY: the block has this size and was filled.
            let bytes = unsafe { std::slice::from_raw_parts(block, size) };
            assert!(bytes.iter().all(|&byte| byte == at as u8 + 1), "block {at}");
            assert_eq!(blocks().length(block.addr()).is_some(), size >= LEAST_BLOCK);
        }
        // SAFETY: the blocks are in use, and each is released once.
        unsafe {
            let moved = realloc(filled[2].cast(), 6 << 20).cast::<u8>();
            assert_eq!((moved.read(), moved.add((5 << 20) - 1).read()), (3, 3));
            free(moved.cast());
            for block in [filled[0], filled[1], filled[3]] {
                free(block.cast());
            }
        }
        let length = |block: *mut u8| blocks().length(block.addr());
        assert!(filled.iter().all(|&block| length(block).is_none()));
    }
}
