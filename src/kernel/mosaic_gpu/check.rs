//! Limits of kernels that are checked when a kernel is traced: the plugin compiles kernels that
//! exceed them, and they fail when they start.

use super::super::kernel_call::{BlockMapping, KernelCall};
use super::super::triton::check_dtype;
use crate::core::{Aval, RuleError, RuleResult};

/// The most warps of one program: 1,024 threads.
const MAX_WARPS: u32 = 32;
/// The most elements of a block: indices in a block are numbers of 32 bits.
const MAX_ELEMENTS: usize = 1 << 30;

/// Checks the options and the scratch memory of a kernel.
pub(in crate::kernel) fn kernel(kernel: &KernelCall) -> RuleResult<()> {
    if let Some(count) = kernel.options.num_warps
        && (!count.is_power_of_two() || count > MAX_WARPS)
    {
        return Err(RuleError::value(format!("{count} warps per program on a GPU"))
            .help("set `KernelOptions::num_warps` to a power of two up to 32"));
    }
    kernel.scratch.iter().try_for_each(|scratch| block("scratch memory", scratch.aval()))
}

/// Checks the block of an input or output.
pub(in crate::kernel) fn window(window: &BlockMapping) -> RuleResult<()> {
    block("a block", &window.ref_aval())?;
    let longest = window.array.shape.iter().copied().max().unwrap_or(0);
    if longest <= MAX_ELEMENTS {
        return Ok(());
    }
    Err(RuleError::shape(format!(
        "an axis of {longest} elements, of {}, has more than {MAX_ELEMENTS} in a kernel of Mosaic \
         GPU",
        window.array
    ))
    .help("split the axis outside of the kernel"))
}

fn block(role: &str, aval: &Aval) -> RuleResult<()> {
    check_dtype(aval.dtype)?;
    if aval.shape.contains(&0) {
        return Err(RuleError::shape(format!("{role} of {aval} on a GPU has no elements")));
    }
    match aval.size() <= MAX_ELEMENTS {
        true => Ok(()),
        false => Err(RuleError::shape(format!(
            "{role} of {aval} has more than {MAX_ELEMENTS} elements in a kernel of Mosaic GPU"
        ))
        .help("choose smaller blocks")),
    }
}
