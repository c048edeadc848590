//! Rules of the compilers of kernels, checked when a kernel is traced.

mod tpu;

use super::kernel::{GpuBackend, KernelTarget};
use super::kernel_call::{KernelCall, KernelPlatform};
use super::{mosaic_gpu, triton};
use crate::core::{Loc, RuleError};

/// Checks a kernel. `locs` has the locations of the specifications of inputs, then of outputs.
///
/// A kernel that runs as a loop on every platform has no rules. A kernel with another one for GPUs
/// has no rules of GPUs.
///
/// # Errors
/// The violated rule, and the location of the specification or operation.
pub(super) fn check(kernel: &KernelCall, locs: &[Loc]) -> Result<(), (RuleError, Loc)> {
    if kernel.options.interpret {
        return Ok(());
    }
    if kernel.options.targets.contains(&KernelTarget::Tpu) {
        tpu::check(kernel, locs)?;
    }
    let has_variant = kernel.variant(KernelPlatform::Gpu).is_some();
    if kernel.options.targets.contains(&KernelTarget::Gpu) && !has_variant {
        if kernel.options.gpu_backend == GpuBackend::MosaicGpu {
            return mosaic_gpu(kernel, locs);
        }
        let windows = kernel.inputs.iter().chain(&kernel.outputs);
        for (window, &loc) in windows.zip(locs) {
            triton::check::window(window).map_err(|error| (error, loc))?;
        }
        triton::check::kernel(kernel).map_err(|error| (error, Loc::UNKNOWN))?;
        triton::shared_memory::check(kernel)?;
    }
    Ok(())
}

/// Checks a kernel for Mosaic GPU: its blocks, and the operations that it takes.
fn mosaic_gpu(kernel: &KernelCall, locs: &[Loc]) -> Result<(), (RuleError, Loc)> {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    for (window, &loc) in windows.zip(locs) {
        mosaic_gpu::check::window(window).map_err(|error| (error, loc))?;
    }
    mosaic_gpu::emit(kernel).map(drop)
}
