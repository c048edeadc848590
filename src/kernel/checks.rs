//! Rules of the compilers of kernels, checked when a kernel is traced.

use super::kernel::KernelTarget;
use super::kernel_call::{KernelCall, Window};
use super::spec::{BlockDim, Memory};
use super::triton;
use crate::core::{Loc, RuleError, RuleResult};

/// The number of lanes of a TPU's vector registers: the tile along the last axis.
const LANES: usize = 128;
/// The number of sublanes: the tile along the axis before, for elements of 32 bits.
const SUBLANES: usize = 8;

/// Checks a kernel. `locs` has the locations of the specifications of inputs, then of outputs.
///
/// # Errors
/// The violated rule, and the location of the specification or operation.
pub(super) fn check(kernel: &KernelCall, locs: &[Loc]) -> Result<(), (RuleError, Loc)> {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    for (index, (window, &loc)) in windows.zip(locs).enumerate() {
        let role = match index.checked_sub(kernel.inputs.len()) {
            None => format!("input {index}"),
            Some(output) => format!("output {output}"),
        };
        if kernel.options.targets.contains(&KernelTarget::Tpu) {
            check_tiles(&role, window).map_err(|error| (error, loc))?;
        }
        if kernel.options.targets.contains(&KernelTarget::Gpu) {
            triton::check::window(window).map_err(|error| (error, loc))?;
        }
    }
    if kernel.options.targets.contains(&KernelTarget::Gpu) {
        triton::check::kernel(kernel).map_err(|error| (error, Loc::UNKNOWN))?;
    }
    Ok(())
}

/// Checks that a block consists of whole tiles of a TPU's vector registers.
fn check_tiles(role: &str, window: &Window) -> RuleResult<()> {
    if window.memory != Memory::Vmem {
        return Ok(());
    }
    let rank = window.block.len();
    let tiles = [(rank.checked_sub(1), LANES), (rank.checked_sub(2), SUBLANES)];
    for (axis, tile) in tiles {
        let Some(axis) = axis else { continue };
        let (size, block) = (window.array.shape[axis], window.block[axis]);
        if block.size() % tile == 0 || block == BlockDim::Size(size) || size == 1 {
            continue;
        }
        let message = format!(
            "{role}: a block of {} along axis {axis} of {}, which is neither a multiple of {tile} \
             nor the whole axis",
            block.size(),
            window.array
        );
        return Err(RuleError::shape(message).help(
            "a TPU's registers hold tiles of 8 x 128: choose multiples of them for the last two \
             axes, or whole axes; for other platforms alone, set `Kernel::targets`",
        ));
    }
    Ok(())
}
