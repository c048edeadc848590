//! Bytes that a kernel moves between the device's memory and its own.

use super::kernel_call::{BlockMapping, KernelCall};

/// Returns the number of times that a block is moved: once for each change of its index.
pub(super) fn n_moves(kernel: &KernelCall, window: &BlockMapping) -> usize {
    match window.innermost_axis(kernel.rank()) {
        Some(axis) => kernel.grid[..=axis].iter().product(),
        None => 1,
    }
}

/// Returns the bytes of all blocks read and written.
pub(super) fn bytes(kernel: &KernelCall) -> u64 {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    let bytes = windows
        .map(|window| (n_moves(kernel, window) as u64).saturating_mul(window.block_bytes() as u64));
    bytes.fold(0, u64::saturating_add)
}
