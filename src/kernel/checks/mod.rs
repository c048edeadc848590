//! Rules of the compilers of kernels, checked when a kernel is traced.

mod tpu;

#[cfg(test)]
mod tests;

use super::kernel::KernelTarget;
use super::kernel_call::KernelCall;
use crate::core::{Loc, RuleError};

/// Checks a kernel. `locs` has the locations of the specifications of inputs, then of outputs.
///
/// A kernel that runs as a loop on every platform has no rules.
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
    Ok(())
}
