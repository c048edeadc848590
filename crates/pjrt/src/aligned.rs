//! Host memory aligned so that CPU devices can use it without a copy.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The alignment, in bytes, at which the CPU plugins use host memory without a copy.
pub const ALIGNMENT: usize = 64;

/// A heap allocation of bytes, aligned to 64 bytes.
///
/// ```
/// # use oxidax_pjrt::AlignedBytes;
/// let mut bytes = AlignedBytes::zeroed(5);
/// bytes.copy_from_slice(b"hello");
/// assert_eq!(bytes.as_ptr() as usize % 64, 0);
/// ```
pub struct AlignedBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the block is owned like a `Box<[u8]>`.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Allocates `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Self { start: start.unwrap_or_else(|| handle_alloc_error(layout)), len }
    }

    /// Copies `bytes` into a new allocation.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }

    /// Returns the layout of a block of `len` bytes. It has at least one byte, so that an empty
    /// block also has a unique address.
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), ALIGNMENT)
            .expect("a slice's length fits the address space")
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block holds `len` initialized bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}
